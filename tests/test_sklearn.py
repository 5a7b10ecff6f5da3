"""scikit-learn's tools over nodes: pipelines, grid search, scores; and what type checkers see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline

import tuplet
from tests.conftest import random_graph
from tuplet import DMAT, DMATi, Graph, InputError
from tuplet.graph.synth import block_model
from tuplet.models.on_nodes import NodeVectors

QUICK = {"layers": (8, 4), "max_steps": 3, "batch_size": 16, "device": "cpu"}


def test_a_grid_search_runs_over_nodes() -> None:
    graph = block_model([30, 30, 30], seed=0)
    line = make_pipeline(NodeVectors(DMATi(**QUICK), graph), LogisticRegression())
    grid = {"nodevectors__estimator__alpha": [0.1, 0.3], "logisticregression__C": [0.1, 10.0]}
    search = GridSearchCV(line, grid, cv=StratifiedKFold(3), error_score="raise").fit(np.arange(90), graph.y)
    assert search.best_params_.keys() == grid.keys() and len(search.cv_results_["params"]) == 4
    assert search.predict(np.arange(90)).shape == (90,)
    assert search.best_estimator_[0].graph is graph  # clones share it
    alpha = search.best_params_["nodevectors__estimator__alpha"]
    z = DMATi(**QUICK, alpha=alpha).fit_transform(graph)
    train, test = next(StratifiedKFold(3).split(np.arange(90), graph.y))
    by_hand = LogisticRegression(C=search.best_params_["logisticregression__C"]).fit(z[train], graph.y[train])
    scores = search.cv_results_["split0_test_score"][search.best_index_]
    assert by_hand.score(z[test], graph.y[test]) == pytest.approx(scores)


def test_a_fold_sees_the_labels_of_its_own_nodes_alone() -> None:
    graph = random_graph()
    some = np.arange(0, 30, 2)
    y = np.where(np.isin(np.arange(30), some), graph.y, -1)
    z = NodeVectors(DMAT(**QUICK), graph).fit(some, graph.y[some]).transform(np.arange(30))
    assert np.array_equal(z, DMAT(**QUICK).fit(graph, y).embedding_)
    with pytest.raises(InputError, match="needs labels"):
        NodeVectors(DMAT(**QUICK), graph).fit(some)  # not those of the graph


def test_nodes_are_checked_and_frames_given() -> None:
    graph = random_graph()
    nodes = NodeVectors(DMATi(**QUICK), graph)
    with pytest.raises(InputError, match="not fitted yet"):
        nodes.transform([1])
    for wrong in ([30], [-1], [0.5], [[0, 1]]):
        with pytest.raises(InputError, match="node numbers from 0 to 29"):
            nodes.fit(wrong)
    pytest.importorskip("pandas")
    frame = clone(nodes).set_output(transform="pandas").fit_transform(np.arange(30)[:, None])
    assert list(frame.columns) == ["dmati0", "dmati1", "dmati2", "dmati3"]


def test_it_stands_in_a_pipeline_that_takes_the_graph() -> None:
    graph: Graph = random_graph()
    line = make_pipeline(DMATi(**QUICK), LogisticRegression())
    assert line.fit(graph, graph.y).predict(graph).shape == (30,)


TYPED = """
import tuplet
from tuplet import DMATi, Graph, SelfDMAT, load
model: SelfDMAT = SelfDMAT(3)
reveal_type(tuplet.read_graph("a"))
reveal_type(DMATi(seed=0).fit_transform(tuplet.load_dataset("cora")))
reveal_type(tuplet.baselines.DGI)
reveal_type(tuplet.weights.ppr(0.1))
"""
WRONG = """
import tuplet
tuplet.DMATi(sed=0)
tuplet.SelfDMAT(n_cluster=3)
tuplet.baselines.DGI(hiden=1)
tuplet.nothing
"""


@pytest.mark.slow
def test_type_checkers_see_every_public_name(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    names = "\n".join(f"reveal_type(tuplet.{name})" for name in tuplet.__all__)
    (tmp_path / "right.py").write_text(TYPED + names)
    (tmp_path / "wrong.py").write_text(WRONG)
    source = Path(tuplet.__file__).parent
    assert (source / "py.typed").is_file()
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--ignore-missing-imports",
        "--cache-dir",
        str(tmp_path / "c"),
    ]
    command += ["--config-file", "", str(tmp_path / "right.py"), str(tmp_path / "wrong.py")]
    found = subprocess.run(command, capture_output=True, text=True, env={"MYPYPATH": str(source.parent)}).stdout
    told = [line for line in found.splitlines() if "right.py" in line]
    assert not [line for line in told if "error" in line], found
    assert not [line for line in told if 'Revealed type is "Any"' in line], found
    wrong = [line for line in found.splitlines() if "wrong.py" in line]
    for line, word in ((3, "sed"), (4, "n_cluster"), (5, "hiden"), (6, "nothing")):
        assert any(f":{line}: error" in text and f'"{word}"' in text for text in wrong), found
