"""Files that version 0.1 wrote are read by this version: graphs, models, a checkpoint, vectors.

`fixtures/v0_1` was written by 0.1.0 and is never written again; `expected.npz` holds what 0.1.0 computed from it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import tuplet

V0_1 = Path(__file__).parent / "fixtures" / "v0_1"


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    with np.load(V0_1 / "expected.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def stored(name: str = "graph") -> tuplet.Graph:
    return tuplet.read_graph(V0_1 / name)


@pytest.mark.parametrize("name", ["graph", "graph.npz"])
def test_a_stored_graph_of_0_1_opens(name: str, expected: dict[str, np.ndarray]) -> None:
    g = stored(name)
    for part in ("indptr", "indices", "x", "y"):
        assert np.array_equal(getattr(g, part), expected[part])
    assert g.ids[:2].tolist() == ["n00", "n01"] and g.label_names == ("red", "green", "blue")
    assert g.feature_names == tuple(f"f{i}" for i in range(6))


def test_a_stored_graph_of_0_1_with_sparse_features_and_weights_opens(expected: dict[str, np.ndarray]) -> None:
    g = stored("graph-sparse-weighted")
    assert np.array_equal(g.weights, expected["weights"])
    assert np.array_equal(g.x.toarray(), np.where(np.abs(expected["x"]) > 1, expected["x"], 0))


@pytest.mark.parametrize("name", ["DMATi", "DMAT", "DMT", "DMATi-heat", "SelfDMAT"])
def test_a_model_of_0_1_gives_the_vectors_it_gave(name: str, expected: dict[str, np.ndarray]) -> None:
    model = tuplet.load(V0_1 / name)
    assert type(model).__name__ == name.split("-")[0]
    assert np.allclose(model.transform(stored()), expected[name], atol=1e-5)


def test_a_checkpoint_of_0_1_resumes(tmp_path: Path, expected: dict[str, np.ndarray]) -> None:
    shutil.copytree(V0_1 / "checkpoint", tmp_path / "checkpoint")
    model = tuplet.DMATi(layers=(8, 4), alpha=0.15, max_steps=12, batch_size=16, seed=1, device="cpu")
    steps = []
    model.fit(
        stored(),
        checkpoint=tmp_path / "checkpoint",
        resume=True,
        progress=lambda phase, fraction: steps.append(fraction) if phase == "train" else None,
    )
    assert steps[0] > 4 / 12  # it went on, and did not start anew
    assert np.allclose(model.embedding_, expected["resumed"], atol=1e-5)


def test_vectors_of_0_1_are_read(expected: dict[str, np.ndarray]) -> None:
    from tuplet.vectors import read_vectors

    table = read_vectors(V0_1 / "vectors.parquet")
    assert np.array_equal(table.z, expected["DMATi"]) and table.ids[0] == "n00"
