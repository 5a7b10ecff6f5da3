"""Refuse before the work starts what would not fit: methods that hold n x n matrices estimate them first."""

from __future__ import annotations

import torch

from tuplet._check import InputError, parse_bytes
from tuplet._memory import free_on


def check_memory(method: str, n: int, needed: int, limit: int | str | None, device: torch.device) -> None:
    """Raise if `needed` bytes for a graph of `n` nodes exceed `limit`, or what `device` has free."""
    free = free_on(device)
    allowed = free if limit is None else min(free, parse_bytes(limit))
    if needed <= allowed:
        return
    by_limit = allowed < free
    raise InputError(
        f"{method} compares all {n} nodes with each other and needs about {needed / 1e9:.1f} GB, above "
        f"{allowed / 1e9:.1f} GB ({f'memory_limit={limit!r}' if by_limit else f'what {device.type} has free'}). "
        + ("Raise memory_limit if there is more, or use" if by_limit else "Use")
        + " DMATi, whose memory does not grow with the graph."
    )
