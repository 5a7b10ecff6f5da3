"""Lloyd's algorithm on a GPU: the rows lie there once, sums of clusters are products with one-hot rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuplet._memory import forget_pages

_BLOCK = 2**28  # products (rows x clusters) held at once


def refine_on_gpu(
    rows: Any, centres: NDArray[np.float32], unit_rows: bool, settled: float, steps: int
) -> tuple[NDArray[np.int64], NDArray[np.float32], float]:
    """Labels, centres and inertia after Lloyd's steps from `centres` (k, d) over `rows` (n, d)."""
    where = torch.device("cuda")
    z = torch.empty(rows.shape, device=where)
    step = max(1, 2**26 // rows.shape[1])
    for start in range(0, len(z), step):
        z[start : start + step] = torch.from_numpy(np.array(rows[start : start + step], np.float32)).to(where)
        forget_pages(rows)
    if unit_rows:
        z = torch.nn.functional.normalize(z, dim=1, eps=1e-30)
    labels, found, inertia = _lloyd(z, torch.from_numpy(centres).to(where), settled, steps)
    return labels.cpu().numpy().astype(np.int64), found.cpu().numpy(), inertia


def _lloyd(z: Tensor, centres: Tensor, settled: float, steps: int) -> tuple[Tensor, Tensor, float]:
    labels = torch.full((len(z),), -1, dtype=torch.int32, device=z.device)
    for _ in range(steps):
        sums, counts, moved, inertia = _step(z, centres, labels)
        if moved <= settled * len(z):
            break
        centres = torch.where(counts[:, None] > 0, sums / counts.clamp_min(1)[:, None], centres)
    return labels, centres, inertia


def _step(z: Tensor, centres: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, int, float]:
    """Sums (k, d) and counts (k,) of the rows by nearest centre; `labels` are set to it."""
    k = len(centres)
    sums, counts = torch.zeros_like(centres), torch.zeros(k, device=z.device)
    moved, inertia = torch.zeros((), device=z.device), torch.zeros((), device=z.device, dtype=torch.float64)
    half = centres.square().sum(1) / 2
    step = max(1, _BLOCK // k)
    for start in range(0, len(z), step):
        block, old = z[start : start + step], labels[start : start + step]
        close, near = (block @ centres.T - half).max(1)
        inertia += (block.square().sum(1) - 2 * close).clamp_min(0).sum(dtype=torch.float64)
        moved += (near != old).sum()
        old.copy_(near)
        hot = torch.nn.functional.one_hot(near, k).to(z.dtype)
        sums += hot.T @ block
        counts += hot.sum(0)
    return sums, counts, int(moved), float(inertia)
