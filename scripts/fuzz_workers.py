"""Forked processes that run numbered cases and may die: every case gets a word, also one that killed its process."""

from __future__ import annotations

import os
import resource
import selectors
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 60  # of processor time for one case: a busy machine, or a stopped process, is no hang
SILENCE = 900  # seconds without a word, whatever the process does
MEMORY = 6 * 2**30  # address space of a process, beyond what it has at the start

One = Callable[[int, Path], str]


@dataclass(frozen=True)
class Outcome:
    """What became of a case: "read", "refused", or what went wrong."""

    case: int
    kind: str
    word: str

    @property
    def bad(self) -> bool:
        return self.word not in ("read", "refused")


@dataclass
class Worker:
    """A process over `todo`; `words` are the cases that are over. Case `todo[0]` is the one at work."""

    one: One
    todo: list[int]
    scratch: Path
    words: dict[int, str] = field(default_factory=dict)
    pid: int = 0
    pipe: int = -1
    heard: float = 0.0
    rest: bytes = b""
    hung: bool = False

    def start(self) -> None:
        """Fork a process for what is to do."""
        self.pipe, writing = os.pipe()
        self.heard, self.rest, self.hung = time.monotonic(), b"", False
        self.pid = os.fork()
        if not self.pid:
            try:
                _work(self.one, self.todo, self.scratch, writing)
            finally:
                os._exit(0)
        os.close(writing)

    def listen(self) -> bool:
        """Take what the process said; False when it has ended."""
        block = os.read(self.pipe, 2**16)
        *lines, self.rest = (self.rest + block).split(b"\n")
        for line in lines:
            self.words[self.todo.pop(0)] = line.decode(errors="replace")
        self.heard = time.monotonic()
        return bool(block)

    def end(self) -> None:
        """After the process ended: the case that it died of gets its word."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        if self.todo:
            hung = self.hung or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF)
            self.words[self.todo.pop(0)] = "hung" if hung else f"died (status {status})"

    def space(self) -> float:
        """MB of address space that the process has now; 0 when it has ended."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[0]) * resource.getpagesize() / 2**20
        except OSError:
            return 0.0

    def check_time(self) -> None:
        """Kill a process that says nothing for too long, and does not work either."""
        if time.monotonic() - self.heard > SILENCE:
            self.hung = True
            os.kill(self.pid, signal.SIGKILL)


def _work(one: One, cases: list[int], scratch: Path, pipe: int) -> None:
    """Run cases in this process; a line for each."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    for case in cases:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # ends the process
        try:
            word = one(case, scratch)
        except BaseException as error:
            word = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        os.write(pipe, f"{word}\n".encode())


def run_all(
    one: One, cases: Iterable[int], workers: int, folder: Path, tell: Callable[[str], None]
) -> dict[int, str]:
    """The word of every case, by so many processes; one that dies is followed by another behind its case."""
    todo = list(cases)
    team = [Worker(one, todo[i::workers], folder / f"scratch-{i}") for i in range(workers) if todo[i::workers]]
    waiting, start, told = selectors.DefaultSelector(), time.monotonic(), time.monotonic()
    for worker in team:
        worker.start()
        waiting.register(worker.pipe, selectors.EVENT_READ, worker)
    while waiting.get_map():
        for key, _ in waiting.select(timeout=1):
            _serve(key.data, waiting, tell)
        for key in list(waiting.get_map().values()):
            key.data.check_time()
        if time.monotonic() - told > 10:
            told = time.monotonic()
            space = ", ".join(f"{worker.space():.0f}" for worker in team)
            cases = sum(len(worker.words) for worker in team)
            tell(f"{cases} of {len(todo)} cases, {told - start:.0f} s; MB of address space: {space}")
    return {case: word for worker in team for case, word in worker.words.items()}


def _serve(worker: Worker, waiting: selectors.BaseSelector, tell: Callable[[str], None]) -> None:
    before = len(worker.words)
    if not worker.listen():
        waiting.unregister(worker.pipe)
        worker.end()
        if worker.todo:
            worker.start()
            waiting.register(worker.pipe, selectors.EVENT_READ, worker)
    for case in list(worker.words)[before:]:
        if worker.words[case] not in ("read", "refused"):
            tell(f"case {case}: {worker.words[case]}")
