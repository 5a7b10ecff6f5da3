"""The losses of the paper, each a plain function on tensors, each a mean over its anchors."""

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

__all__ = [
    "contrastive_loss", "dmat_anchor", "dmat_loss", "dmat_pair", "dmat_stack", "dmati_anchor", "dmati_loss",
    "dmati_pair", "dmati_stack", "dmt_loss", "to_unit", "tuplet_loss", "unbiased_loss",
]  # fmt: skip
