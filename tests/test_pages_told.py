"""What the report says in words: features of own tables, what vectors have seen, names of files and classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import tuplet
from tests.test_pages import small
from tuplet import InputError, SelfDMAT
from tuplet.cli import app
from tuplet.graph.synth import block_model
from tuplet.io.folder import save_graph
from tuplet.io.seen import seen_by
from tuplet.io.vectors import Vectors
from tuplet.pages import report
from tuplet.pages._file import read_page


def test_numbers_of_a_sparse_table_are_told_as_numbers_and_words_by_name(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"n{i},{rng.lognormal(3 + 4 * (i < 20)):.2f},{'oak' if i < 20 else 'elm'}" for i in range(40)]
    rows[30:33] = [f"n{i},,fir" for i in range(30, 33)]
    (tmp_path / "nodes.csv").write_text("id,size,kind\n" + "\n".join(rows) + "\n")
    edges = [f"n{i},n{(i + 1) % 20 + 20 * (i > 19)}" for i in range(40)]
    (tmp_path / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    g = tuplet.read_graph(tmp_path / "edges.csv", tmp_path / "nodes.csv").with_(y=np.arange(40) // 20)
    sparse = g.with_(x=sp.csr_array(g.x))
    facts, arrays = read_page(report(np.eye(40, 2)[g.y] + 0.1, sparse, tmp_path / "r.html", clusters=g.y))
    marks = {mark["name"]: mark for card in facts["clusters"] for mark in card["marks"]}
    assert marks["size"]["number"] and not marks["kind=oak"]["number"]
    ends = {feature["name"]: feature["ends"] for feature in facts["features"]}
    assert ends["kind=oak"] == ["absent", "present"] and ends["size"][0].startswith("-")
    x = np.asarray(g.x.todense() if sp.issparse(g.x) else g.x)
    place = facts["feature_names"].index("size")
    told = arrays["telling"].reshape(40, 4) == place
    node = int(np.flatnonzero(told.any(axis=1))[0])
    size = x[:, list(g.feature_names).index("size")]
    found = arrays["telling_value"].reshape(40, 4)[node][told[node]]
    np.testing.assert_allclose(found, (size[node] - size.mean()) / size.std(), rtol=1e-4)
    assert facts["prepared"] and arrays["telling_number"][place]
    assert facts["clusters"][0]["classes"][0][0] == facts["classes"][0]["name"] == "class 0"  # so has its colour


def test_a_model_of_a_graph_without_features_has_a_report_and_no_other_such_graph(tmp_path: Path) -> None:
    g, other = (block_model([30, 20], seed=seed).with_(x=None, y=None) for seed in (0, 1))
    model = SelfDMAT(2, n_init=1, max_steps=2).fit(g)
    facts, _ = read_page(report(model, g, tmp_path / "r.html"))
    assert facts["shown"] == 50 and not facts["features"]
    with pytest.raises(InputError, match="the model was fitted on 'structure"):
        report(model, other, tmp_path / "r.html")


def test_the_page_of_a_file_says_in_words_what_its_vectors_have_seen(tmp_path: Path) -> None:
    g = small()
    z = np.asarray(g.x, np.float32)
    for labels, text in ((False, "the edges, no labels"), (True, "the edges and 64 labels")):
        table = Vectors(g.node_ids, z, metadata={"graph": g.fingerprint(), "seen": seen_by(g, labels=labels)})
        facts, _ = read_page(report(table, g, tmp_path / "r.html"))
        assert dict(facts["run"])["learned from"] == text and "seen" not in dict(facts["run"])
        assert labels == any("labels trained" in warning for warning in facts["warnings"])


def test_the_page_of_a_table_has_the_name_of_its_file(tmp_path: Path) -> None:
    save_graph(small().with_(name=""), tmp_path / "own")
    args = ["embed", str(tmp_path / "own"), "-q", "--set", "max_steps=2", "--set", "n_init=1"]
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    result = CliRunner().invoke(app, [*args, "-o", str(tmp_path / "v.parquet"), "--report", str(pages[0])])
    assert result.exit_code == 0, result.output
    args = ["report", str(tmp_path / "v.parquet"), "--graph", str(tmp_path / "own"), "-q", "-o", str(pages[1])]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    assert [read_page(page)[0]["title"] for page in pages] == ["own: SelfDMAT", "own: SelfDMAT"]
