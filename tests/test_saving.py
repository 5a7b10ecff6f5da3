"""Model folders: whole or not at all, damage refused, nothing trusted. tests/test_contract.py saves every method."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import tuplet
from tests.conftest import random_graph, write_json
from tuplet import InputError
from tuplet._files import file_sum, locked
from tuplet.models.dmat import DMATi
from tuplet.models.saving import read_folder, write_folder
from tuplet.training.encoder import make_encoder


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    DMATi(layers=(8, 4), max_steps=1, device="cpu").fit(random_graph()).save(tmp_path / "m")
    return tmp_path / "m"


def change(folder: Path, **values: Any) -> None:
    file = folder / "model.json"
    write_json(file, json.loads(file.read_text()) | values)


def replace_weights(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Other weights with a checksum that fits."""
    save_file(tensors, folder / "weights.safetensors")
    change(folder, weights=file_sum(folder / "weights.safetensors"))


def test_a_bit_flip_in_the_weights_is_damage(saved: Path) -> None:
    file = saved / "weights.safetensors"
    data = bytearray(file.read_bytes())
    data[-10] ^= 4
    file.write_bytes(data)
    with pytest.raises(InputError, match="not the file that was saved"):
        tuplet.load(saved)


@pytest.mark.parametrize("sizes", [[7, 10**9, 4], [10**12, 8, 4], [7, 8, 4, 4], [7] * 10**5, [7, -8, 4], [], "78"])
def test_sizes_are_compared_before_anything_is_made(saved: Path, sizes: Any) -> None:
    change(saved, layers=sizes)
    with pytest.raises(InputError, match=r"damaged|do not fit|must be"):
        tuplet.load(saved)


@pytest.mark.parametrize("wrong", [np.nan, "half", "transposed", "extra", "less"])
def test_weights_that_do_not_fit_are_refused(saved: Path, wrong: Any) -> None:
    tensors = load_file(saved / "weights.safetensors")
    first = tensors["0.weight"]
    if wrong == "half":
        tensors["0.weight"] = first.half()
    elif wrong == "transposed":
        tensors["0.weight"] = first.T.contiguous()
    elif wrong == "extra":
        tensors["9.weight"] = first.clone()
    elif wrong == "less":
        del tensors["0.weight"]
    else:
        tensors["0.weight"] = first * wrong
    replace_weights(saved, tensors)
    with pytest.raises(InputError, match=r"do not fit|NaN"):
        tuplet.load(saved)


def test_deep_json_is_refused(saved: Path) -> None:
    for text in (
        "[" * 10**6,
        '{"a":' * 10**6,
        '{"format": 1, "weights": ' + "[" * 10**5 + "]" * 10**5 + "}",
        "1",
        "\xff",
    ):
        (saved / "model.json").write_text(text, encoding="latin-1")
        with pytest.raises(InputError, match=r"damaged|format"):
            tuplet.load(saved)


def test_a_model_does_not_say_where_files_are_written(
    saved: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = saved / "model.json"
    params = json.loads(file.read_text())["params"]
    change(saved, params=params | {"cache": str(tmp_path / "elsewhere")})
    with caplog.at_level(logging.INFO, "tuplet"):
        model = tuplet.load(saved)
    assert model.cache is None and "does not say where" in caplog.text
    model.transform(random_graph())
    assert not (tmp_path / "elsewhere").exists()
    cached = DMATi(layers=(4,), max_steps=1, cache=tmp_path / "rows").fit(random_graph())
    cached.save(tmp_path / "c")
    assert str(tmp_path) not in (tmp_path / "c" / "model.json").read_text()


def test_a_model_that_is_being_written_is_waited_for_or_refused(saved: Path) -> None:
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        with locked(saved):
            inside.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait(60)
    try:
        with pytest.raises(InputError, match="is being written by"):
            tuplet.load(saved).save(saved)
    finally:
        done.set()
        holder.join()
    tuplet.load(saved).save(saved)


class Prepared:
    """What a graph's columns were made by, as far as a model cares."""

    def __init__(self, words: list[str], mean: Any) -> None:
        self.words, self.mean = words, mean

    def to_saved(self) -> tuple[Any, dict[str, Any]]:
        return {"words": self.words}, {"mean": self.mean}


def test_the_preparation_of_the_columns_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = DMATi(layers=(4,), max_steps=1).fit(random_graph())
    assert model.preparation_ is None
    model.preparation_ = Prepared(["a", "b"], np.arange(3.0))
    model.save(tmp_path / "m")
    seen: list[Any] = []
    monkeypatch.setattr("tuplet.models.saving._preparation", lambda meta, arrays: seen.append((meta, arrays)) or "it")
    assert tuplet.load(tmp_path / "m").preparation_ == "it"
    assert seen[0][0] == {"words": ["a", "b"]} and seen[0][1]["mean"].tolist() == [0, 1, 2]


def test_rows_that_are_not_those_saved_are_refused(tmp_path: Path) -> None:
    graph = random_graph()
    DMATi(layers=(4,), max_steps=1).fit(graph).save(tmp_path / "m", rows=graph)
    assert tuplet.load(tmp_path / "m").rows_.parts[0].shape == (30, 7)
    np.save(tmp_path / "m" / "rows-0.npy", np.zeros((30, 7), np.float32))
    with pytest.raises(InputError, match=r"rows-0\.npy is not the file"):
        tuplet.load(tmp_path / "m")


def test_a_model_folder_goes_there_and_back(tmp_path: Path) -> None:
    encoder, other = make_encoder(9, (6, 4), 0), make_encoder(9, (6, 4), 1)
    write_folder(tmp_path / "m", {"class": "DMATi"}, other.state_dict())
    write_folder(tmp_path / "m", {"class": "DMATi"}, encoder.state_dict())  # replaces the first
    meta, tensors = read_folder(tmp_path / "m")
    other.load_state_dict(tensors)
    assert meta["class"] == "DMATi" and all(
        torch.equal(a, b) for a, b in zip(encoder.parameters(), other.parameters())
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["model.json", "weights.safetensors"]
    assert load_file(tmp_path / "m" / "weights.safetensors").keys() == encoder.state_dict().keys()


def test_a_folder_that_is_no_model_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "thesis.tex").write_text("ten years of work")
    with pytest.raises(InputError, match="is not a model folder"):
        write_folder(tmp_path / "m", {}, {})
    assert (tmp_path / "m" / "thesis.tex").read_text() == "ten years of work"
    with pytest.raises(InputError, match="does not exist"):
        write_folder(tmp_path / "absent" / "m", {}, {})


@pytest.mark.parametrize("damage", ["no folder", "no json", "no weights", "short weights", "bad json", "old format"])
def test_damaged_model_folders_are_reported(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "m"
    if damage != "no folder":
        write_folder(folder, {"class": "DMATi"}, {"a": torch.ones(4)})
    if damage == "no json":
        (folder / "model.json").unlink()
    elif damage == "no weights":
        (folder / "weights.safetensors").unlink()
    elif damage == "short weights":
        (folder / "weights.safetensors").write_bytes((folder / "weights.safetensors").read_bytes()[:20])
    elif damage == "bad json":
        (folder / "model.json").write_text('{"format": 1,')
    elif damage == "old format":
        (folder / "model.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(InputError, match=r"missing|damaged|format 99"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [("part_weights", ["x", 1, 1]), ("far", "0.1"), ("layers", "ab"), ("share", None), ("seed", [1])],
)
def test_a_parameter_of_another_kind_is_damage(tmp_path: Path, name: str, value: object) -> None:
    tuplet.SelfDMAT(3, max_steps=2, layers=(8, 4)).fit(random_graph()).save(tmp_path / "m")
    meta = json.loads((tmp_path / "m" / "model.json").read_text())
    meta["params"][name] = value
    write_json(tmp_path / "m" / "model.json", meta)
    with pytest.raises(InputError, match=rf"damaged .*{name}="):
        tuplet.load(tmp_path / "m")
