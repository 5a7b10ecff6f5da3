"""The loop: it learns, it repeats to the bit, it stops when told, and it reads rows in the order that it says."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tuplet._check import InputError
from tuplet.losses import dmati_loss, to_unit
from tuplet.training import batches
from tuplet.training.batches import (
    batch_indices,
    block_plan,
    is_memory_map,
    pick_device,
    step_indices,
    steps_per_epoch,
)
from tuplet.training.checkpoint import CHECKPOINT, read_state
from tuplet.training.encoder import make_encoder
from tuplet.training.history import History
from tuplet.training.loop import TrainConfig, train
from tuplet.training.views import draw_views, mask_columns

ROWS = np.random.default_rng(0).random((70, 12), dtype=np.float32)
SMALL: dict[str, Any] = {"batch_size": 16, "n_views": 2}


def trained(config: TrainConfig, rows: Any = ROWS, **options: Any) -> tuple[nn.Sequential, History]:
    encoder = make_encoder(rows.shape[1], (8, 4), 0)
    return encoder, train(encoder, rows, config, **options)


def bits(encoder: nn.Sequential) -> bytes:
    return b"".join(p.detach().numpy().tobytes() for p in encoder.parameters())


@pytest.mark.parametrize(
    ("name", "make", "fraction"),
    [("adamw", torch.optim.AdamW, 0.3), ("adam", torch.optim.Adam, 0.3), ("adamw", torch.optim.AdamW, 0.75)],
)
def test_three_steps_equal_a_loop_written_out(name: str, make: Any, fraction: float) -> None:
    """The whole step against plain PyTorch: built views, a mean of losses, the optimizer.

    A view of 12 columns with 0.75 masked is told by the 3 columns that it keeps, one with 0.3 by the 4 that it masks.
    """
    config = TrainConfig(
        max_steps=3, temperature=0.7, mask_fraction=fraction, lr=0.01, optimizer=name, weight_decay=0.1, **SMALL
    )
    encoder, history = trained(config, seed=5)
    plain = make_encoder(12, (8, 4), 0)
    optimizer = make(plain.parameters(), lr=0.01, weight_decay=0.1)
    losses = []
    for step, index in step_indices(70, 16, 5, 0, 3):
        x = to_unit(torch.from_numpy(ROWS[index]))
        columns, kept = draw_views(5, step, 12, 2, fraction)
        views = [mask_columns(x, torch.from_numpy(c), kept=kept) for c in columns]
        assert all(int((view == 0).all(0).sum()) == round(12 * fraction) for view in views)
        loss = torch.stack([dmati_loss(plain(x), plain(view), temperature=0.7) for view in views]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert history.rows[-1]["step"] == 3
    assert history.loss[-1] == pytest.approx(np.mean(losses), rel=1e-5)
    for a, b in zip(encoder.parameters(), plain.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("loss", ["dmati", "dmat", "dmt"])
def test_the_loss_falls_and_the_same_seed_gives_the_same_bits(loss: str) -> None:
    labels = (ROWS @ np.ones(12) > 6).astype(np.int64) + (ROWS[:, 0] > 0.5)  # what an encoder can learn
    config = TrainConfig(loss=loss, epochs=8, lr=0.01, mask_fraction=0.1, unit_rows=False, **SMALL)
    a, history = trained(config, labels=labels, seed=1)
    b, again = trained(config, labels=labels, seed=1)
    c, _ = trained(config, labels=labels, seed=2)
    assert history.loss[-1] < history.loss[0] and len(history.rows) == 8
    assert bits(a) == bits(b) != bits(c) and history.loss == again.loss


def test_global_random_state_neither_matters_nor_changes() -> None:
    config = TrainConfig(max_steps=4, **SMALL)
    torch.manual_seed(1)
    a, _ = trained(config)
    before = torch.random.get_rng_state()
    b, _ = trained(config)
    assert bits(a) == bits(b) and torch.equal(torch.random.get_rng_state(), before)


def test_arrays_tensors_memory_maps_and_doubles_give_the_same_bits(tmp_path: Path) -> None:
    config = TrainConfig(max_steps=6, shuffle="full", **SMALL)
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    expected = bits(trained(config)[0])
    for rows in (mapped, torch.from_numpy(ROWS), ROWS.astype(np.float64)):
        assert bits(trained(config, rows)[0]) == expected


def test_rows_are_scaled_to_unit_length_or_not() -> None:
    scaled = ROWS * np.linspace(1, 9, 70, dtype=np.float32)[:, None]
    on, off = (TrainConfig(max_steps=3, unit_rows=unit, **SMALL) for unit in (True, False))
    a, b = trained(on)[1].loss[-1], trained(on, scaled)[1].loss[-1]
    assert a == pytest.approx(b, rel=1e-4)
    assert trained(off)[1].loss[-1] != pytest.approx(trained(off, scaled)[1].loss[-1], rel=1e-4)


def test_unlabelled_rows_are_not_read_by_dmat() -> None:
    labels = np.random.default_rng(1).permutation(np.where(np.arange(70) < 40, np.arange(70) % 3, -1))
    spoiled = ROWS.copy()
    spoiled[labels < 0] = np.nan
    config = TrainConfig(loss="dmat", epochs=2, **SMALL)
    assert bits(trained(config, labels=labels)[0]) == bits(trained(config, spoiled, labels=labels)[0])


def test_dmati_never_reads_labels() -> None:
    config = TrainConfig(max_steps=3, **SMALL)
    assert bits(trained(config)[0]) == bits(trained(config, labels=np.full(3, 99))[0])


def test_length_is_in_steps_epochs_or_the_shorter_of_both() -> None:
    assert TrainConfig().n_steps(2708) == 150
    assert TrainConfig().n_steps(512 * 400) == 400  # at least one epoch
    assert TrainConfig(epochs=3).n_steps(2708) == 18
    assert TrainConfig(max_steps=7).n_steps(2708) == 7
    assert TrainConfig(epochs=3, max_steps=7).n_steps(2708) == 7


def test_schedule_and_warmup() -> None:
    cosine = TrainConfig(lr=1.0, schedule="cosine", warmup=4)
    rates = [cosine.lr_at(step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.25, rel=0.01) and max(rates) < 1 and rates[50] == pytest.approx(0.5)
    assert rates[-1] < 0.001
    a, b = (bits(trained(TrainConfig(max_steps=5, schedule=s, **SMALL))[0]) for s in ("constant", "cosine"))
    assert a != b


def test_stop_auto_keeps_the_best_weights_and_ends_early() -> None:
    config = TrainConfig(
        max_steps=60, stop="auto", criterion="effective_rank", criteria=("silhouette",), check_every=2, lr=0.03,
        patience=2, n_clusters=3, **SMALL,
    )  # fmt: skip
    encoder, history = trained(config)
    values = history["effective_rank"]
    assert history.stopped == "auto" and history.rows[-1]["step"] < 60
    assert history.best_step == history.rows[int(np.argmin(values))]["step"]
    assert len(values) - 1 - int(np.argmin(values)) == 2  # patience
    assert len(history["silhouette"]) == len(history.rows)
    to_best = TrainConfig(max_steps=history.best_step, lr=0.03, **SMALL)
    assert bits(encoder) == bits(trained(to_best)[0])


def test_modularity_is_watched_when_edges_are_given() -> None:
    edges = np.random.default_rng(0).integers(0, 70, (40, 2))
    config = TrainConfig(max_steps=4, criteria=("modularity",), n_clusters=3, check_every=2, **SMALL)
    assert len(trained(config, edges=edges)[1]["modularity"]) == 2
    with pytest.raises(InputError, match="needs edges"):
        trained(config)


def test_interrupt_in_the_callback_is_raised_after_a_whole_step(tmp_path: Path) -> None:
    def progress(phase: str, done: float) -> None:
        assert phase == "train"
        if done >= 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"after 5 of 10 steps. None of them is kept"):
        trained(TrainConfig(max_steps=10, **SMALL), progress=progress)
    with pytest.raises(KeyboardInterrupt, match=r"after 5 of 10 steps. They are kept in .*resume=True"):
        trained(TrainConfig(max_steps=10, **SMALL), progress=progress, checkpoint=tmp_path)
    encoder, history = trained(TrainConfig(max_steps=10, **SMALL), checkpoint=tmp_path, resume=True)
    assert history.stopped == "fixed" and bits(encoder) == bits(trained(TrainConfig(max_steps=10, **SMALL))[0])


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_ctrl_c_lets_the_step_finish_and_gives_the_handler_back(tmp_path: Path) -> None:
    def progress(phase: str, done: float) -> None:
        if done == 0.3:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt, match="after 3 of 10 steps"):
            trained(TrainConfig(max_steps=10, **SMALL), progress=progress, checkpoint=tmp_path)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert read_state(tmp_path / CHECKPOINT)[1]["step"] == 3


def test_progress_runs_from_the_first_step_to_one() -> None:
    seen: list[float] = []
    trained(TrainConfig(max_steps=5, **SMALL), progress=lambda phase, done: seen.append(done))
    assert seen == [0.2, 0.4, 0.6, 0.8, 1.0]


def test_a_loss_that_is_not_finite_is_reported() -> None:
    rows = ROWS.copy()
    rows[3] = np.inf
    with pytest.raises(InputError, match="The loss is nan at step"):
        trained(TrainConfig(epochs=1, **SMALL), rows)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"loss": "dmatti"}, "Did you mean 'dmati'"),
        ({"temperature": 0}, "temperature must lie in"),
        ({"mask_fraction": 1.0}, "mask_fraction must lie in"),
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"criterion": "elbow"}, "criterion 'elbow' is not known"),
        ({"criteria": "silhouette"}, "tuple of names"),
        ({"schedule": "cosin"}, "Did you mean 'cosine'"),
    ],
)
def test_bad_settings_are_explained(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        TrainConfig(**settings)


def test_missing_and_too_few_labels_are_explained() -> None:
    with pytest.raises(InputError, match="'dmt' needs labels"):
        trained(TrainConfig(loss="dmt"))
    with pytest.raises(InputError, match="There are 1 rows to train on"):
        trained(TrainConfig(loss="dmt"), labels=np.where(np.arange(70) == 33, 0, -1))


@pytest.mark.parametrize("n", [33, 64, 65, 70])
@pytest.mark.parametrize("blocks", [{}, {"block": 5, "group": 3}, {"block": 100, "group": 2}])
def test_an_epoch_reads_every_row_once(n: int, blocks: dict[str, int]) -> None:
    found = list(batch_indices(n, 16, np.random.default_rng(0), **blocks))
    assert len(found) == steps_per_epoch(n, 16) and all(len(b) == 16 for b in found[:-1])
    rows = np.concatenate(found)
    assert len(set(rows)) == len(rows) == (n if n % 16 != 1 else n - 1)
    assert all((np.diff(batch) > 0).all() for batch in found)


def test_block_shuffling_stays_inside_its_group_and_touches_it_first() -> None:
    touched: list[tuple[int, int]] = []
    plan: dict[str, Any] = {"block": 10, "group": 2, "touch": touched.extend}
    for k, batch in enumerate(batch_indices(100, 10, np.random.default_rng(1), **plan)):
        spans = touched[-2:]
        assert len(touched) == 2 * (k // 2 + 1)
        assert all(any(a <= row < b for a, b in spans) for row in batch)
    assert sorted(touched) == [(10 * k, 10 * k + 10) for k in range(10)]


@pytest.mark.parametrize("blocks", [{}, {"block": 7, "group": 2}])
def test_skipped_steps_leave_the_others_as_they_are(blocks: dict[str, int]) -> None:
    whole = list(step_indices(70, 16, 0, 0, 14, **blocks))
    for first in (1, 5, 9, 13):
        later = list(step_indices(70, 16, 0, first, 14, **blocks))
        assert [step for step, _ in later] == list(range(first, 14))
        assert all(np.array_equal(a[1], b[1]) for a, b in zip(later, whole[first:]))


def test_memory_maps_are_shuffled_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    monkeypatch.setattr(batches, "BLOCK_BYTES", 10 * 48)
    monkeypatch.setattr(batches, "GROUP_BYTES", 30 * 48)
    assert is_memory_map(mapped[5:]) and not is_memory_map(ROWS)
    assert block_plan(ROWS, "auto") == {} == block_plan(mapped, "full")
    plan = block_plan(mapped, "auto")
    assert (plan["block"], plan["group"]) == (10, 3)
    plan["touch"]([(0, 70)])
    a, history = trained(TrainConfig(epochs=3, **SMALL), mapped)
    assert history.loss[-1] > 0 and bits(a) != bits(trained(TrainConfig(epochs=3, **SMALL))[0])
    assert bits(a) == bits(trained(TrainConfig(epochs=3, shuffle="blocks", **SMALL))[0])


def test_devices_are_checked() -> None:
    with pytest.raises(InputError, match="device 'gpu' is not known"):
        pick_device("gpu")
    if not torch.cuda.is_available():
        assert pick_device("auto").type == "cpu"
        with pytest.raises(InputError, match="sees no GPU"):
            pick_device("cuda")


def test_a_worker_thread_may_train() -> None:
    found: list[bytes] = []
    config = TrainConfig(max_steps=3, **SMALL)
    thread = threading.Thread(target=lambda: found.append(bits(trained(config)[0])))
    thread.start()
    thread.join()
    assert found == [bits(trained(config)[0])]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_trainings_after_each_other_keep_no_memory_on_the_gpu():
    config = TrainConfig(max_steps=8, batch_size=32)
    trained(config, device="cuda")
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        trained(config, device="cuda")
    gc.collect()
    assert torch.cuda.memory_allocated() < before + 8e6


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("loss", ["dmati", "dmat", "dmt"])
def test_recorded_steps_equal_eager_ones_on_the_gpu(loss: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="tuplet")
    labels = np.arange(70) % 3
    config = {"loss": loss, "max_steps": 20, **SMALL}
    eager, a = trained(TrainConfig(capture=False, **config), labels=labels, device="cuda")
    recorded, b = trained(TrainConfig(**config), labels=labels, device="cuda")
    assert "recorded as a CUDA graph" in caplog.text
    np.testing.assert_allclose(a.loss, b.loss, rtol=1e-4)
    for p, q in zip(eager.parameters(), recorded.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_rows_in_host_memory_train_as_those_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainConfig(max_steps=12, **SMALL)
    _, resident = trained(config, device="cuda")
    monkeypatch.setattr(batches, "RESIDENT_SHARE", 0.0)
    _, streamed = trained(config, device="cuda")
    np.testing.assert_allclose(resident.loss, streamed.loss, rtol=1e-5)
