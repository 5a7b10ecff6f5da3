"""OGB's archives, written here in the official layout: read whole, refused when cut off, split as published."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import ogb_archives as ogb
from tuplet import InputError, load_dataset, split_nodes
from tuplet.datasets import _load, datasets
from tuplet.datasets.ogb import convert_ogb
from tuplet.graph import Graph
from tuplet.io.folder import open_graph, save_graph

LAYOUTS: dict[str, Callable[[Path, dict[str, Any]], Path]] = {
    "arxiv": ogb.write_csv_layout,
    "products": functools.partial(ogb.write_csv_layout, split="sales_ranking"),
    "mag": ogb.write_mag_layout,
    "papers100M-bin": ogb.write_binary_layout,
}
NAMES = {"arxiv": "ogbn-arxiv", "products": "ogbn-products", "mag": "ogbn-mag", "papers100M-bin": "ogbn-papers100M"}


def twin(data: dict[str, Any]) -> Graph:
    """The same graph by the plain way through SciPy."""
    adj = np.zeros((data["n"], data["n"]))
    for u, v in data["edges"]:
        if u != v:
            adj[u, v] = adj[v, u] = 1
    return Graph.from_scipy(adj, data["x"], data["y"])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("zipped", [False, True])
def test_an_official_archive_gives_its_graph(layout: str, zipped: bool, tmp_path: Path) -> None:
    data = ogb.numbers()
    archive = LAYOUTS[layout](tmp_path / layout, data)
    g = convert_ogb(ogb.packed(archive) if zipped else archive, tmp_path / "out.graph", name=layout)
    expected = twin(data)
    assert g.fingerprint() == expected.fingerprint()
    np.testing.assert_array_equal(g.y, expected.y)
    split = split_nodes(g, split="official")
    for mine, theirs in zip((split.train, split.val, split.test), ("train", "valid", "test")):
        np.testing.assert_array_equal(mine, np.sort(data["split"][theirs]))
    assert {path.name for path in tmp_path.iterdir()} <= {layout, f"{layout}.zip", "out.graph"}


def test_unlabelled_papers_are_unknown(tmp_path: Path) -> None:
    data = ogb.numbers() | {"unlabelled": np.array([7, 11])}
    g = convert_ogb(ogb.write_binary_layout(tmp_path / "papers", data), tmp_path / "g")
    assert g.y is not None and np.flatnonzero(g.y < 0).tolist() == [7, 11]


def test_edges_in_small_blocks_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = ogb.numbers(m=500)
    archive = ogb.write_binary_layout(tmp_path / "papers", data)
    monkeypatch.setattr("tuplet.datasets.ogb.BLOCK", 7)
    assert convert_ogb(archive, tmp_path / "g").fingerprint() == twin(data).fingerprint()


def test_the_split_stays_with_the_graph(tmp_path: Path) -> None:
    g = convert_ogb(ogb.write_csv_layout(tmp_path / "arxiv", ogb.numbers()), tmp_path / "g")
    again = open_graph(save_graph(g, tmp_path / "copy"), check=True)
    assert again.split is not None and g.split is not None
    for one, two in zip(again.split, g.split):
        np.testing.assert_array_equal(one, two)


def test_a_graph_without_a_split_says_so() -> None:
    with pytest.raises(InputError, match="no official split"):
        split_nodes(load_dataset("cora"), split="official")
    assert len(split_nodes(load_dataset("cora")).train) == 271


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("raw/edge.csv.gz", "edge.csv.gz"),
        ("raw/num-node-list.csv.gz", "num-node-list"),
        ("split/time/valid.csv.gz", "valid.csv.gz"),
    ],
)
def test_an_archive_without_a_file_is_refused(file: str, message: str, tmp_path: Path) -> None:
    archive = ogb.write_csv_layout(tmp_path / "arxiv", ogb.numbers())
    (archive / file).unlink()
    with pytest.raises(InputError, match=message):
        convert_ogb(archive, tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_edges_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    data = ogb.numbers()
    archive = ogb.write_csv_layout(tmp_path / "arxiv", data)
    ogb._gz(archive / "raw" / "edge.csv.gz", data["edges"][:-3])
    with pytest.raises(InputError, match="117 edges, 120 were announced"):
        convert_ogb(archive, tmp_path / "g")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    archive = ogb.write_binary_layout(tmp_path / "papers", ogb.numbers())
    data = (archive / "raw" / "data.npz").read_bytes()
    (archive / "raw" / "data.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="Get the archive again"):
        convert_ogb(archive, tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_a_node_beyond_the_last_is_refused(tmp_path: Path) -> None:
    data = ogb.numbers()
    data["edges"][3, 1] = 40
    with pytest.raises(InputError, match="node 40; the graph has the nodes 0 to 39"):
        convert_ogb(ogb.write_csv_layout(tmp_path / "arxiv", data), tmp_path / "g")


# ---- by name ---------------------------------------------------------------------------------------------------


@pytest.fixture
def small_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Let the table of datasets expect a small graph, and the cache be empty."""
    monkeypatch.setenv("TUPLET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TUPLET_MIRROR", raising=False)

    def change(name: str, **changes: Any) -> None:
        sizes = {"nodes": 40, "features": 5, "classes": 4}
        table = {**datasets(), name: replace(datasets()[name], **(sizes | changes))}
        monkeypatch.setattr(_load, "datasets", lambda: table)

    return change


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_name_finds_the_archive_in_the_data_folder(
    layout: str, tmp_path: Path, small_entry: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = NAMES[layout]
    small_entry(name)
    monkeypatch.setenv("TUPLET_DATA", str(tmp_path / "data"))
    LAYOUTS[layout](tmp_path / "data" / name.replace("-", "_"), ogb.numbers())
    g = load_dataset(name)
    assert g.name == name and g.fingerprint() == twin(ogb.numbers()).fingerprint()
    assert load_dataset(name).fingerprint() == g.fingerprint()  # from the cache
    assert split_nodes(g, split="official").train.size == 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A web server over a folder: its address, and the folder."""
    folder = tmp_path / "web"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{web.server_address[1]}", folder
    web.shutdown()
    thread.join()
    web.server_close()


def test_a_download_is_checked_and_kept(
    server: tuple[str, Path], small_entry: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TUPLET_DATA", raising=False)
    url, web = server
    archive = ogb.packed(ogb.write_csv_layout(web / "arxiv", ogb.numbers()))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    small_entry("ogbn-arxiv", url=url, files={"arxiv.zip": "0" * 64})
    with pytest.raises(InputError, match="expected 0000"):
        load_dataset("ogbn-arxiv")
    assert list((tmp_path / "cache").iterdir()) == []
    small_entry("ogbn-arxiv", url=url, files={"arxiv.zip": digest})
    assert load_dataset("ogbn-arxiv").n_nodes == 40
    archive.unlink()
    assert load_dataset("ogbn-arxiv").n_nodes == 40


def test_another_graph_under_the_name_is_refused(
    tmp_path: Path, small_entry: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_entry("ogbn-arxiv", nodes=41)
    monkeypatch.setenv("TUPLET_DATA", str(tmp_path / "data"))
    ogb.write_csv_layout(tmp_path / "data" / "arxiv", ogb.numbers())
    with pytest.raises(InputError, match="40 nodes, 41 are expected"):
        load_dataset("ogbn-arxiv")
    assert not (tmp_path / "cache" / "ogbn-arxiv.graph").exists()


def test_wikics_and_heterophilous_files(
    server: tuple[str, Path], small_entry: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    url, web = server
    data = ogb.numbers()
    masks = {part: np.isin(np.arange(40), nodes) for part, nodes in data["split"].items()}
    np.savez(web / "minesweeper.npz", node_features=data["x"], node_labels=data["y"], edges=data["edges"],
             train_masks=[masks["train"]], val_masks=[masks["valid"]], test_masks=[masks["test"]])  # fmt: skip
    links: list[list[int]] = [[] for _ in range(40)]
    for u, v in data["edges"].tolist():
        links[u].append(v)
    text = {"features": data["x"].tolist(), "labels": data["y"].tolist(), "links": links,
            "train_masks": [masks["train"].tolist()], "val_masks": [masks["valid"].tolist()],
            "test_mask": masks["test"].tolist()}  # fmt: skip
    (web / "data.json").write_text(json.dumps(text))
    for name in ("minesweeper", "wikics"):
        small_entry(name, url=url)
        g = load_dataset(name)
        assert g.fingerprint() == twin(data).fingerprint()
        np.testing.assert_array_equal(split_nodes(g, split="official").val, np.sort(data["split"]["valid"]))


@pytest.mark.parametrize("name", ["flickr", "reddit"])
def test_flickr_and_reddit_are_downloaded_checked_and_read(
    name: str, server: tuple[str, Path], small_entry: Callable[..., None], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.delenv("TUPLET_DATA", raising=False)
    url, web = server
    data = ogb.numbers()
    archive = ogb.packed({"flickr": ogb.write_flickr, "reddit": ogb.write_reddit}[name](web / name, data))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    small_entry(name, url=url, files={archive.name: "0" * 64})
    with pytest.raises(InputError, match="expected 0000"):
        load_dataset(name)
    assert list((tmp_path / "cache").iterdir()) == []
    small_entry(name, url=url, files={archive.name: digest})
    g = load_dataset(name)
    assert g.fingerprint() == twin(data).fingerprint() and g.name == name
    np.testing.assert_array_equal(g.y, data["y"])
    split = split_nodes(g, split="official")
    for mine, theirs in zip((split.train, split.val, split.test), ("train", "valid", "test")):
        np.testing.assert_array_equal(mine, np.sort(data["split"][theirs]))
    assert "no licence is known" in caplog.text


def test_a_cut_off_reddit_is_refused(tmp_path: Path) -> None:
    from tuplet.datasets.reddit import convert_reddit

    folder = ogb.write_reddit(tmp_path / "reddit", ogb.numbers())
    raw = (folder / "reddit_graph.npz").read_bytes()
    (folder / "reddit_graph.npz").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(InputError, match="Get it again"):
        convert_reddit(folder, tmp_path / "g")
    (folder / "reddit_graph.npz").unlink()
    with pytest.raises(InputError, match=r"has no reddit_graph\.npz"):
        convert_reddit(folder, tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_every_dataset_tells_its_licence_and_sizes() -> None:
    for name, entry in datasets().items():
        assert entry.licence and entry.nodes > 0 and entry.edges > 0 and entry.features > 0, name
        assert entry.content or entry.cited, f"{name}: who states licence and sizes?"


def test_a_download_tells_how_far_it_is(
    server: tuple[str, Path], small_entry: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuplet.datasets import fetch_dataset

    monkeypatch.delenv("TUPLET_DATA", raising=False)
    url, web = server
    ogb.packed(ogb.write_csv_layout(web / "arxiv", ogb.numbers()))
    small_entry("ogbn-arxiv", url=url)
    told: list[tuple[str, float]] = []
    fetch_dataset("ogbn-arxiv", progress=lambda phase, done: told.append((phase, done)))
    assert ("download", 1.0) in told and told[-1][1] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_benchmarks_run_from_end_to_end_beside_the_published_numbers(
    layout: str, tmp_path: Path, small_entry: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small archive in the folder TUPLET_DATA; where the real one lies there, the same commands read it."""
    from typer.testing import CliRunner

    from tuplet.cli import app

    name, folder = NAMES[layout], Path(__file__).parent.parent / "benchmarks" / "ogb"
    data = ogb.numbers(300, 1500, 8) | ({"unlabelled": np.arange(30, 200)} if layout.endswith("bin") else {})
    small_entry(name, nodes=300, features=8)
    monkeypatch.setenv("TUPLET_DATA", str(tmp_path / "data"))
    ogb.packed(LAYOUTS[layout](tmp_path / "data" / layout, data))
    spec = folder / f"{name.removeprefix('ogbn-')}.toml"
    rows = str(tmp_path / "rows.jsonl")
    made = CliRunner().invoke(
        app, ["bench", "run", str(spec), "--seeds", "1", "--out", rows, "--device", "cpu", "-q"]
    )
    assert made.exit_code == 0, made.output
    assert "error" not in Path(rows).read_text()
    told = CliRunner().invoke(
        app, ["bench", "report", rows, "--published", str(folder / "published"), "-o", str(tmp_path / "page.md")]
    )
    assert told.exit_code == 0, told.output
    kmeans = {"ogbn-arxiv": "16.95", "ogbn-mag": "7.09", "ogbn-products": "21.23", "ogbn-papers100M": "15.16"}[name]
    assert kmeans in (tmp_path / "page.md").read_text()


@pytest.mark.slow
def test_ten_million_edges_in_the_layout_of_papers100M_stay_within_the_memory() -> None:
    """All that grows with the nodes are the labels, counted at their most; edges and features have the budget."""
    script = Path(__file__).parent.parent / "benchmarks" / "speed" / "ogb.py"
    command = [sys.executable, str(script), "--edges", "10000000", "--memory", "200MB"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    facts = json.loads(told.splitlines()[0])
    assert facts["stored"] > 1.9e7  # in both directions 320 MB, more than the budget
    assert facts["peak_MB"] <= 200 + facts["imports_MB"] + facts["labels_at_most_MB"]
