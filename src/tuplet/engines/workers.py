"""Processes that work together: who this one is among them, and how they exchange tensors.

torch.distributed moves the bytes: NCCL where every worker has a GPU of its own, else gloo through host memory.
`launch.py` starts the workers. A process that was not started so is a group of one and needs neither.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuplet import __version__
from tuplet._check import InputError
from tuplet.engines.launch import die_with_parent

_WAIT = datetime.timedelta(minutes=10)  # for the slowest worker


@dataclass(frozen=True)
class Team:
    """Worker `rank` of `size`; `joined`: it exchanges by torch.distributed, alone as well."""

    rank: int = 0
    size: int = 1
    joined: bool = False

    def gather(self, own: Tensor) -> Tensor:
        """(k, ...) of each worker -> (k * size, ...) in the order of ranks."""
        if not self.joined:
            return own
        message = own.contiguous() if _by_nccl() else own.contiguous().cpu()
        parts = [torch.empty_like(message) for _ in range(self.size)]
        torch.distributed.all_gather(parts, message)
        return torch.cat(parts).to(own.device)

    def any(self, flag: bool) -> bool:
        """Whether the flag of one of the workers is set; all learn the same."""
        if not self.joined:
            return flag
        told = torch.tensor([int(flag)], device=_device_of_messages())
        torch.distributed.all_reduce(told, torch.distributed.ReduceOp.MAX)
        return bool(told.item())

    def least(self, value: int) -> int:
        """The least of the workers' values."""
        return int(self._values(value).min())

    def differ(self, value: int) -> bool:
        """Whether the workers have different values; all learn the same."""
        found = self._values(value)
        return bool((found != found[0]).any())

    def _values(self, own: int) -> Tensor:
        return self.gather(torch.tensor([own], device=_device_of_messages()))

    def deal(self, counts: Any) -> Any:
        """What each worker will send to this one (size,), where `counts` (size,) is what this one sends to each."""
        every = self.gather(torch.from_numpy(np.asarray(counts, np.int64))[None])  # (size, size)
        return every[:, self.rank].numpy()

    def exchange(self, own: Any, sent: list[int], target: Any, come: list[int]) -> None:
        """Send runs of the rows of `own` to each worker, and fill `target` with the rows of each; arrays."""
        if not self.joined:
            target[...] = own
            return
        message, found = torch.from_numpy(np.ascontiguousarray(own)), torch.from_numpy(target)
        torch.distributed.all_to_all_single(found, message, come, sent)

    def wait(self) -> None:
        """Wait until all workers have come here."""
        self.any(False)


def started_as_worker() -> bool:
    """Whether this process was started by torch.distributed.run."""
    return "TORCHELASTIC_RUN_ID" in os.environ and "RANK" in os.environ


def was_restarted() -> bool:
    """Whether this worker was started again because it, or another of its launcher, was killed.

    The workers of other launchers are started again too, and are not told: ask all of them.
    """
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0


@contextmanager
def joined_team(device: torch.device, task: Mapping[str, object]) -> Iterator[Team]:
    """This process among its workers, as torch.distributed.run tells it; alone where it was not started so.

    `task` says what it was started for: workers with another one, or another tuplet, are refused.
    """
    if not started_as_worker():
        yield Team()
        return
    die_with_parent()
    size, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    if device.type == "cuda":
        torch.cuda.set_device(local_device("cuda"))  # NCCL's messages go there
    try:
        torch.distributed.init_process_group(_backend(device), timeout=_WAIT)
    except (RuntimeError, ValueError) as error:
        raise InputError(f"Worker {rank} of {size} cannot join the others ({error}).") from None
    team = Team(rank, size, joined=True)
    try:
        check_alike(team, task)
        yield team
    finally:
        torch.distributed.destroy_process_group()


def check_alike(team: Team, task: Mapping[str, object]) -> None:
    """Raise, on all workers, where one of them has another task or another tuplet."""
    own = [f"{name}={value}" for name, value in {"tuplet": __version__, **task}.items()]
    first, *others = (
        bytes(row.tolist()).rstrip(b"\0").decode(errors="replace") for row in team.gather(_as_bytes(own))
    )
    for rank, text in enumerate(others, start=1):
        for theirs, his in zip_longest(text.split("\n"), first.split("\n"), fillvalue="nothing"):
            if theirs != his:
                raise InputError(
                    f"Worker {rank} has {theirs}, worker 0 {his}. Run one command on all machines, by one tuplet."
                )


def _as_bytes(lines: Sequence[str]) -> Tensor:
    """(1, 4096) the beginning of a text."""
    text = "\n".join(" ".join(line.split()) for line in lines).encode()[:4096]
    return torch.tensor(list(text.ljust(4096, b"\0")), device=_device_of_messages())[None]


def local_device(device: str) -> str:
    """`device`; of several workers on a machine with GPUs each takes its own."""
    if started_as_worker() and device in ("auto", "cuda") and torch.cuda.is_available():
        return f"cuda:{int(os.environ['LOCAL_RANK']) % torch.cuda.device_count()}"
    return device


def _backend(device: torch.device) -> str:
    """NCCL wants a GPU for each worker."""
    each = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return "nccl" if device.type == "cuda" and each <= torch.cuda.device_count() else "gloo"


def _by_nccl() -> bool:
    return torch.distributed.get_backend() == "nccl"


def _device_of_messages() -> str:
    return "cuda" if torch.distributed.is_initialized() and _by_nccl() else "cpu"
