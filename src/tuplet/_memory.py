"""Memory: what the machine has free, what this process holds, and the pages of memory maps given back."""

from __future__ import annotations

import ctypes
import mmap
import resource
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_MEMINFO = Path("/proc/meminfo")


def free_memory() -> int:
    """Bytes of memory that the system could give now; 4 GB where it does not tell."""
    return _field(_MEMINFO, "MemAvailable") or 4_000_000_000


def resident_bytes() -> int:
    """Resident memory of this process now; where the system does not tell, its peak."""
    return _field(_STATUS, "VmRSS") or _peak_of_all_time()


def address_space() -> int:
    """Address space of this process now, which is what a limit of the system counts; 0 where it does not tell."""
    return _field(_STATUS, "VmSize")


def peak_bytes() -> int:
    """Peak of resident memory since `reset_peak`, or since the process' start where that cannot be reset."""
    return _field(_STATUS, "VmHWM") or _peak_of_all_time()


def reset_peak() -> None:
    """Let the peaks of memory count from now; where the system cannot, they count from the process' start.

    Memory that was freed goes back to the system first, or what follows would use it again unseen.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # glibc has it
    with suppress(OSError):
        _CLEAR.write_text("5")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def free_on(device: Any) -> int:
    """Bytes that can still be allocated on a torch device: the machine's free memory, or the GPU's.

    On a GPU what torch keeps for later counts as free: it gives that back before it says that memory is full.
    """
    if device.type != "cuda":
        return free_memory()
    import torch

    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + kept


def on_device(array: Any, device: Any) -> Any:
    """`array` as a tensor on a torch device, only to be read: torch need not warn that a map cannot be written."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")
        return torch.from_numpy(np.asarray(array)).to(device)


def forget_pages(array: Any) -> None:
    """Drop the pages of a memory map from this process (they stay in the file and in the system's cache).

    `array` is dense or CSR. A private map (mode "c") keeps them: what was changed in it lies nowhere else.
    """
    for part in (array.indptr, array.indices, array.data) if hasattr(array, "indptr") else (array,):
        mapped = mapped_file(part)
        if mapped is not None and not _is_private(part) and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


def mapped_file(array: Any) -> mmap.mmap | None:
    """The memory map under `array`, or None for an array in memory."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
        if isinstance(array, memoryview):
            array = array.obj
    return array


def _is_private(array: Any) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None and array.mode == "c"


def _peak_of_all_time() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _field(table: Path, name: str) -> int:
    """The bytes that a line `NAME: 123 kB` of a /proc table tells; 0 where there is none."""
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":")), 0)
