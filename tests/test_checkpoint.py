"""Checkpoints and model files: exact resume, also after kill -9; nothing half-written; damage is reported."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tuplet._check import InputError
from tuplet.training.checkpoint import (
    CHECKPOINT,
    Checkpoints,
    read_state,
    write_state,
)
from tuplet.training.encoder import make_encoder
from tuplet.training.loop import TrainConfig, train

ROWS = np.random.default_rng(0).random((50, 9), dtype=np.float32)
CONFIG = TrainConfig(max_steps=17, batch_size=16, check_every=4)


def stopped_at(step: int) -> object:
    def progress(phase: str, done: float) -> None:
        if round(done * 17) == step:
            raise RuntimeError("the machine went away")

    return progress


@pytest.mark.parametrize("stop", ["fixed", "auto"])
@pytest.mark.parametrize("step", [1, 6, 8, 16])
def test_a_resumed_run_ends_with_the_bits_of_an_uninterrupted_one(tmp_path: Path, step: int, stop: str) -> None:
    config = TrainConfig(max_steps=17, batch_size=16, check_every=4, stop=stop, patience=9, n_clusters=3)
    whole, broken, fresh = (make_encoder(9, (6, 4), seed) for seed in (0, 0, 1))
    expected = train(whole, ROWS, config, seed=3)
    plan = Checkpoints(tmp_path / "run", minutes=None, steps=1)
    with pytest.raises(RuntimeError):
        train(broken, ROWS, config, seed=3, checkpoint=plan, progress=stopped_at(step))  # type: ignore[arg-type]
    history = train(fresh, ROWS, config, seed=3, checkpoint=plan, resume=True)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), fresh.parameters()))
    assert history.loss == expected.loss and history.best_step == expected.best_step
    assert [p.name for p in (tmp_path / "run").iterdir()] == [CHECKPOINT]


def test_a_resumed_run_stops_where_an_uninterrupted_one_does(tmp_path: Path) -> None:
    """The rows without a better criterion count on: patience is not given anew by a stop."""
    config = TrainConfig(
        max_steps=60, batch_size=16, stop="auto", criterion="effective_rank", check_every=2, lr=0.03, patience=3
    )
    whole, broken, fresh = (make_encoder(9, (6, 4), seed) for seed in (0, 0, 1))
    expected = train(whole, ROWS, config)
    end, best = expected.rows[-1]["step"], expected.best_step
    assert expected.stopped == "auto" and best is not None and end == best + 6
    plan = Checkpoints(tmp_path, minutes=None, steps=1)

    def progress(phase: str, done: float) -> None:
        if round(done * 60) == best + 5:  # two rows without a better one have passed
            raise RuntimeError("the machine went away")

    with pytest.raises(RuntimeError):
        train(broken, ROWS, config, checkpoint=plan, progress=progress)
    history = train(fresh, ROWS, config, checkpoint=plan, resume=True)
    assert history.rows[-1]["step"] == end and history.stopped == "auto" and history.best_step == best
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), fresh.parameters()))


CHILD = """
import sys, time, numpy as np
from tuplet.training.encoder import make_encoder
from tuplet.training.loop import Checkpoints, TrainConfig, train
rows = np.random.default_rng(0).random((50, 9), dtype=np.float32)
slow = lambda phase, done: (print("step", flush=True), time.sleep(0.05))
train(make_encoder(9, (6, 4), 0), rows, TrainConfig(max_steps=17, batch_size=16, check_every=4), seed=3,
      checkpoint=Checkpoints(sys.argv[1], steps=2), progress=slow)
"""


def test_a_run_killed_in_mid_epoch_resumes_to_the_same_bits(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD, tmp_path], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for _ in range(7):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
    _, meta = read_state(tmp_path / CHECKPOINT)
    assert 0 < meta["step"] < 17 and meta["step"] % 4 != 0  # not at the end of an epoch of 4 steps
    killed, whole = make_encoder(9, (6, 4), 5), make_encoder(9, (6, 4), 0)
    history = train(killed, ROWS, CONFIG, seed=3, checkpoint=tmp_path, resume=True)
    expected = train(whole, ROWS, CONFIG, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), killed.parameters()))
    assert history.loss == expected.loss


def test_resuming_a_finished_run_changes_nothing_and_a_longer_one_goes_on(tmp_path: Path) -> None:
    first, again, longer, whole = (make_encoder(9, (6, 4), seed) for seed in (0, 1, 2, 0))
    train(first, ROWS, CONFIG, checkpoint=tmp_path)
    history = train(again, ROWS, CONFIG, checkpoint=tmp_path, resume=True)
    assert history.rows[-1]["step"] == 17
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters()))
    more = TrainConfig(max_steps=30, batch_size=16, check_every=4)
    train(longer, ROWS, more, checkpoint=tmp_path, resume=True)
    train(whole, ROWS, more)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), longer.parameters()))


def test_an_interrupted_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    def progress(phase: str, done: float) -> None:
        if done > 0.5:
            raise KeyboardInterrupt

    encoder, whole = make_encoder(9, (6, 4), 0), make_encoder(9, (6, 4), 0)
    with pytest.raises(KeyboardInterrupt, match="resume=True goes on"):
        train(encoder, ROWS, CONFIG, checkpoint=tmp_path, progress=progress)
    history = train(encoder, ROWS, CONFIG, checkpoint=tmp_path, resume=True)
    assert history.stopped == "fixed" and history.loss == train(whole, ROWS, CONFIG).loss
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), encoder.parameters()))


def test_resume_without_a_checkpoint_starts_from_the_beginning(tmp_path: Path) -> None:
    assert (
        train(make_encoder(9, (6, 4)), ROWS, CONFIG, checkpoint=tmp_path / "new", resume=True).rows[-1]["step"] == 17
    )


@pytest.mark.parametrize(("change", "name"), [({"lr": 0.5}, "lr"), ({"batch_size": 20}, "batch_size")])
def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path, change: dict[str, float], name: str) -> None:
    train(make_encoder(9, (6, 4)), ROWS, CONFIG, checkpoint=tmp_path)
    other = TrainConfig(**{"max_steps": 17, "batch_size": 16, "check_every": 4, **change})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"written with {name} = "):
        train(make_encoder(9, (6, 4)), ROWS, other, checkpoint=tmp_path, resume=True)
    with pytest.raises(InputError, match="written with seed = 0, but now it is 1"):
        train(make_encoder(9, (6, 4)), ROWS, CONFIG, seed=1, checkpoint=tmp_path, resume=True)
    with pytest.raises(InputError, match="written with shape"):
        train(make_encoder(9, (6, 4)), ROWS[:40], CONFIG, checkpoint=tmp_path, resume=True)
    with pytest.raises(InputError, match="do not fit the encoder"):
        train(make_encoder(9, (5, 4)), ROWS, CONFIG, checkpoint=tmp_path, resume=True)


def test_a_damaged_checkpoint_is_reported(tmp_path: Path) -> None:
    file = tmp_path / CHECKPOINT
    write_state(file, {"a": torch.ones(3)}, {"step": 1})
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(InputError, match="damaged"):
        read_state(file)
    with pytest.raises(InputError, match="There is no file"):
        read_state(tmp_path / "none")


def test_wrong_bytes_in_a_checkpoint_are_reported(tmp_path: Path) -> None:
    train(make_encoder(9, (6, 4)), ROWS, CONFIG, checkpoint=tmp_path)
    file = tmp_path / CHECKPOINT
    whole = file.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole), 60):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(InputError, match=r"damaged|format|written with|do not fit"):
            train(make_encoder(9, (6, 4)), ROWS, CONFIG, checkpoint=tmp_path, resume=True)


@pytest.mark.parametrize("change", ["step", "history", "identity", "rows_since_best", "adam.0.exp_avg", "loss_sum"])
def test_a_checkpoint_without_a_part_of_the_state_is_reported(tmp_path: Path, change: str) -> None:
    train(make_encoder(9, (6, 4)), ROWS, CONFIG, checkpoint=tmp_path)
    tensors, meta = read_state(tmp_path / CHECKPOINT)
    write_state(
        tmp_path / CHECKPOINT,
        {name: tensor for name, tensor in tensors.items() if name != change},
        {name: value for name, value in meta.items() if name != change},
    )
    with pytest.raises(InputError, match="damaged"):
        train(make_encoder(9, (6, 4)), ROWS, CONFIG, checkpoint=tmp_path, resume=True)


@pytest.mark.parametrize("number", ["3", "99", "0", "new"])
def test_a_checkpoint_of_a_later_format_is_refused_and_says_what_to_do(tmp_path: Path, number: str) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.ones(2)}, tmp_path / "c", metadata={"tuplet": "{}", "format": number})
    with pytest.raises(InputError, match=f"format '{number}', this version of tuplet reads formats 1 to 2. Update"):
        read_state(tmp_path / "c")
    save_file({"a": torch.ones(2)}, tmp_path / "c", metadata={"tuplet": '{"step": 4}'})  # as version 0.1 wrote it
    assert read_state(tmp_path / "c")[1] == {"step": 4}


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / CHECKPOINT
    write_state(file, {"a": torch.ones(3)}, {"step": 1})
    monkeypatch.setattr("safetensors.torch.save_file", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(InputError, match="disk full"):
        write_state(file, {"a": torch.zeros(3)}, {"step": 2})
    assert read_state(file)[1] == {"step": 1}


def test_checkpoints_are_due_by_minutes_epochs_or_steps() -> None:
    now = time.monotonic()
    assert not Checkpoints("x").due(6, 6, now)
    assert Checkpoints("x").due(6, 6, now - 601)
    assert Checkpoints("x", epochs=2).due(12, 6, now) and not Checkpoints("x", epochs=2).due(6, 6, now)
    assert Checkpoints("x", steps=5).due(10, 6, now) and not Checkpoints("x", steps=5).due(11, 6, now)
    with pytest.raises(InputError, match="steps must be at least 1"):
        Checkpoints("x", steps=0)
