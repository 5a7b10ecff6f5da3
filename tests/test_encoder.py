"""The encoder: shapes, seeds, and encoding in blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tuplet._check import InputError
from tuplet.training import encoder as encoder_module
from tuplet.training.encoder import encode, layer_sizes, make_encoder, new_encoder, spectral_encoder


def test_the_last_layer_is_linear_and_relu_stands_between() -> None:
    kinds = [type(part).__name__ for part in make_encoder(7, (5, 4, 3))]
    assert kinds == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert layer_sizes(make_encoder(7, (5, 4, 3))) == [7, 5, 4, 3]


def test_weights_follow_from_the_seed_alone() -> None:
    before = torch.random.get_rng_state()
    a, b, c = make_encoder(7, (5, 3), 1), make_encoder(7, (5, 3), 1), make_encoder(7, (5, 3), 2)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters()))
    assert not torch.equal(a[0].weight, c[0].weight)
    assert 0.9 / 7**0.5 < a[0].weight.abs().max() <= 1 / 7**0.5


@pytest.mark.parametrize("unit_rows", [True, False])
def test_blocks_give_what_all_rows_at_once_give(
    monkeypatch: pytest.MonkeyPatch, unit_rows: bool, tmp_path: Path
) -> None:
    rows = np.random.default_rng(0).random((23, 6), dtype=np.float32)
    rows[4] = 0
    model = make_encoder(6, (5, 3))
    x = torch.from_numpy(rows)
    if unit_rows:
        x = x / x.norm(dim=1, keepdim=True).clamp_min(1e-9)
    expected = model(x).detach().numpy()
    monkeypatch.setattr(encoder_module, "BLOCK_VALUES", 30)
    out = np.lib.format.open_memmap(tmp_path / "z.npy", mode="w+", dtype=np.float32, shape=(23, 3))
    rows.flags.writeable = False
    for given in (rows, torch.tensor(rows), rows.astype(np.float64)):
        np.testing.assert_allclose(encode(model, given, unit_rows=unit_rows), expected, rtol=1e-5, atol=1e-6)
    assert encode(model, rows, unit_rows=unit_rows, out=out) is out
    np.testing.assert_allclose(np.load(tmp_path / "z.npy"), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("unit_rows", [True, False])
def test_a_spectral_encoder_gives_the_leading_singular_directions(unit_rows: bool) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 6)) * [9, 5, 3, 2, 1, 0.5] + 1
    seen = rows / np.linalg.norm(rows, axis=1, keepdims=True) if unit_rows else rows
    left, values, _ = np.linalg.svd(seen, full_matrices=False)
    vectors = encode(spectral_encoder(rows, 3, unit_rows=unit_rows), rows, unit_rows=unit_rows)
    np.testing.assert_allclose(np.abs(vectors), np.abs(left * values)[:, :3], rtol=1e-4, atol=1e-4)


def test_a_spectral_encoder_is_no_wider_than_the_rows_and_sees_a_sample_of_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = np.random.default_rng(0).random((30, 5), dtype=np.float32)
    assert layer_sizes(spectral_encoder(rows, 64)) == [5, 5]
    assert layer_sizes(spectral_encoder(rows[:2], 64)) == [5, 2]
    whole = spectral_encoder(rows, 2)[0].weight
    monkeypatch.setattr(encoder_module, "SPECTRAL_SAMPLE", 10)
    sampled = [spectral_encoder(rows, 2, seed)[0].weight for seed in (0, 0, 1)]
    assert torch.equal(sampled[0], sampled[1])
    assert not torch.equal(sampled[0], sampled[2])
    assert not torch.equal(sampled[0], whole)


def test_a_number_of_columns_starts_at_the_spectrum_and_a_list_of_widths_at_random() -> None:
    rows = np.random.default_rng(0).random((30, 5), dtype=np.float32)
    assert torch.equal(new_encoder(rows, 3, 7)[0].weight, spectral_encoder(rows, 3, 7)[0].weight)
    assert torch.equal(new_encoder(rows, (3,), 7)[0].weight, make_encoder(5, (3,), 7)[0].weight)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: make_encoder(7, ()), "layers is empty"),
        (lambda: make_encoder(0, (3,)), "n_features must be at least 1"),
        (lambda: make_encoder(7, (3, 0)), "layers must be at least 1"),
        (lambda: new_encoder(np.ones((9, 7)), 0), "layers must be at least 1"),
        (lambda: new_encoder(np.ones((9, 7)), "64"), "layers must be a whole number"),
        (lambda: encode(make_encoder(7, (3,)), np.ones((2, 6))), "6 columns but the encoder takes 7"),
        (lambda: encode(make_encoder(7, (3,)), np.ones((2, 7)), out=np.empty((2, 3))), "out is float64"),
    ],
)
def test_bad_arguments_are_explained(call: object, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()  # type: ignore[operator]
