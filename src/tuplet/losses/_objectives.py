"""The table of objectives: what training can minimise. A new loss is one `Objective` and one `register` call.

The trainer, `TrainConfig` and the estimators ask this table; none of them knows a loss by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from tuplet._check import check_choice
from tuplet.losses import _losses as direct

Terms: TypeAlias = "tuple[Tensor, ...]"
Loss: TypeAlias = Callable[[Tensor, Any, Any, float], Tensor]


@dataclass(frozen=True)
class Objective:
    """A loss of a batch of encoded rows, a mean over its anchors.

    `loss(u, v, y, t)`: `u` (b, d) are the encoded rows, `v` (b, d) those of one masked view, `y` (b,) the classes,
    `t` the temperature. Without `views`, v is None; where labels are not needed, y is None. The mean over the views
    is minimised. The other three are faster ways to the same number, and may be left out: `anchor(u, y, t)` is
    computed once for all views and given to `pair(terms, v, y, t)`; `stack(u, all, y, t)` takes all views
    (n_views, b, d). `of_classes`: the loss is -log(sum of h over the class / over all), with one class a row where
    there are no labels, and so can be trained by many workers (training/sharded.py).
    """

    name: str
    loss: Loss
    needs_labels: bool = False
    views: bool = True
    anchor: Callable[[Tensor, Any, float], Terms] | None = None
    pair: Callable[[Terms, Tensor, Any, float], Tensor] | None = None
    stack: Loss | None = None
    of_classes: bool = False

    def anchor_terms(self, u: Tensor, y: Tensor | None, t: float) -> Terms:
        """What the loss needs of the rows without a mask."""
        return (u,) if self.anchor is None else self.anchor(u, y, t)

    def pair_loss(self, terms: Terms, v: Tensor, y: Tensor | None, t: float) -> Tensor:
        """The loss of those terms and one view."""
        return self.loss(terms[0], v, y, t) if self.pair is None else self.pair(terms, v, y, t)


OBJECTIVES: dict[str, Objective] = {}


def register(objective: Objective) -> Objective:
    """Put `objective` into the table; from then on `TrainConfig(loss=objective.name)` trains by it."""
    OBJECTIVES[objective.name] = objective
    return objective


def objective_of(name: str) -> Objective:
    """The objective of that name.

    >>> objective_of("dmati").needs_labels, objective_of("dmt").views
    (False, False)
    """
    return OBJECTIVES[check_choice("loss", name, OBJECTIVES)]


register(
    Objective(
        "dmati",
        lambda u, v, y, t: direct.dmati_loss(u, v, temperature=t),
        anchor=lambda u, y, t: direct.dmati_anchor(u, t),
        pair=lambda terms, v, y, t: direct.dmati_pair(terms, v, t),
        stack=lambda u, v, y, t: direct.dmati_stack(u, v, t),
        of_classes=True,
    )
)
register(
    Objective(
        "dmat",
        lambda u, v, y, t: direct.dmat_loss(u, v, y, temperature=t),
        needs_labels=True,
        anchor=direct.dmat_anchor,
        pair=direct.dmat_pair,
        stack=direct.dmat_stack,
        of_classes=True,
    )
)
register(
    Objective(
        "dmt",
        lambda u, v, y, t: direct.dmt_loss(u, y, temperature=t),
        needs_labels=True,
        views=False,
        of_classes=True,
    )
)
