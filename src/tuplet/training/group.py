"""The workers that train together: each has a fixed part of the shards of every batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from tuplet._check import check_choice
from tuplet.engines.workers import Team, joined_team

SHARDS = 8  # of a batch, whatever the number of workers: the same sums in the same order
SIZES = (1, 2, 4, 8)


@dataclass(frozen=True)
class WorkerGroup(Team):
    """Worker `rank` of `size`; it has the shards `mine` of every batch.

    >>> WorkerGroup(rank=1, size=4).mine
    range(2, 4)
    """

    def __post_init__(self) -> None:
        check_workers(self.size)

    @property
    def mine(self) -> range:
        """The shards of this worker."""
        each = SHARDS // self.size
        return range(self.rank * each, (self.rank + 1) * each)


def check_workers(size: int) -> int:
    """`size` if a batch of 8 shards can be dealt to so many workers."""
    return int(check_choice("workers", size, SIZES))


@contextmanager
def joined_group(device: torch.device, task: Mapping[str, object]) -> Iterator[WorkerGroup]:
    """This process among the workers that train; a group of one where it was not started by torch.distributed.run.

    `task`: what it trains, and where to; workers with another one are refused.
    """
    with joined_team(device, task) as found:
        yield WorkerGroup(found.rank, found.size, found.joined)
