"""The losses of the paper, each a plain function on tensors, each a mean over its anchors.

Everywhere h(x, y) = exp(cos(x, y) / t): rows are scaled to unit length here, and only log-sum-exps are formed, so
that low temperatures do not overflow. DMT, DMAT and DMAT-i share one quantity, the log-sum-exp of a row of the
similarity matrix; for large batches it is computed tile by tile and the matrix is never held (`losses_blockwise`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from tuplet.losses_blockwise import similarity_logsumexp

DIRECT_LIMIT = 4096  # rows up to which the similarity matrix is held whole (64 MB)


def to_unit(z: Tensor) -> Tensor:
    """Rows of `z` (b, d) scaled to unit length. A zero row stays zero and its gradient stays finite.

    >>> to_unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    length = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return z / length.masked_fill(length == 0, 1.0)


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
    w = to_unit(z)
    return (log_sums(w, temperature) - log_sums(w, temperature, labels=y)).mean()


def dmat_loss(u: Tensor, v: Tensor, y: Tensor, *, temperature: float) -> Tensor:
    """Mean over the 2b anchors of -log(sum of h over x's class but x / sum of h over all rows but x)   (Eq. 5).

    `u` and `v` are (b, d), row i of each a view of node i, whose class `y` (b,) both carry.
    """
    w, labels = to_unit(torch.cat([u, v])), torch.cat([y, y])
    everything = log_sums(w, temperature, without_self=True)
    return (everything - log_sums(w, temperature, labels=labels, without_self=True)).mean()


def dmati_loss(u: Tensor, v: Tensor, *, temperature: float) -> Tensor:
    """Mean over the 2b anchors of -log(h(x, x') / sum of h(x, y) over all y but x)   (paper, Eq. 6-7).

    `u` and `v` are (b, d), row i of each a view of node i.

    >>> u = torch.eye(2)
    >>> dmati_loss(u, u, temperature=1.0)  # log(e + 1 + 1) - 1
    tensor(0.5514)
    """
    w = to_unit(torch.cat([u, v]))
    first, second = w.chunk(2)
    agreement = (first * second).sum(1) / temperature
    return log_sums(w, temperature, without_self=True).mean() - agreement.mean()


def log_sums(w: Tensor, temperature: float, *, labels: Tensor | None = None, without_self: bool = False) -> Tensor:
    """log of the sum over j of exp(w_i . w_j / t), for each row i of `w` (m, d): (m,).

    `labels` (m,) restricts the sum to the rows j of i's class; `without_self` leaves j = i out. A row with nothing
    to sum gives -inf.
    """
    if w.shape[0] > DIRECT_LIMIT:
        return similarity_logsumexp(w, temperature, labels, without_self)
    logits = w @ w.T / temperature
    if without_self:
        logits = logits.masked_fill(torch.eye(len(w), dtype=torch.bool, device=w.device), -torch.inf)
    if labels is not None:
        logits = logits.masked_fill(labels[:, None] != labels[None, :], -torch.inf)
    return torch.logsumexp(logits, dim=1)
