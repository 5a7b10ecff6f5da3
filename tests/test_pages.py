"""The report's parts: what is gathered, where nodes stand, the colours, what the file holds; bad input is refused."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import tuplet
from tests.conftest import random_graph
from tuplet import Graph, InputError
from tuplet._check import MissingExtraError
from tuplet.cli import app
from tuplet.graph.synth import block_model
from tuplet.io.folder import save_graph
from tuplet.io.vectors import Vectors, read_vectors, write_vectors
from tuplet.pages import layout, report
from tuplet.pages._file import read_page
from tuplet.pages.colours import group_colours, seen
from tuplet.pages.features import column_facts, stored_columns, telling_features
from tuplet.pages.tables import class_table, edge_matrix
from tuplet.pages.training import training_facts

SCRIPT = "<script>alert(1)</script>"


def small(seed: int = 0, **changes: Any) -> Graph:
    g = block_model([30, 20, 14], n_features=8, signal=4.0, seed=seed)
    return g.with_(ids=np.array([f"n{i}" for i in range(64)]), **changes)


def written(g: Graph, out: Path, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return read_page(report(g.x, g, out, **options))


def test_the_page_holds_every_node_its_cluster_class_and_neighbours(tmp_path: Path) -> None:
    g = small()
    facts, arrays = written(g, tmp_path / "r.html", clusters=3)
    assert facts["nodes"] == facts["shown"] == 64 and facts["ids"] == [f"n{i}" for i in range(64)]
    assert arrays["label"].tolist() == g.y.tolist()  # type: ignore[union-attr]
    assert sum(card["size"] for card in facts["clusters"]) == 64
    places = arrays["xy"].reshape(64, 2) / 32767
    assert np.abs(places).max() <= 1 and np.ptp(places) > 1
    z = np.asarray(g.x, np.float64)
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    cosine = unit @ unit.T - 3 * np.eye(64)
    assert arrays["near"].reshape(64, -1)[:, 0].tolist() == cosine.argmax(axis=1).tolist()
    starts, linked = arrays["linked_start"], arrays["linked"]
    for node in range(64):
        mine = g.indices[g.indptr[node] : g.indptr[node + 1]][:20]
        assert linked[starts[node] : starts[node + 1]].tolist() == mine.tolist()
    assert arrays["degree"].tolist() == np.diff(g.indptr).tolist()


def test_names_from_data_stay_text_and_nothing_comes_from_the_network(tmp_path: Path) -> None:
    ids = np.array([SCRIPT, *(f"n{i}" for i in range(63))])
    g = small().with_(
        ids=ids, label_names=(SCRIPT, "b", "</title>"), feature_names=tuple(f"{SCRIPT}{j}" for j in range(8))
    )
    g = g.with_(name=SCRIPT)
    path = report(g.x, g, tmp_path / "r.html", title=SCRIPT)
    page = path.read_text()
    assert page.count(SCRIPT) == 0
    assert page.count("<script") == len(re.findall(r"<script(?: type=\"[\w/]+\" id=\"\w+\")?>", page)) == 5
    facts, _ = read_page(path)
    assert facts["ids"][0] == SCRIPT == facts["title"] == facts["classes"][0]["name"]
    assert "default-src 'none'" in page and not re.findall(r"(?:src|href)=\"(?!data:|#)", page)


def test_the_same_seed_gives_the_same_page(tmp_path: Path) -> None:
    g = small()
    one, two = (report(g.x, g, tmp_path / name, seed=4).read_bytes() for name in ("a.html", "b.html"))
    assert one == two


def test_an_estimator_brings_its_clusters_settings_and_curve(tmp_path: Path) -> None:
    g = small()
    model = tuplet.SelfDMAT(3, max_steps=5, n_init=2).fit(g)
    facts, arrays = read_page(tuplet.report(model, g, tmp_path / "r.html"))
    used = np.unique(model.labels_)
    assert used[arrays["cluster"]].tolist() == model.labels_.tolist()
    assert ["n_clusters", "3"] in facts["settings"] and facts["method"] == "SelfDMAT"
    assert facts["history"]["svg"].startswith("<svg") and "steps" in facts["history"]["text"]
    run = dict(facts["run"])
    assert run["graph fingerprint"] == g.fingerprint() and "torch" in run["versions"]
    names = [name for name, _ in facts["scores"]]
    assert names == ["accuracy", "NMI", "ARI", "macro F1", "modularity", "conductance"]


def test_the_curve_comes_with_the_vectors_and_is_the_same_as_the_models(tmp_path: Path) -> None:
    g = small()
    save_graph(g, tmp_path / "g")
    embed = ["embed", str(tmp_path / "g"), "-q", "--method", "DMAT-i", "--set", "max_steps=7", "--set", "layers=8,4"]
    pages = [str(tmp_path / name) for name in ("direct.html", "later.html")]
    vectors = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    runs = [[*embed, "-o", vectors[0], "--report", pages[0]], [*embed, "-o", vectors[1]]]
    runs += [["report", vectors[0], "--graph", str(tmp_path / "g"), "-q", "-o", pages[1]]]
    for args in runs:
        result = CliRunner().invoke(app, args)
        assert result.exit_code == 0, result.output
    direct, later = (read_page(page)[0]["history"] for page in pages)
    assert direct == later and direct["svg"].startswith("<svg") and "7 steps" in direct["text"]
    assert Path(vectors[0]).read_bytes() == Path(vectors[1]).read_bytes()


def test_a_foreign_record_of_training_is_no_curve() -> None:
    good = {"step": [1, 2], "loss": [3.0, 2.0], "stopped": "fixed", "best_step": None}
    assert training_facts(good) is not None
    for bad in (None, {}, good | {"loss": [SCRIPT, 1]}, good | {"loss": [1.0]}, good | {"loss": [1, float("nan")]}):
        assert training_facts(bad) is None


def test_a_model_that_read_labels_is_marked(tmp_path: Path) -> None:
    g = small()
    model = tuplet.DMT(layers=(8, 4), max_steps=2).fit(g)
    facts, _ = read_page(report(model, g, tmp_path / "r.html"))
    assert any("labels trained" in text for text in facts["warnings"])
    with pytest.raises(InputError, match="fitted on 8 feature columns but this graph has 5"):
        report(model, g.with_(x=np.asarray(g.x)[:, :5]), tmp_path / "r.html")


def test_a_large_graph_is_sampled_and_the_page_says_so(tmp_path: Path) -> None:
    g = small()
    facts, arrays = written(g, tmp_path / "a.html", sample=20, seed=1)
    again, _ = written(g, tmp_path / "b.html", sample=20, seed=1)
    other, _ = written(g, tmp_path / "c.html", sample=20, seed=2)
    assert facts["shown"] == 20 and facts["nodes"] == 64 and facts["ids"] == again["ids"] != other["ids"]
    assert "20 of 64 nodes, drawn at random with seed 1" in facts["notes"][0]
    assert sum(card["size"] for card in facts["clusters"]) == 64
    assert arrays["linked"].max() < 20 and arrays["near"].max() < 20


def test_old_nodes_keep_their_places_and_new_ones_stand_among_their_nearest(tmp_path: Path) -> None:
    g = small()
    z = np.asarray(g.x, np.float32)
    first = g.with_(x=None, ids=g.node_ids)
    keep = np.arange(40)
    part = Graph.from_scipy(first.adj[:40][:, :40], z[:40], ids=g.node_ids[:40])
    facts, arrays = written(part, tmp_path / "old.html")
    more, later = written(g, tmp_path / "new.html", like=tmp_path / "old.html", clusters=3)
    old = dict(zip(facts["ids"], arrays["xy"].reshape(-1, 2).tolist()))
    new = dict(zip(more["ids"], later["xy"].reshape(-1, 2).tolist()))
    assert all(new[name] == old[name] for name in g.node_ids[keep])
    assert "40 nodes stand where the earlier report had them" in more["notes"][0]
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    nearest = np.argsort(-(unit[50] @ unit[:40].T))[:10]
    around = np.array([old[f"n{i}"] for i in nearest])
    expected = (2 * np.median(around, axis=0) + around[0]) / 3
    np.testing.assert_allclose(new["n50"], expected, atol=2)


def test_neighbours_by_cells_are_near_to_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    z = np.repeat(rng.normal(size=(30, 80)), 60, axis=0) + 0.8 * rng.normal(size=(1800, 80))
    unit = (z / np.linalg.norm(z, axis=1, keepdims=True)).astype(np.float32)
    cosine = unit @ unit.T - 3 * np.eye(1800, dtype=np.float32)
    truth = np.argsort(-cosine, axis=1, kind="stable")[:, :10]
    index, found = layout.near_rows(unit, 10)
    assert (np.sort(index) == np.sort(truth)).mean() > 0.999
    np.testing.assert_allclose(found, np.take_along_axis(cosine, index, 1), atol=1e-5)
    monkeypatch.setattr(layout, "EXACT_UP_TO", 900)
    by_cells, _ = layout.near_rows(unit, 10)
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(by_cells, truth)])
    assert shared > 0.95
    assert not (by_cells == np.arange(1800)[:, None]).any()


def test_few_equal_or_narrow_rows_still_make_a_map(tmp_path: Path) -> None:
    for n, x in (
        (2, np.ones((2, 1))),
        (12, np.ones((12, 3))),
        (40, np.arange(1.0, 41)[:, None]),
        (9, np.zeros((9, 2))),
    ):
        g = Graph.from_scipy(sp.csr_array((n, n)), x)
        facts, arrays = written(g, tmp_path / "r.html")
        assert facts["shown"] == n and np.isfinite(arrays["xy"]).all() and facts["matrix"] is None


def test_the_matrix_counts_each_edge_once() -> None:
    g = random_graph(n=30, seed=2)
    clusters = np.arange(30) % 3 * 5
    found = edge_matrix(g, clusters)
    assert found is not None and found["clusters"] == [0, 5, 10]
    slow = np.zeros((3, 3), int)
    for u, v in g.edges():
        slow[u % 3, v % 3] += 1
        slow[v % 3, u % 3] += u % 3 != v % 3
    assert found["cells"] == slow.tolist()


def test_the_class_table_counts_labelled_nodes() -> None:
    g = random_graph(n=6, seed=0).with_(y=np.array([0, 0, 1, 1, -1, 1]))
    assert class_table(g, np.array([3, 3, 3, 7, 7, 7])).tolist() == [[2, 0], [1, 2]]  # type: ignore[union-attr]
    assert class_table(g.with_(y=None), np.zeros(6, int)) is None


@pytest.mark.parametrize("sparse", [False, True])
def test_telling_features_are_the_rare_ones_and_columns_come_back(sparse: bool) -> None:
    x = np.zeros((40, 4), np.float32)
    x[:30, 0] = 1  # most have it
    x[:3, 1] = 2  # few have it
    x[5:, 2] = 1
    x[:, 3] = 0
    g = Graph.from_scipy(sp.csr_array((40, 40)), sp.csr_array(x) if sparse else x, feature_names=list("abcd"))
    told = telling_features(g, np.array([0, 39]), column_facts(g.x))
    assert told.column[0, :2].tolist() == [1, 0] and told.value[0, 0] == 2
    assert told.column[1].tolist() == [2, -1, -1, -1]
    kept = stored_columns(g, np.arange(40), ["b"])
    assert [fact["name"] for fact in kept.facts] == ["b", "a", "c", "d"] and kept.left_out == 0
    part = slice(kept.start[kept.facts[0]["sparse"]], kept.start[kept.facts[0]["sparse"] + 1])
    assert kept.node[part].tolist() == [0, 1, 2] and kept.level[part].tolist() == [254] * 3
    fact = kept.facts[1]
    column = kept.dense[40 * fact["dense"] : 40 * (fact["dense"] + 1)] / 254 * (fact["high"] - fact["low"])
    np.testing.assert_allclose(column + fact["low"], x[:, 0], atol=0.01)
    assert stored_columns(g, np.arange(40), ["b"], budget=30).left_out == 3


def test_colours_stay_apart_for_every_kind_of_sight() -> None:
    colours = group_colours(300)
    assert len(set(colours)) == 300 and colours[:12] == group_colours(12)
    rgb = np.array([[int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)] for text in colours])
    for count, least in ((12, 0.08), (24, 0.05), (40, 0.04)):  # OKLab; 0.02 is just seen
        lab = seen(rgb[:count])
        away = np.linalg.norm(lab[:, :, None] - lab[:, None], axis=-1) + 9 * np.eye(count)
        assert away[:3].min() > least and away[3].min() > 0.03  # tritanopia is the rare one


def test_paths_that_cannot_be_written_are_refused_before_the_work(tmp_path: Path) -> None:
    g = small()
    for out, text in (
        (tmp_path / "none" / "r.html", "does not exist"),
        (tmp_path / "r.pdf", "does not end in .html"),
        (tmp_path, "does not end in .html"),
    ):
        with pytest.raises(InputError, match=text):
            report(None, g, out)  # no vectors are looked at
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        report(None, g, tmp_path / "folder.html")


def test_vectors_of_another_graph_are_refused_and_of_another_state_marked(tmp_path: Path) -> None:
    g = small()
    table = Vectors(g.node_ids[::-1], np.asarray(g.x, np.float32)[::-1], metadata={"graph": "0" * 16})
    with pytest.raises(InputError, match="belong to another graph"):
        report(table, g.with_(ids=np.arange(64)), tmp_path / "r.html")
    facts, _ = read_page(report(table, g, tmp_path / "r.html"))
    assert any("another state of this graph" in text for text in facts["warnings"])
    with pytest.raises(InputError, match=r"There are 64 vectors but the graph has 30 nodes"):
        report(np.asarray(g.x), random_graph(n=30), tmp_path / "r.html")
    with pytest.raises(InputError, match="Give a number from 0 for each of 64 nodes"):
        report(np.asarray(g.x), g, tmp_path / "r.html", clusters=np.full(64, -1))


def test_without_the_extra_small_graphs_work_and_large_ones_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    g = small()
    assert written(g, tmp_path / "r.html")[0]["shown"] == 64
    monkeypatch.setattr(layout, "WITHOUT_EXTRA", 50)
    with pytest.raises(MissingExtraError, match=r"pip install 'tuplet\[report\]'"):
        report(None, g, tmp_path / "r.html")
    assert written(g, tmp_path / "r.html", sample=50)[0]["shown"] == 50


def test_a_file_that_is_no_report_is_refused(tmp_path: Path) -> None:
    g = small()
    for text in ("", "<html></html>", '<script type="application/json" id="facts">{}</script>'):
        (tmp_path / "old.html").write_text(text)
        with pytest.raises(InputError, match="not a report of tuplet"):
            report(g.x, g, tmp_path / "r.html", like=tmp_path / "old.html")
    page = report(g.x, g, tmp_path / "ok.html")
    for part in ("first", "rest"):
        (tmp_path / "old.html").write_text(page.read_text().replace(f'id="{part}">', f'id="{part}">AAAA'))
        with pytest.raises(InputError, match="not a report of tuplet"):
            report(g.x, g, tmp_path / "r.html", like=tmp_path / "old.html")


def test_the_verb_writes_a_page_beside_names_with_spaces(tmp_path: Path) -> None:
    folder = tmp_path / "my data"
    folder.mkdir()
    g = small()
    edges = "source,target\n" + "".join(f"n{u},n{v}\n" for u, v in g.edges())
    (folder / "my edges.csv").write_text(edges)
    write_vectors(folder / "v.parquet", np.asarray(g.x), g)
    arguments = ["report", str(folder / "v.parquet"), "--graph", str(folder / "my edges.csv"), "-q", "-k", "3"]
    out = folder / "my report.html"
    done = CliRunner().invoke(app, [*arguments, "-o", str(out)], catch_exceptions=False)
    assert done.exit_code == 0 and str(out) in done.output and "64 nodes" in done.output
    assert read_page(out)[0]["shown"] == 64
    done = CliRunner().invoke(app, [*arguments, "-o", str(out), "--sample", "30", "--json"], catch_exceptions=False)
    assert json.loads(done.output)["on_map"] == 30
    assert len(read_vectors(folder / "v.parquet").z) == 64
