"""Row and column sums of exp(similarity), held whole or tile by tile; the loss functions are made of these.

Up to `DIRECT_LIMIT` rows the exponentials are held for backward. Beyond, the matrix goes tile by tile and is never
held, forward or backward: backward computes the tiles again, and memory stays at a few tiles. A set of rows against
itself is symmetric, so only tiles on and above the diagonal are computed; each serves its rows and its columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from tuplet._threads import held, over

DIRECT_LIMIT = 2048  # rows up to which a similarity matrix is held (16 MB)
TILE = {"cpu": 2048, "cuda": 4096}  # rows of a tile beyond that: 16 MB and 64 MB
PIECE = 128  # rows of a tile that one thread takes, some tenth of a millisecond
STEEP = 0.05  # below this temperature exp(1 / t) leaves the range of float32, and maxima are taken out first


def self_log_sums(
    w: Tensor, temperature: float, labels: Tensor | None = None, *, without_self: bool, tile: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """log of the sum over j of exp(w_i . w_j / t), for each unit row i of `w` (b, d): (b,).

    The second result is the same sum over the rows j of i's class in `labels` (b,) only. `without_self` leaves j = i
    out; a row with nothing to sum gives -inf.
    """
    sums = _apply(w, None, temperature, labels, without_self, tile)
    return sums[0], None if labels is None else sums[1]


def cross_log_sums(
    u: Tensor, v: Tensor, temperature: float, labels: Tensor | None = None, *, tile: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """log of the sums of exp(u_i . v_j / t) over j, for each i, and over i, for each j: (2, b), from one product.

    The second result is the same over pairs of one class only; `labels` (b,) are those of both `u` and `v`.
    """
    sums = _apply(u, v, temperature, labels, False, tile)
    return sums[:2], None if labels is None else sums[2:]


def _apply(
    a: Tensor, b: Tensor | None, temperature: float, labels: Tensor | None, without_self: bool, tile: int | None
) -> Tensor:
    size = tile or (a.shape[0] if a.shape[0] <= DIRECT_LIMIT else TILE.get(a.device.type, TILE["cpu"]))
    root = math.sqrt(temperature)
    b = None if b is None else b / root
    options = (temperature < STEEP, without_self, size)
    sums: Tensor = _LogSums.apply(a / root, b, labels, *options)  # type: ignore[no-untyped-call]
    return sums


class _LogSums(torch.autograd.Function):
    """Log sums of one tile after the other: for all pairs, then for pairs of one class; (1 or 2, b) each.

    Of a set against itself the columns' sums are the rows', so there is one side; of two sets there are two.
    """

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor | None, labels: Tensor | None, steep: bool, without_self: bool, size: int
    ) -> Tensor:
        sides = 1 if b is None else 2
        sums = a.new_full((sides if labels is None else 2 * sides, a.shape[0]), -torch.inf)
        tile = None
        for rows, cols in _tiles(a.shape[0], size, symmetric=b is None):
            tile = _tile(a, b, rows, cols, steep, without_self)
            for k, part in enumerate(_parts(tile, labels, rows, cols, steep)):
                _join(sums[sides * k, rows], part, 1, steep)
                if b is not None or rows != cols:
                    _join(sums[sides * k + sides - 1, cols], part, 0, steep)
        ctx.save_for_backward(a, b, labels, sums, tile if a.shape[0] <= size else None)
        ctx.options = (steep, without_self, size)
        return sums

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        a, b, labels, sums, held = ctx.saved_tensors
        steep, without_self, size = ctx.options
        sides = 1 if b is None else 2
        sums = sums.masked_fill(sums == -torch.inf, torch.inf)  # rows without terms: no gradient, and no NaN
        grad_a = torch.zeros_like(a)
        grad_b = grad_a if b is None else torch.zeros_like(b)
        for rows, cols in _tiles(a.shape[0], size, symmetric=b is None):
            tile = _tile(a, b, rows, cols, steep, without_self) if held is None else held
            ends = []  # the log sums of the tile's rows and columns, and their gradients; then those of one class
            for row in range(0, len(sums), sides):
                col = row + sides - 1
                ends.append((sums[row, rows], grads[0][row, rows], sums[col, cols], grads[0][col, cols]))
            if labels is not None and _by_kernel(tile, steep):
                pull = _pull_of_classes(tile, labels[rows], labels[cols], ends)
            else:
                parts = _parts(tile, labels, rows, cols, steep)
                pull, *more = [_pull(part, *some, steep) for part, some in zip(parts, ends)]
                pull = pull.add_(more[0]) if more else pull
            _add_product(grad_a[rows], pull, (a if b is None else b)[cols])
            if b is not None or rows != cols:
                _add_product(grad_b[cols], pull.T, a[rows])
        return grad_a, None if b is None else grad_b, None, None, None, None


def _tiles(n: int, size: int, symmetric: bool) -> Iterator[tuple[slice, slice]]:
    """Row and column ranges of the tiles; only those on and above the diagonal of a symmetric matrix."""
    for top in range(0, n, size):
        for left in range(top if symmetric else 0, n, size):
            yield slice(top, min(top + size, n)), slice(left, min(left + size, n))


def _tile(a: Tensor, b: Tensor | None, rows: slice, cols: slice, steep: bool, without_self: bool) -> Tensor:
    """exp(similarity) of a tile; the bare similarity when `steep`. What is left out is 0, or -inf."""
    left, right = a[rows], (a if b is None else b)[cols].T
    tile = a.new_empty(len(left), right.shape[1])

    def some(piece: slice) -> None:
        with torch.no_grad():
            torch.mm(left[piece], right, out=tile[piece])
            if not steep:
                tile[piece].exp_()

    _by_pieces(some, tile)
    if without_self and rows == cols:
        tile.fill_diagonal_(-torch.inf if steep else 0.0)
    return tile


def _add_product(out: Tensor, left: Tensor, right: Tensor) -> None:
    """`left` @ `right`, added to `out`."""

    def some(piece: slice) -> None:
        with torch.no_grad():
            out[piece].addmm_(left[piece], right)

    _by_pieces(some, out)


def _by_pieces(some: Callable[[slice], None], rows: Tensor) -> None:
    """Call `some` for all `rows`; where torch is held to one thread, for pieces of them, by the threads of the pool.

    A row of a product has the same bits whatever the piece.
    """
    n = len(rows)
    if rows.device.type != "cpu" or n <= PIECE or not held():
        some(slice(0, n))
        return
    over(some, [slice(start, min(start + PIECE, n)) for start in range(0, n, PIECE)])


def _parts(tile: Tensor, labels: Tensor | None, rows: slice, cols: slice, steep: bool) -> Iterator[Tensor]:
    """The tile, then (with labels) the tile with pairs of different classes left out."""
    yield tile
    if labels is not None and _by_kernel(tile, steep):
        from tuplet.kernels.class_tiles import of_one_class

        part = torch.empty_like(tile)
        of_one_class(tile.numpy(), labels[rows].numpy(), labels[cols].numpy(), part.numpy())
        yield part
    elif labels is not None:
        yield tile.masked_fill(labels[rows, None] != labels[None, cols], -torch.inf if steep else 0.0)


def _join(sums: Tensor, part: Tensor, dim: int, steep: bool) -> None:
    """Add a tile's sums along `dim` to the log sums, in place."""
    more = torch.logsumexp(part, dim) if steep else part.sum(dim).log_()
    torch.logaddexp(sums, more, out=sums)


def _pull(
    part: Tensor, row_sums: Tensor, row_grads: Tensor, col_sums: Tensor, col_grads: Tensor, steep: bool
) -> Tensor:
    """The gradient of the log sums by each similarity of the tile: softmax over row plus over column."""
    if steep:
        over_row = torch.exp(part - row_sums[:, None]).mul_(row_grads[:, None])
        return over_row.add_(torch.exp(part - col_sums[None, :]).mul_(col_grads[None, :]))
    row, col = row_grads * torch.exp(-row_sums), col_grads * torch.exp(-col_sums)
    return (row[:, None] + col[None, :]).mul_(part)


def _by_kernel(tile: Tensor, steep: bool) -> bool:
    return not steep and tile.device.type == "cpu" and tile.dtype == torch.float32


def _pull_of_classes(
    tile: Tensor, rows: Tensor, cols: Tensor, ends: list[tuple[Tensor, Tensor, Tensor, Tensor]]
) -> Tensor:
    """`_pull` of the tile plus that of its part of one class, of the classes `rows` and `cols`; one pass."""
    from tuplet.kernels.class_tiles import pull_of_classes

    shares = []
    for row_sums, row_grads, col_sums, col_grads in ends:
        shares += [row_grads * torch.exp(-row_sums), col_grads * torch.exp(-col_sums)]
    out = torch.empty_like(tile)
    pull_of_classes(*(part.numpy() for part in (tile, rows, cols, *shares, out)))
    return out
