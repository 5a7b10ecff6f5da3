"""Vectors say what they have seen, and nobody is scored on labels that trained them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Run
from tuplet import InputError, load_dataset
from tuplet.graph.synth import block_model
from tuplet.io.npz import write_npz
from tuplet.io.seen import labels_seen, seen_by
from tuplet.io.vectors import Vectors, in_node_order, read_vectors, write_vectors

TRAIN = ["--method", "DMAT", "--set", "max_steps=5", "--set", "layers=(16, 8)", "-q"]


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A folder with a graph of which all labels are known, and the same one with half of them."""
    g = block_model([60, 60, 60], seed=0)
    hidden = np.random.default_rng(0).random(g.n_nodes) < 0.5
    write_npz(g, tmp_path / "all.npz")
    write_npz(g.with_(y=np.where(hidden, -1, g.y)), tmp_path / "half.npz")
    return tmp_path


def test_vectors_that_saw_all_labels_get_no_score(run: Run, half: Path) -> None:
    v = half / "v.parquet"
    code, text, _ = run("embed", half / "all.npz", "-o", v, *TRAIN)
    assert code == 0 and "learned from 180 labels" in text
    code, out, err = run("classify", v, "-g", half / "all.npz", "-q")
    assert code == 1 and out == "" and "have seen the labels of 180 of 180" in err and len(err.splitlines()) == 1
    code, out, err = run("cluster", v, "-g", half / "all.npz", "-q", "--json")
    assert code == 0 and "accuracy" not in json.loads(out)["mean"] and "have seen" in err


def test_the_score_is_of_unseen_nodes_alone(run: Run, half: Path) -> None:
    v = half / "v.parquet"
    assert run("embed", half / "half.npz", "-o", v, *TRAIN)[0] == 0
    hidden = int(np.sum(~read_vectors(v).labels_seen))
    code, out, err = run("classify", v, "-g", half / "all.npz", "-q", "--json", "--train", "0.3")
    assert code == 0 and "have seen" in err
    assert sum(json.loads(out)["runs"][0]["sizes"].values()) == hidden
    code, text, _ = run("classify", v, "-g", half / "all.npz", "-q", "--train", "0.3")
    assert code == 0 and f"scored on the other {hidden} alone" in text


def test_predictions_need_no_score(run: Run, half: Path) -> None:
    v, out = half / "v.parquet", half / "p.csv"
    assert run("embed", half / "half.npz", "-o", v, *TRAIN)[0] == 0
    code, text, err = run("classify", v, "-g", half / "half.npz", "-o", out, "-q")
    assert code == 0 and out.is_file() and "predicted" in text and "no score" in err


def test_methods_without_labels_have_seen_none(run: Run, half: Path) -> None:
    v = half / "v.parquet"
    assert run("embed", half / "all.npz", "-o", v, "--method", "FilterSVD", "-q")[0] == 0
    table = read_vectors(v)
    assert table.labels_seen is not None and not table.labels_seen.any()
    assert table.metadata["seen"]["edges"]["count"] == 720 or table.metadata["seen"]["edges"]["count"] > 0
    code, _, err = run("classify", v, "-g", half / "all.npz", "-q")
    assert code == 0 and err == ""


def test_a_model_of_unknown_labels_is_a_warning(run: Run, half: Path) -> None:
    v = half / "v.parquet"
    assert run("embed", half / "all.npz", "-o", v, *TRAIN, "--save-model", half / "m")[0] == 0
    assert run("embed", half / "all.npz", "-o", v, "--model", half / "m", "-q")[0] == 0
    code, text, err = run("classify", v, "-g", half / "all.npz", "-q")
    assert code == 0 and "may be too high" in err and "WARNING" in text


@pytest.mark.parametrize("name", ["v.csv", "v.npy"])
@pytest.mark.parametrize("verb", ["classify", "cluster"])
def test_a_file_without_a_record_is_a_warning(run: Run, half: Path, name: str, verb: str) -> None:
    assert run("embed", half / "all.npz", "-o", half / name, *TRAIN)[0] == 0
    code, text, err = run(verb, half / name, "-g", half / "all.npz", "-q")
    assert code == 0 and "WARNING" in text
    assert err.startswith("warning: the file does not say whether labels trained") and len(err.splitlines()) == 1


def test_the_record_follows_the_rows_through_files_and_orders(tmp_path: Path) -> None:
    g = load_dataset("cora")
    y = np.where(np.arange(g.n_nodes) % 3 == 0, g.y, -1)
    g = g.with_(y=y)
    z = np.random.default_rng(0).normal(size=(g.n_nodes, 2)).astype(np.float32)
    path = write_vectors(tmp_path / "v.parquet", z, g, metadata={"seen": seen_by(g, labels=True)})
    back = read_vectors(path)
    assert np.array_equal(back.labels_seen, y >= 0)
    order = np.random.default_rng(1).permutation(g.n_nodes)
    turned = in_node_order(back, g.with_(ids=g.ids[order], x=None))
    assert np.array_equal(turned.labels_seen, (y >= 0)[order]) and np.array_equal(turned.z, z[order])


@pytest.mark.parametrize(
    "labels", [{"count": 3, "nodes": "!"}, {"nodes": "eJw="}, {"count": 1, "nodes": 5}, [1], "x"]
)
def test_a_damaged_record_is_an_error(labels: object) -> None:
    with pytest.raises(InputError, match="seen"):
        labels_seen({"seen": {"labels": labels}}, 10)


def test_no_record_is_no_claim() -> None:
    assert labels_seen({}, 3) is None and labels_seen({"seen": 5}, 3) is None
    assert Vectors(np.arange(2), np.zeros((2, 1), np.float32)).labels_seen is None
