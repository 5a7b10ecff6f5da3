"""Workers are started by torch.distributed.run: on this machine, or the same command on several.

A worker that is killed takes the others with it; the launcher starts all of them again, and they go on from the
checkpoint. A launcher that is killed takes its workers with it, on Linux.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tuplet._check import InputError, check_int
from tuplet._threads import cores
from tuplet.engines.meeting import PORT, meeting

_LOOK_S = 0.1  # between looks at the mark
_GIVE_UP = "TUPLET_GIVE_UP"  # names a file: a worker makes it where starting again is of no use
_PARENT = "TUPLET_PARENT"  # the process without which this one has nothing to do
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


def check_launch(workers: int, machines: int, head: str | None) -> None:
    """Raise unless so many workers can be dealt to so many machines."""
    check_int("machines", machines, minimum=1)
    if workers % machines:
        raise InputError(f"{workers} workers cannot be dealt evenly to {machines} machines. Give a multiple.")
    if (machines > 1) != (head is not None):
        raise InputError(
            f"machines={machines} and head={head!r} do not fit. Several machines meet at one of them: give head "
            f"(host:{PORT}) with machines above 1, and run the same command on each."
        )


def launch(
    words: Sequence[str], workers: int, *, machines: int = 1, head: str | None = None, restarts: int = 3
) -> int:
    """Run `python -m WORDS` as so many workers in all; the exit code of the launcher. Ctrl-C reaches the workers."""
    check_launch(workers, machines, head)
    each = workers // machines
    alone = ["--standalone", "--local-addr=127.0.0.1"]  # the name of this machine need not be known for that
    found = None if head is None else meeting(head)
    where = alone if found is None else found.words
    how = [
        f"--nnodes={machines}",
        f"--nproc-per-node={each}",
        f"--max-restarts={check_int('restarts', restarts, minimum=0)}",
    ]
    environment = {
        **({} if found is None else found.environment),
        **os.environ,
        # The workers meet in a store of their own each time: that of the launcher keeps keys of earlier attempts, and
        # half of the restarts fail (pytorch issues 135712 and 167288).
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "OMP_NUM_THREADS": str(max(1, cores() // each)),
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "TORCHELASTIC_LOG_LEVEL": "ERROR",
    }
    command = [sys.executable, "-m", "tuplet.engines.launch", *how, *where, "-m", *words]
    with tempfile.TemporaryDirectory(prefix="tuplet-") as folder:
        mark = Path(folder) / "given-up"
        process = subprocess.Popen(command, env={**environment, _GIVE_UP: str(mark), _PARENT: str(os.getpid())})
        return _ended(process, mark)


def _ended(process: subprocess.Popen[bytes], mark: Path) -> int:
    """The exit code of the launcher; where a worker has given up, it is ended before it starts them again."""
    while True:
        try:
            return process.wait(timeout=_LOOK_S)
        except subprocess.TimeoutExpired:
            if mark.exists():
                process.terminate()
                process.wait()
                return 1
        except KeyboardInterrupt:  # the workers have it too: they end the step, write their state and go
            process.send_signal(signal.SIGINT)


def give_up() -> None:
    """In a worker: what was given cannot be used, so the launcher need not start the workers again."""
    if _GIVE_UP in os.environ:
        Path(os.environ[_GIVE_UP]).touch()


def die_with_parent() -> None:
    """This process ends when the one that started it does; alone it would go on, or wait for others for ever."""
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.environ.get(_PARENT, str(os.getppid())) != str(os.getppid()):  # it was gone before
        os.kill(os.getpid(), signal.SIGKILL)


def _run() -> int:
    """torch.distributed.run; what its meeting says becomes one line."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.rendezvous import RendezvousError, RendezvousTimeoutError
    from torch.distributed.run import main

    logging.disable(logging.WARNING)  # of the end of workers, which they tell themselves
    try:
        main()
    except RendezvousTimeoutError:
        sys.stderr.write("error: Not all machines have come within ten minutes. Run the same command on each.\n")
    except RendezvousError:
        again = "Run the same command again on each, train with --resume"
        sys.stderr.write(f"error: The machine of --head is gone, or the way to it. {again}.\n")
    except SignalException as error:
        return 128 + int(error.sigval)
    else:
        return 0
    return 1


if __name__ == "__main__":  # torch.distributed.run, which knows no parent
    die_with_parent()
    os.environ[_PARENT] = str(os.getpid())
    sys.exit(_run())
