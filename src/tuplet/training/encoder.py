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
from tuplet._seed import torch_stream
from tuplet.losses import to_unit
from tuplet.training.batches import as_float_tensor

BLOCK_VALUES = 2**24  # row values handled at once by `encode`: 64 MB in float32


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
    sizes = [check_int("n_features", n_features), *(check_int("layers", width) for width in layers)]
    if len(sizes) == 1:
        raise InputError("layers is empty. Give at least one width, for example layers=(256, 256).")
    generator = torch_stream(seed, "weights")
    parts: list[nn.Module] = []
    for width_in, width_out in itertools.pairwise(sizes):
        parts += [_linear(width_in, width_out, generator), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def layer_sizes(encoder: nn.Sequential) -> list[int]:
    """Columns of the input and of every layer's output, e.g. [1433, 256, 128]."""
    linear = [part for part in encoder if isinstance(part, nn.Linear)]
    return [linear[0].in_features, *(part.out_features for part in linear)]


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
    step = max(1, BLOCK_VALUES // f)
    with torch.no_grad():
        for start in range(0, n, step):
            block = as_float_tensor(rows[start : start + step], where)
            vectors = encoder(to_unit(block) if unit_rows else block)
            out[start : start + step] = (vectors.half() if out.dtype == np.float16 else vectors).cpu().numpy()
            forget_pages(rows)
            forget_pages(out)
    return out


def _linear(width_in: int, width_out: int, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(width_in, width_out, device="meta").to_empty(device=torch.get_default_device())  # draws nothing
    bound = 1 / math.sqrt(width_in)
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return layer
