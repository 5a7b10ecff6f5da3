"""Training on many workers: the loss of one process, the same bits for any number of them, killed ones replaced."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import tuplet
from tests.conftest import Run
from tests.processes import workers_of
from tuplet._check import InputError
from tuplet._threads import one_pool
from tuplet.engines import workers as engine_workers
from tuplet.engines.launch import check_launch
from tuplet.losses import Objective, objective_of, to_unit
from tuplet.losses._objectives import OBJECTIVES, register
from tuplet.training.checkpoint import Checkpoints
from tuplet.training.config import TrainConfig
from tuplet.training.encoder import make_encoder
from tuplet.training.group import WorkerGroup, check_workers
from tuplet.training.loop import train
from tuplet.training.sharded import batch_gradient, shard_bounds
from tuplet.training.views import draw_views, mask_columns

N, F = 300, 24


@pytest.fixture(scope="module")
def rows() -> Any:
    return np.random.default_rng(0).random((N, F), dtype=np.float32)


@pytest.fixture(scope="module")
def labels() -> Any:
    return np.random.default_rng(1).integers(-1, 4, N)


@pytest.mark.parametrize("loss", ["dmati", "dmat", "dmt"])
@pytest.mark.parametrize("b", [3, 8, 61])
@pytest.mark.parametrize("t", [1.0, 0.02])
def test_the_sharded_gradient_is_that_of_the_loss(loss: str, b: int, t: float) -> None:
    """Against autograd of the plain loss on masked copies of the batch, in float64."""
    objective = objective_of(loss)
    encoder = make_encoder(F, (16, 8), seed=1).double()
    x = to_unit(torch.from_numpy(np.random.default_rng(b).random((b, F))))
    y = torch.from_numpy(np.random.default_rng(b).integers(0, 3, b))
    views = draw_views(0, 5, F, 2 if objective.views else 0, 0.6)
    columns = torch.from_numpy(views.columns)
    if objective.views:
        others = [encoder(mask_columns(x, picked, kept=views.kept)) for picked in columns]
        want = torch.stack([objective.loss(encoder(x), v, y, t) for v in others]).mean()
    else:
        want = objective.loss(encoder(x), None, y, t)
    gradient = torch.autograd.grad(want, list(encoder.parameters()))
    classes = y if objective.needs_labels else torch.arange(b)
    got, flat = batch_gradient(encoder, x, classes, columns, views.kept, t, objective.views, WorkerGroup())
    assert torch.allclose(got, want, rtol=1e-10)
    whole = torch.cat([part.reshape(-1) for part in gradient])
    assert torch.allclose(flat, whole, rtol=1e-7, atol=1e-9 * float(whole.abs().max()))


def test_shards_cover_a_batch_and_differ_by_one_row() -> None:
    for size in range(60):
        bounds = shard_bounds(size)
        assert bounds[0] == 0 and bounds[-1] == size and len(bounds) == 9
        assert max(np.diff(bounds)) - min(np.diff(bounds)) <= 1
        assert max(np.diff(bounds)) <= -(-size // 8)


class InThreads(WorkerGroup):
    """Workers of one process that exchange through a list; the step is the real one."""

    meeting: ClassVar[threading.Barrier]
    box: ClassVar[dict[int, torch.Tensor]] = {}

    def gather(self, own: torch.Tensor) -> torch.Tensor:
        self.box[self.rank] = own.clone()
        self.meeting.wait()
        found = torch.cat([self.box[i] for i in range(self.size)])
        self.meeting.wait()
        return found

    def any(self, flag: bool) -> bool:
        return flag


@pytest.mark.parametrize("loss", ["dmati", "dmat", "dmt"])
def test_any_number_of_workers_gives_the_same_bits(
    loss: str, rows: Any, labels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """246 labelled rows, or 300: the last batch of an epoch has shards of unequal size."""
    monkeypatch.setenv("TUPLET_NUM_THREADS", "1")
    config, y = TrainConfig(loss=loss, max_steps=12, batch_size=64), None if loss == "dmati" else labels
    found = set()
    with one_pool():
        for size in (1, 2, 4, 8):
            InThreads.meeting = threading.Barrier(size)
            encoders = [make_encoder(F, (16, 8), seed=0) for _ in range(size)]

            def work(rank: int, size: int = size, encoders: Any = encoders) -> None:
                train(encoders[rank], rows, config, labels=y, device="cpu", group=InThreads(rank, size, joined=True))

            threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            found |= {b"".join(p.detach().numpy().tobytes() for p in encoder.parameters()) for encoder in encoders}
    assert len(found) == 1


@pytest.mark.parametrize(
    ("gpus", "each", "backend"), [(1, 1, "nccl"), (1, 2, "gloo"), (8, 8, "nccl"), (0, 2, "gloo")]
)
def test_nccl_where_every_worker_of_a_machine_has_a_gpu(
    gpus: int, each: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers of one GPU exchange through host memory: NCCL refuses a GPU that it sees twice."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(each))
    assert engine_workers._backend(torch.device("cuda" if gpus else "cpu")) == backend


def test_every_worker_sends_from_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first message: NCCL takes the current device, which is the first GPU for all unless it is set."""
    order: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", order.append)
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda backend, **_: order.append(backend))
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: None)
    monkeypatch.setattr(engine_workers, "die_with_parent", lambda: None)
    monkeypatch.setattr(engine_workers, "check_alike", lambda *_: order.append("alike"))
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "1")
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
    with engine_workers.joined_team(torch.device("cuda"), {}) as team:
        assert team == engine_workers.Team(1, 2, joined=True)
    assert order == ["cuda:1", "nccl", "alike"]


def test_one_worker_is_near_the_plain_trainer(rows: Any) -> None:
    found = []
    for group in (None, WorkerGroup()):
        encoder = make_encoder(F, (16, 8), seed=0)
        train(encoder, rows, TrainConfig(max_steps=10, batch_size=64), device="cpu", group=group)
        found.append(torch.cat([p.detach().reshape(-1) for p in encoder.parameters()]))
    assert float((found[0] - found[1]).abs().max()) < 1e-4


@pytest.mark.parametrize(
    ("workers", "machines", "head", "word"),
    [
        (3, 1, None, "workers"),
        (0, 1, None, "workers"),
        (2, 4, "a:1", "evenly"),
        (4, 2, None, "head"),
        (2, 1, "a:1", "head"),
    ],
)
def test_workers_that_cannot_be_dealt_are_refused(workers: int, machines: int, head: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        check_workers(workers)
        check_launch(workers, machines, head)


def test_what_cannot_be_sharded_is_refused(rows: Any) -> None:
    register(Objective("toy", lambda u, v, y, t: u.sum()))
    try:
        for config, word in ((TrainConfig(loss="toy"), "no form"), (TrainConfig(stop="auto"), "one process")):
            with pytest.raises(InputError, match=word):
                train(make_encoder(F, (4,)), rows, config, device="cpu", group=WorkerGroup())
    finally:
        del OBJECTIVES["toy"]


def test_a_checkpoint_of_a_worker_is_that_of_one_process(rows: Any, tmp_path: Path) -> None:
    where = Checkpoints(tmp_path / "run", minutes=None, steps=5)
    train(
        make_encoder(F, (8,)),
        rows,
        TrainConfig(max_steps=5, batch_size=64),
        device="cpu",
        checkpoint=where,
        group=WorkerGroup(),
    )
    history = train(
        make_encoder(F, (8,)),
        rows,
        TrainConfig(max_steps=9, batch_size=64),
        device="cpu",
        checkpoint=where,
        resume=True,
    )
    assert history.rows[-1]["step"] == 9


def test_workers_that_would_go_on_from_different_steps_are_refused(rows: Any, tmp_path: Path) -> None:
    """One that goes on and one that begins anew would exchange batches that have nothing to do with each other."""
    where, config = Checkpoints(tmp_path / "run", minutes=None, steps=5), TrainConfig(max_steps=5, batch_size=64)
    train(make_encoder(F, (8,)), rows, config, device="cpu", checkpoint=where, group=WorkerGroup())
    InThreads.meeting, said = threading.Barrier(2), []

    def work(rank: int) -> None:
        more = {"checkpoint": where, "resume": True} if rank else {}
        try:
            train(make_encoder(F, (8,)), rows, config, device="cpu", group=InThreads(rank, 2), **more)
        except InputError as error:
            said.append(str(error))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 2 and all("do not go on from one step" in text for text in said)


def command(tmp: Path, rows: Path, out: str, *more: str) -> list[str]:
    steps = ["--set", "batch_size=64", "--set", "layers=(16, 8)", "--device", "cpu", "-q"]
    return [sys.executable, "-m", "tuplet.cli", "train", str(rows), "-o", str(tmp / out), *steps, *more]


def weights(folder: Path) -> str:
    """A sum of a saved model's weights."""
    tensors = tuplet.load(folder).encoder_.state_dict()
    return hashlib.blake2b(b"".join(t.numpy().tobytes() for t in tensors.values()), digest_size=8).hexdigest()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, rows: Any, labels: Any) -> Path:
    folder = tmp_path_factory.mktemp("rows with space")
    np.save(folder / "rows.npy", rows)
    np.save(folder / "labels.npy", labels)
    return folder


@pytest.mark.parametrize(
    ("method", "most"),
    [
        ("DMAT-i", 2),
        pytest.param("DMAT", 2, marks=pytest.mark.slow),
        pytest.param("DMT", 4, marks=pytest.mark.slow),
    ],
)
def test_workers_give_the_bits_that_one_gives(method: str, most: int, files: Path, tmp_path: Path, run: Run) -> None:
    """Batches of 64 and of 54 or 44 rows, whose shards are of unequal size."""
    extra = ["--method", method, "--set", "max_steps=12"]
    extra += [] if method == "DMAT-i" else ["--labels", str(files / "labels.npy")]
    assert run(*command(tmp_path, files / "rows.npy", "m1", *extra, "--workers", "1")[3:])[0] == 0
    for workers in sorted({2, most}):
        words = command(tmp_path, files / "rows.npy", f"m{workers}", *extra, "--workers", str(workers))
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "12 steps" in done.stdout and done.stderr == ""
    names = sorted({"m1", "m2", f"m{most}"})
    assert len({weights(tmp_path / name) for name in names}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_killed_worker_is_replaced(files: Path, tmp_path: Path, run: Run) -> None:
    options = ["--set", "max_steps=150", "--every", "10", "--checkpoint", str(tmp_path / "run")]
    words = command(tmp_path, files / "rows.npy", "killed", *options, "--workers", "2")
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_for(tmp_path / "run" / "checkpoint.safetensors", process)
    os.kill(workers_of(process.pid)[-1], signal.SIGKILL)
    _, told = process.communicate(timeout=150)
    assert process.returncode == 0, told.decode()
    assert run(*command(tmp_path, files / "rows.npy", "whole", "--set", "max_steps=150")[3:])[0] == 0
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


@pytest.mark.slow  # two launchers, four starts of workers
def test_a_killed_worker_of_two_launchers_is_replaced(files: Path, tmp_path: Path) -> None:
    """The launcher whose worker lives starts it again and does not tell it so: all go on from the checkpoint."""
    options = ["--set", "max_steps=400", "--every", "20", "--checkpoint", str(tmp_path / "run"), "--workers", "2"]
    options += ["--machines", "2", "--head", f"localhost:{free_port()}"]
    words = command(tmp_path, files / "rows.npy", "killed", *options)
    both = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    wait_for(tmp_path / "run" / "checkpoint.safetensors", both[0])
    os.kill(workers_of(both[0].pid)[0], signal.SIGKILL)
    told = [process.communicate(timeout=150)[1].decode() for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    whole = command(tmp_path, files / "rows.npy", "whole", "--set", "max_steps=400")
    subprocess.run(whole, check=True, capture_output=True)
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


def test_machines_with_other_settings_are_refused_in_one_line(files: Path, tmp_path: Path) -> None:
    meet = ["--workers", "2", "--machines", "2", "--head", f"localhost:{free_port()}"]
    words = [
        command(tmp_path, files / "rows.npy", "other", "--set", f"max_steps={steps}", *meet) for steps in (40, 41)
    ]
    both = [subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for line in words]
    told = [process.communicate(timeout=100)[1].decode() for process in both]
    assert [process.returncode for process in both] == [1, 1], told
    for text in told:
        assert re.search(
            r"^error: Worker 1 has max_steps=4[01], worker 0 max_steps=4[01]\. Run one command on all", text
        ), told
        assert text.count("\n") == 1, text
    assert not (tmp_path / "other").exists()


def test_a_worker_with_another_tuplet_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_workers, "__version__", "1.0")
    monkeypatch.setattr(engine_workers, "_device_of_messages", lambda: "cpu")

    class Two(engine_workers.Team):
        theirs: ClassVar[list[str]] = ["tuplet=1.1", "seed=0"]

        def gather(self, own: Any) -> Any:
            return torch.cat([own, engine_workers._as_bytes(self.theirs)])

    with pytest.raises(InputError, match=r"Worker 1 has tuplet=1\.1, worker 0 tuplet=1\.0\. Run one command"):
        engine_workers.check_alike(Two(0, 2, True), {"seed": 0})
    Two.theirs[0] = "tuplet=1.0"
    engine_workers.check_alike(Two(0, 2, True), {"seed": 0})
    with pytest.raises(InputError, match=r"Worker 1 has nothing, worker 0 unit_rows=True"):
        engine_workers.check_alike(Two(0, 2, True), {"seed": 0, "unit_rows": True})


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_old_checkpoint_is_no_state_of_a_new_run(files: Path, tmp_path: Path, run: Run) -> None:
    words = ["train", str(files / "rows.npy"), "-o", str(tmp_path / "m"), "--device", "cpu", "-q"]
    words += ["--checkpoint", str(tmp_path / "run"), "--set", "max_steps=2", "--set", "layers=(4,)"]
    code, _, err = run(*words, "--resume")
    assert code == 1 and "no checkpoint" in err
    assert run(*words)[0] == 0
    state = tmp_path / "run" / "checkpoint.safetensors"
    before = state.read_bytes()
    code, _, err = run(*words)
    assert code == 1 and "holds the state of an earlier run" in err and "--resume" in err and err.count("\n") == 1
    assert state.read_bytes() == before
    assert run(*words, "--resume")[0] == 0
    state.unlink()
    code, out, _ = run(*words)
    assert code == 0 and "2 steps" in out


def test_a_bad_worker_count_is_one_line(files: Path, tmp_path: Path, run: Run) -> None:
    code, _, err = run(*command(tmp_path, files / "rows.npy", "m", "--workers", "3")[3:])
    assert code == 1 and err.startswith("error: workers") and err.count("\n") == 1


def wait_for(path: Path, process: Any) -> None:
    for _ in range(1200):
        if path.exists():
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    raise AssertionError(f"{path} never came")
