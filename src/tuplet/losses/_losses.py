"""The losses of the paper, each a plain function on tensors, each a mean over its anchors.

Everywhere h(x, y) = exp(cos(x, y) / t): rows are scaled to unit length here, and only log-sum-exps are formed, so
that low temperatures do not overflow. DMT, DMAT and DMAT-i are made of one quantity, the log of a row's sum in the
similarity matrix; for large batches it is computed tile by tile and the matrix is never held (`_log_sums.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from tuplet.losses._log_sums import cross_log_sums, self_log_sums


def to_unit(z: Tensor) -> Tensor:
    """Rows of `z` (b, d) scaled to unit length. A zero row stays zero and its gradient stays finite.

    >>> to_unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    length = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    scaled: Tensor = z / length.masked_fill(length == 0, 1.0)
    return scaled


def tuplet_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Mean of log(1 + sum of h(x, x-) / h(x, x+) over the negatives of x)   (paper, Eq. 1).

    `anchors` and `positives` are (b, d); `negatives` is (b, q, d), q of them for each anchor.
    """
    x, plus, minus = to_unit(anchors), to_unit(positives), to_unit(negatives)
    gap = torch.einsum("bd,bqd->bq", x, minus) - (x * plus).sum(1, keepdim=True)
    return torch.logsumexp(torch.nn.functional.pad(gap / temperature, (1, 0)), dim=1).mean()  # the pad is the 1


def unbiased_loss(
    anchors: Tensor, positives: Tensor, negatives: Tensor, *, n_negatives: int | None = None, temperature: float = 1.0
) -> Tensor:
    """Mean of -log(h(x, x+) / (h(x, x+) + (N - 1) E h(x, x-)))   (paper, Eq. 2).

    The expectation over rows of other classes is the mean over the given `negatives` (b, q, d). `n_negatives` is
    N - 1; by default q, which makes this the tuplet loss.
    """
    x, plus, minus = to_unit(anchors), to_unit(positives), to_unit(negatives)
    near = (x * plus).sum(1) / temperature
    far = torch.logsumexp(torch.einsum("bd,bqd->bq", x, minus) / temperature, dim=1)
    count = minus.shape[1]
    far = far + torch.log(torch.as_tensor((n_negatives or count) / count, dtype=far.dtype, device=far.device))
    return (torch.logaddexp(near, far) - near).mean()


def contrastive_loss(
    anchors: Tensor, positives: Tensor, samples: Tensor, *, n_negatives: int | None = None, temperature: float = 1.0
) -> Tensor:
    """Mean of -log(h(x, x+) / (h(x, x+) + (N - 1) E h(x, y)))   (paper, Eq. 3).

    The same formula as `unbiased_loss`, but `samples` (b, q, d) are drawn from all rows, whatever their class: some
    of them are positives, and that is the bias.
    """
    return unbiased_loss(anchors, positives, samples, n_negatives=n_negatives, temperature=temperature)


def dmt_loss(z: Tensor, y: Tensor, *, temperature: float) -> Tensor:
    """Mean over the b anchors of -log(sum of h over the rows of x's class, x too / sum over all rows)   (Eq. 4).

    `z` is (b, d), `y` (b,) holds the classes.
    """
    everything, same = self_log_sums(to_unit(z), temperature, y, without_self=False)
    assert same is not None
    return (everything - same).mean()


def dmat_loss(u: Tensor, v: Tensor, y: Tensor, *, temperature: float) -> Tensor:
    """Mean over the 2b anchors of -log(sum of h over x's class but x / sum of h over all rows but x)   (Eq. 5).

    `u` and `v` are (b, d), row i of each a view of node i, whose class `y` (b,) both carry.
    """
    return dmat_pair(dmat_anchor(u, y, temperature), v, y, temperature)


def dmati_loss(u: Tensor, v: Tensor, *, temperature: float) -> Tensor:
    """Mean over the 2b anchors of -log(h(x, x') / sum of h(x, y) over all y but x)   (paper, Eq. 6-7).

    `u` and `v` are (b, d), row i of each a view of node i.

    >>> u = torch.eye(2)
    >>> dmati_loss(u, u, temperature=1.0)  # log(e + 1 + 1) - 1
    tensor(0.5514)
    """
    return dmati_pair(dmati_anchor(u, temperature), v, temperature)


# The same two losses in two steps: what concerns the anchor view alone is computed once for all its views.


def dmati_anchor(u: Tensor, temperature: float) -> tuple[Tensor, ...]:
    """What `dmati_pair` needs of the anchor view: its unit rows and their log sums among themselves."""
    w = to_unit(u)
    return w, self_log_sums(w, temperature, without_self=True)[0]


def dmati_pair(anchor: tuple[Tensor, ...], v: Tensor, temperature: float) -> Tensor:
    """The DMAT-i loss between the anchor view and `v` (b, d)."""
    (w, within), r = anchor, to_unit(v)
    across, _ = cross_log_sums(w, r, temperature)
    others, _ = self_log_sums(r, temperature, without_self=True)
    sums = torch.logaddexp(across, torch.stack([within, others]))  # (2, b): over all rows but x itself
    return sums.mean() - (w * r).sum(1).mean() / temperature


def dmat_anchor(u: Tensor, y: Tensor, temperature: float) -> tuple[Tensor, ...]:
    """What `dmat_pair` needs of the anchor view: its unit rows and their log sums, over all rows and over a class."""
    w = to_unit(u)
    everything, same = self_log_sums(w, temperature, y, without_self=True)
    assert same is not None
    return w, everything, same


def dmat_pair(anchor: tuple[Tensor, ...], v: Tensor, y: Tensor, temperature: float) -> Tensor:
    """The DMAT loss between the anchor view and `v` (b, d), of classes `y` (b,)."""
    (w, within, within_same), r = anchor, to_unit(v)
    across, across_same = cross_log_sums(w, r, temperature, y)
    others, others_same = self_log_sums(r, temperature, y, without_self=True)
    assert across_same is not None and others_same is not None
    everything = torch.logaddexp(across, torch.stack([within, others]))
    same = torch.logaddexp(across_same, torch.stack([within_same, others_same]))
    return (everything - same).mean()


# The same two losses for a stack of views at once, by the matrix itself: fewest launches, for small batches on a GPU.


def dmati_stack(u: Tensor, v: Tensor, temperature: float) -> Tensor:
    """Mean over the views of the DMAT-i loss between `u` (b, d) and each view of the stack `v` (n_views, b, d)."""
    logits = _stacked_logits(u, v, temperature)
    b = u.shape[0]
    partner = (torch.arange(2 * b, device=u.device) + b) % (2 * b)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), partner.repeat(v.shape[0]))


def dmat_stack(u: Tensor, v: Tensor, y: Tensor, temperature: float) -> Tensor:
    """Mean over the views of the DMAT loss between `u` (b, d) and each of `v` (n_views, b, d), of classes `y`."""
    logits, labels = _stacked_logits(u, v, temperature), torch.cat([y, y])
    same = labels[:, None] == labels[None, :]
    return -torch.logsumexp(logits.log_softmax(-1).masked_fill(~same, -torch.inf), -1).mean()


def _stacked_logits(u: Tensor, v: Tensor, temperature: float) -> Tensor:
    """Cosines / t among the 2b rows of (u, view), for each view: (n_views, 2b, 2b), -inf from a row to itself."""
    w = to_unit(torch.cat([u.expand(v.shape[0], -1, -1), v], dim=1))
    itself = torch.eye(w.shape[1], dtype=torch.bool, device=w.device)
    return torch.bmm(w / temperature, w.transpose(1, 2)).masked_fill(itself, -torch.inf)
