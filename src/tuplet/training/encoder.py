"""The encoder: a plain multi-layer perceptron, and its application to all rows block by block."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tuplet._check import InputError, check_int
from tuplet._memory import forget_pages
from tuplet._seed import stream, torch_stream
from tuplet.losses import to_unit
from tuplet.rows.svd import truncated_svd
from tuplet.training.batches import as_float_tensor

BLOCK_VALUES = 2**24  # row values handled at once by `encode`: 64 MB in float32
SPECTRAL_SAMPLE = 20_000  # rows whose singular directions `spectral_encoder` takes


def make_encoder(n_features: int, layers: Sequence[int], seed: int = 0) -> nn.Sequential:
    """A perceptron from `n_features` columns to `layers[-1]`: ReLU between layers, the last one linear.

    Weights come from the stream "weights" of `seed`; torch's global generator is not touched.

    >>> make_encoder(1433, (256, 128))
    Sequential(
      (0): Linear(in_features=1433, out_features=256, bias=True)
      (1): ReLU()
      (2): Linear(in_features=256, out_features=128, bias=True)
    )
    """
    check_layers(layers)
    sizes = [check_int("n_features", n_features), *layers]
    generator = torch_stream(seed, "weights")
    parts: list[nn.Module] = []
    for width_in, width_out in itertools.pairwise(sizes):
        parts += [_linear(width_in, width_out, generator), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def new_encoder(rows: Any, layers: int | Sequence[int], seed: int = 0, *, unit_rows: bool = True) -> nn.Sequential:
    """An untrained encoder for `rows`: `spectral_encoder` for a number, `make_encoder` for a list of widths."""
    if isinstance(layers, Sequence):
        return make_encoder(rows.shape[1], layers, seed)
    return spectral_encoder(rows, layers, seed, unit_rows=unit_rows)


def check_layers(layers: int | Sequence[int]) -> None:
    """Raise unless `layers` is a width or a list of some."""
    widths = layers if isinstance(layers, Sequence) else [layers]
    if not widths:
        raise InputError("layers is empty. Give at least one width, for example layers=(256, 256).")
    for width in widths:
        check_int("layers", width)


def spectral_encoder(rows: Any, width: int, seed: int = 0, *, unit_rows: bool = True) -> nn.Sequential:
    """One linear layer from the columns of `rows` (n, f) to their `width` leading singular directions.

    Training that starts here starts at a truncated SVD of the rows, fewer columns where there are no more. The
    directions are those of a sample of at most SPECTRAL_SAMPLE rows, drawn from the stream "spectral rows" of `seed`.
    """
    n, f = rows.shape
    width = min(check_int("layers", width), n, f)
    picked = slice(None) if n <= SPECTRAL_SAMPLE else _sample(n, seed)
    sample = as_float_tensor(rows[picked], torch.device("cpu"))
    right = truncated_svd((to_unit(sample) if unit_rows else sample).numpy(), width, seed=seed).right
    layer = _unfilled(f, width)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(right.T))
        layer.bias.zero_()
    return nn.Sequential(layer)


def layer_sizes(encoder: nn.Sequential) -> list[int]:
    """Columns of the input and of every layer's output, e.g. [1433, 256, 128]."""
    linear = [part for part in encoder if isinstance(part, nn.Linear)]
    return [linear[0].in_features, *(part.out_features for part in linear)]


def block_rows(n_features: int) -> int:
    """Rows that `encode` handles at once."""
    return max(1, BLOCK_VALUES // n_features)


def encode(
    encoder: nn.Sequential,
    rows: Any,
    *,
    unit_rows: bool = True,
    out: NDArray[Any] | None = None,
    device: str | torch.device | None = None,
) -> NDArray[Any]:
    """Vectors (n, d) float32 of all `rows` (n, f), block by block.

    `rows` is an array, a memory map or a tensor; each row is scaled to unit length first when `unit_rows`. `out`
    (n, d), an array or a memory map of float32 or float16, receives the result in place of a new array. The encoder
    moves to `device` where one is given.
    """
    sizes = layer_sizes(encoder)
    n, f = rows.shape
    if f != sizes[0]:
        raise InputError(
            f"The rows have {f} columns but the encoder takes {sizes[0]}. Give the same columns as in fit."
        )
    if out is None:
        out = np.empty((n, sizes[-1]), np.float32)
    elif out.shape != (n, sizes[-1]) or out.dtype not in (np.float32, np.float16):
        raise InputError(f"out is {out.dtype} {out.shape} but the result is float32 or float16 {(n, sizes[-1])}.")
    if device is not None:
        encoder.to(device)
    where = next(encoder.parameters()).device
    step = block_rows(f)
    with torch.no_grad():
        for start in range(0, n, step):
            block = as_float_tensor(rows[start : start + step], where)
            vectors = encoder(to_unit(block) if unit_rows else block)
            out[start : start + step] = (vectors.half() if out.dtype == np.float16 else vectors).cpu().numpy()
            forget_pages(rows)
            forget_pages(out)
    return out


def _sample(n: int, seed: int) -> NDArray[np.int64]:
    return np.sort(stream(seed, "spectral rows").choice(n, SPECTRAL_SAMPLE, replace=False, shuffle=False))


def _linear(width_in: int, width_out: int, generator: torch.Generator) -> nn.Linear:
    layer = _unfilled(width_in, width_out)
    bound = 1 / math.sqrt(width_in)
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return layer


def _unfilled(width_in: int, width_out: int) -> nn.Linear:
    """A layer whose numbers are still to be set; nothing is drawn for them."""
    layer, where = nn.Linear(width_in, width_out, device="meta"), torch.get_default_device()
    layer.weight = nn.Parameter(torch.empty(width_out, width_in, device=where))  # to_empty() would load sympy: 0.5 s
    layer.bias = nn.Parameter(torch.empty(width_out, device=where))
    return layer
