"""Refuse before the work starts what would not fit: methods that hold n x n matrices estimate them first."""

from __future__ import annotations

from pathlib import Path

import torch

from tuplet._check import InputError, parse_bytes


def check_memory(method: str, n: int, needed: int, limit: int | str | None, device: torch.device) -> None:
    """Raise if `needed` bytes for a graph of `n` nodes exceed `limit`; None stands for what `device` has free."""
    allowed = free_bytes(device) if limit is None else parse_bytes(limit)
    if needed <= allowed:
        return
    source = f"what {device.type} has free" if limit is None else f"memory_limit={limit!r}"
    raise InputError(
        f"{method} compares all {n} nodes with each other and needs about {needed / 1e9:.1f} GB, "
        f"above {allowed / 1e9:.1f} GB ({source}). Raise memory_limit if there is more, "
        "or use DMATi, whose memory does not grow with the graph."
    )


def free_bytes(device: torch.device) -> int:
    """Bytes that can still be allocated: the GPU's free memory, or the machine's available memory."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    table = Path("/proc/meminfo")
    if table.is_file():
        fields = dict(line.split(":") for line in table.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    return 16 * 10**9  # no portable way to ask: the paper's hardware
