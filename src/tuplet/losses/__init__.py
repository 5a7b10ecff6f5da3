"""The losses of the paper, plain functions on tensors, and the table of those that training can minimise."""

from tuplet.losses._losses import (
    contrastive_loss,
    dmat_anchor,
    dmat_loss,
    dmat_pair,
    dmat_stack,
    dmati_anchor,
    dmati_loss,
    dmati_pair,
    dmati_stack,
    dmt_loss,
    to_unit,
    tuplet_loss,
    unbiased_loss,
)
from tuplet.losses._objectives import OBJECTIVES, Objective, objective_of, register

__all__ = [
    "OBJECTIVES", "Objective", "contrastive_loss", "dmat_anchor", "dmat_loss", "dmat_pair", "dmat_stack",
    "dmati_anchor", "dmati_loss", "dmati_pair", "dmati_stack", "dmt_loss", "objective_of", "register", "to_unit",
    "tuplet_loss", "unbiased_loss",
]  # fmt: skip
