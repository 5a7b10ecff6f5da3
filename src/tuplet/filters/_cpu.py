"""Engines that filter one block of columns on the CPU: exact, push, bidirectional.

An engine is `compute(first, columns, tick) -> (n, columns)`, the filtered block, valid until the next call;
`tick(fraction)` reports progress within the block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines import Tick
from tuplet.filters._operator import Operator, Plan, run_series
from tuplet.filters._read import Block, Reader, fill_block, over_rows
from tuplet.graph import Features

Engine: TypeAlias = Callable[[int, int, Tick], Block]


def cpu_engine(spec: Any, op: Operator, plan: Plan | None, read: Reader, x: Features, columns: int) -> Engine:
    """The engine of the method in `spec`, which has a GraphFilter's settings; `plan` for the exact one."""
    if plan is not None:
        return exact_engine(op, plan, spec.r, read, x, columns)
    alpha, r_max = spec.weights.values[0], float(spec.r_max or 0)
    if spec.method == "push":
        return push_engine(op, alpha, r_max, spec.r, read, x, columns)
    return bidirectional_engine(op, alpha, r_max, int(spec.n_walks or 0), spec.seed, spec.r, read, x, columns)


def exact_engine(op: Operator, plan: Plan, r: float, read: Reader, x: Features, columns: int) -> Engine:
    """Blocked products in float32; holds three blocks of at most `columns` columns."""
    from tuplet.kernels.spmm import hop

    before, after, inverse = op.degree_power(-r), op.degree_power(r), op.inverse
    store = np.empty((3 if plan.products > 1 else 2, op.n * columns), np.float32)

    def compute(first: int, columns: int, tick: Tick) -> Block:
        blocks = [part[: op.n * columns].reshape(op.n, columns) for part in store]
        start, one, two = blocks[0], blocks[1], blocks[-1]
        fill_block(read, x, first, before, start)
        done = 0

        def one_hop(z: Block, out: Block, scale: float, shift: float, keep: float) -> None:
            nonlocal done
            factors = {"loop": op.loop, "scale": scale, "shift": shift, "keep": keep}
            hop(op.indptr, op.indices, op.weights, inverse, z, start, out, **factors)  # type: ignore[arg-type]
            done += 1
            tick(done / plan.products)

        result, factor = run_series(plan, one_hop, start, one, two)
        multiply_rows(result, after, factor)
        return result

    return compute


def multiply_rows(block: Block, scale: Block, factor: float = 1.0) -> None:
    """Multiply row u of `block` by factor * scale[u], in place."""

    def chunk(start: int, stop: int) -> None:
        block[start:stop] *= np.float32(factor) * scale[start:stop, None]

    over_rows(chunk, len(block), block[:1].nbytes)


def push_engine(
    op: Operator, alpha: float, r_max: float, r: float, read: Reader, x: Features, columns: int
) -> Engine:
    """GBP's reverse push, column by column, positive and negative parts apart: D^r (Q + alpha R)."""
    from tuplet.kernels.push import push_columns

    reverse = op.transposed()
    before, after = op.degree_power(-r), op.degree_power(r)
    store = np.empty((3, op.n * columns), np.float32)

    def compute(first: int, columns: int, tick: Tick) -> Block:
        start, reserve, residue = (part[: op.n * columns].reshape(op.n, columns) for part in store)
        fill_block(read, x, first, before, start)
        push_columns(reverse, alpha, r_max, start, reserve, residue)
        reserve += np.float32(alpha) * residue
        multiply_rows(reserve, after)
        tick(1.0)
        return reserve

    return compute


def bidirectional_engine(
    op: Operator,
    alpha: float,
    r_max: float,
    n_walks: int,
    seed: int,
    r: float,
    read: Reader,
    x: Features,
    columns: int,
) -> Engine:
    """Push, then what the residues would still add, estimated from random walks: D^r (Q + alpha R + (1-alpha) W R).

    W R averages the residues where `n_walks` walks from each node end; its expectation is what push left out. The
    same walks serve all columns.
    """
    from tuplet.kernels.push import push_columns, walk_ends
    from tuplet.kernels.spmm import hop

    reverse = op.transposed()
    before, after = op.degree_power(-r), op.degree_power(r)
    ends: NDArray[Any] = walk_ends(op, alpha, n_walks, seed)  # (n * n_walks,); n for a walk that died
    bounds = np.arange(op.n + 1, dtype=np.int64) * n_walks
    share = np.full(op.n, (1 - alpha) / n_walks, np.float32)
    store = np.empty((3, (op.n + 1) * columns), np.float32)

    def compute(first: int, columns: int, tick: Tick) -> Block:
        start, reserve, residue = (part[: (op.n + 1) * columns].reshape(-1, columns) for part in store)
        start, reserve = start[:-1], reserve[:-1]
        fill_block(read, x, first, before, start)
        push_columns(reverse, alpha, r_max, start, reserve, residue[:-1])
        residue[-1] = 0
        hop(bounds, ends, None, share, residue, residue[:-1], reserve, loop=0.0, shift=alpha, keep=1.0)
        multiply_rows(reserve, after)
        tick(1.0)
        return reserve

    return compute
