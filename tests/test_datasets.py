"""Datasets by name: the shipped Cora, the order of places, and downloads against a local server."""

from __future__ import annotations

import collections
import functools
import hashlib
import http.server
import io
import pickle
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tuplet.datasets._load as module
from tuplet import InputError, load_dataset
from tuplet.datasets import Dataset, content_of, dataset_path, datasets, fetch_dataset
from tuplet.datasets._sources import git_blob
from tuplet.datasets._unpickle import safe_unpickle
from tuplet.io.npz import read_npz


def test_shipped_cora_has_paper_ids_and_class_names() -> None:
    g = load_dataset("cora")
    assert (g.n_nodes, g.n_edges, g.n_features, g.n_classes) == (2708, 5278, 1433, 7)
    assert g.ids is not None and 31336 in g.ids and len(set(g.ids.tolist())) == 2708
    assert g.label_names[3] == "Neural_Networks"
    assert np.bincount(g.y)[3] == 818


def test_shipped_cora_is_small_and_is_the_file_that_the_table_names() -> None:
    path = dataset_path("cora")
    assert path is not None and path.stat().st_size <= 120_000
    assert hashlib.sha256(path.read_bytes()).hexdigest() == datasets()["cora"].sha256


def test_shipped_cora_is_planetoids_cora_in_another_order(data_dir: Path) -> None:
    ours, theirs = load_dataset("cora"), read_npz(data_dir / "cora.npz")
    assert ours.n_edges == theirs.n_edges == 5278
    assert sorted(ours.degrees) == sorted(theirs.degrees)
    assert np.array_equal(np.bincount(ours.y), np.bincount(theirs.y))

    def rows(g: Any) -> list[tuple[int, ...]]:
        return [(*g.x.indices[g.x.indptr[i] : g.x.indptr[i + 1]], g.y[i]) for i in range(g.n_nodes)]

    assert sorted(rows(ours)) == sorted(rows(theirs))


def test_every_dataset_has_the_content_that_the_table_names(data_dir: Path) -> None:
    for name, entry in datasets().items():
        if not entry.content:  # never downloaded: tests/test_ogb.py reads archives of their layout
            continue
        g = load_dataset(name)
        assert (g.n_nodes, g.n_edges, g.n_features, g.n_classes) == (
            entry.nodes,
            entry.edges,
            entry.features,
            entry.classes,
        )
        assert content_of(g) == entry.content
        assert g.name == name


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'pubmed'"):
        load_dataset("pub-med")
    assert len([name for name, entry in datasets().items() if entry.content]) == 8


# ---- downloads -------------------------------------------------------------------------------------------------


def _planetoid_files(name: str, *, missing: bool) -> dict[str, bytes]:
    """A path graph of 7 nodes (two tests; with `missing`, node 5 has neither features nor a label)."""
    places = [6, 4] if missing else [5, 4]
    n = 7 if missing else 6
    eye = sp.csr_matrix(np.eye(n, 3, dtype=np.float32))
    links = collections.defaultdict(list, {i: [j for j in (i - 1, i + 1) if 0 <= j < n] for i in range(n)})
    links[0] += [0, 0, 1]  # a self loop listed twice, and a repeated edge
    one_hot = np.eye(3, dtype=np.int32)
    parts = {"x": eye[:2], "y": one_hot[[0, 1]], "allx": eye[:4], "ally": one_hot[[0, 1, 2, 1]], "graph": links}
    parts |= {"tx": sp.csr_matrix(np.array([[7, 0, 0], [0, 8, 0]], np.float32)), "ty": one_hot[[2, 1]]}
    files = {f"ind.{name}.{part}": pickle.dumps(value, protocol=2) for part, value in parts.items()}
    files[f"ind.{name}.test.index"] = "\n".join(map(str, places)).encode()
    return files


def _expected_planetoid(missing: bool) -> tuple[np.ndarray[Any, Any], list[int]]:
    n = 7 if missing else 6
    x = np.zeros((n, 3))
    x[:3] = np.eye(3)
    x[6 if missing else 5, 0], x[4, 1] = 7, 8
    y = [0, 1, 2, 1, 1, 0, 2] if missing else [0, 1, 2, 1, 1, 2]
    return x, y


def _gnn_benchmark_file() -> bytes:
    adj = sp.csr_matrix(np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], np.float32))
    attr = sp.csr_matrix(np.arange(8, dtype=np.float32).reshape(4, 2))
    buffer = io.BytesIO()
    parts = {
        f"{k}_{p}": getattr(m, p) for k, m in (("adj", adj), ("attr", attr)) for p in ("data", "indices", "indptr")
    }
    names = np.array(["a", "b"], dtype=object)
    np.savez(
        buffer, **parts, adj_shape=adj.shape, attr_shape=attr.shape, labels=np.array([0, 1, 1, 0]), class_names=names
    )
    return buffer.getvalue()


def _graphdata_file() -> bytes:
    adj = sp.csr_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.float32))
    buffer = io.BytesIO()
    attr, label = sp.csr_matrix(np.eye(3, 2, dtype=np.float32)), np.array([0, 1, 1])
    np.savez(buffer, adj_matrix=np.array(adj, dtype=object), node_attr=np.array(attr, dtype=object), node_label=label)
    return buffer.getvalue()


def _npy_zip_file(name: str) -> bytes:
    buffer = io.BytesIO()
    adj, x, y = np.array([[0, 1], [1, 0]]), np.array([[1, 0], [0, 2]]), np.array([1, 0])
    with zipfile.ZipFile(buffer, "w") as archive:
        for part, array in (("adj", adj), ("feat", x), ("label", y)):
            member = io.BytesIO()
            np.save(member, array)
            archive.writestr(f"{name}/{name}_{part}.npy", member.getvalue())
    return buffer.getvalue()


class _Server(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if "broken" in self.path:
            self.send_error(503, "busy")
        elif "short" in self.path:
            data = (path.parent.parent / "good" / path.name).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        else:
            super().do_GET()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """A local web server over an empty folder; the cache and TUPLET_DATA point to empty folders as well."""
    folder = tmp_path / "www"
    folder.mkdir()
    monkeypatch.setenv("TUPLET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TUPLET_DATA", raising=False)
    monkeypatch.delenv("TUPLET_MIRROR", raising=False)
    for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Server, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()
    thread.join()


def _publish(
    monkeypatch: pytest.MonkeyPatch, folder: Path, layout: str, files: dict[str, bytes], sums: dict[str, str]
) -> None:
    """Put `files` into the web folder and a dataset `tiny` into the table."""
    (folder / "good").mkdir(exist_ok=True)
    for file, data in files.items():
        (folder / "good" / file).write_bytes(data)
    entry = Dataset("tiny", "", "its source", "MIT", "", 0, 0, 0, 0, content="?", format=layout, files=sums)
    monkeypatch.setattr(module, "datasets", lambda: {"tiny": entry})


def _sums(files: dict[str, bytes]) -> dict[str, str]:
    return {file: hashlib.sha256(data).hexdigest() for file, data in files.items()}


def _accept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the table expect whatever content comes."""
    monkeypatch.setattr(module, "content_of", lambda graph: "?")


@pytest.mark.parametrize("missing", [False, True])
def test_planetoid_download_puts_test_rows_in_place(
    site: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    url, folder = site
    files = _planetoid_files("tiny", missing=missing)
    _publish(monkeypatch, folder, "planetoid", files, _sums(files))
    _accept(monkeypatch)
    g = read_npz(fetch_dataset("tiny", url=f"{url}/good"))
    x, y = _expected_planetoid(missing)
    assert np.array_equal(g.x.toarray(), x)
    assert g.y.tolist() == y
    assert g.edges().tolist() == [[i, i + 1] for i in range(g.n_nodes - 1)]
    (folder / "good" / "ind.tiny.graph").unlink()
    assert load_dataset("tiny").n_nodes == g.n_nodes  # from the cache, the source is gone


def test_gnn_benchmark_download_drops_directions_and_loops(
    site: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = site
    data = _gnn_benchmark_file()
    _publish(monkeypatch, folder, "gnn-benchmark", {"a.npz": data}, {"a.npz": "git:" + git_blob(data)[:12]})
    _accept(monkeypatch)
    monkeypatch.setenv("TUPLET_MIRROR", url)
    (folder / "good").rename(folder / "tiny")  # a mirror has one folder a dataset
    g = load_dataset("tiny")
    assert g.edges().tolist() == [[0, 1], [1, 2]]
    assert g.x.toarray().tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert g.weights is None and g.y.tolist() == [0, 1, 1, 0]


def test_graphdata_and_zip_downloads_are_read_without_pickle(
    site: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = site
    _publish(monkeypatch, folder, "graphdata", {"a.npz": _graphdata_file()}, {"a.npz": "unknown"})
    _accept(monkeypatch)
    g = read_npz(fetch_dataset("tiny", url=f"{url}/good"))
    assert g.edges().tolist() == [[0, 1], [1, 2]] and g.x.toarray().tolist() == [[1, 0], [0, 1], [0, 0]]
    _publish(monkeypatch, folder, "npy-zip", {"a.zip": _npy_zip_file("tiny")}, {"a.zip": "unknown"})
    g = read_npz(fetch_dataset("tiny", url=f"{url}/good", force=True))
    assert g.edges().tolist() == [[0, 1]] and g.x.toarray().tolist() == [[1, 0], [0, 2]] and g.y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("place", "checksum", "message"),
    [
        ("good", "0" * 64, "has sha256 .*expected 0000"),
        ("good", "git:000000", "has git blob .*expected 000000"),
        ("short", "unknown", "could not be downloaded"),
        ("broken", "unknown", "could not be downloaded .*503"),
        ("absent", "unknown", "could not be downloaded .*404"),
    ],
)
def test_failed_download_says_why_and_leaves_no_cache(
    site: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, place: str, checksum: str, message: str
) -> None:
    url, folder = site
    _publish(monkeypatch, folder, "gnn-benchmark", {"a.npz": _gnn_benchmark_file()}, {"a.npz": checksum})
    _accept(monkeypatch)
    with pytest.raises(InputError, match=message):
        fetch_dataset("tiny", url=f"{url}/{place}")
    assert not (module.cache_dir() / "tiny.npz").exists()


def test_truncated_files_without_a_known_length_are_refused(
    site: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = site
    data = _gnn_benchmark_file()
    _publish(monkeypatch, folder, "gnn-benchmark", {"a.npz": data[: len(data) // 2]}, {"a.npz": "unknown"})
    with pytest.raises(InputError, match=r"not a readable \.npz"):
        fetch_dataset("tiny", url=f"{url}/good")
    files = _planetoid_files("tiny", missing=False)
    files["ind.tiny.allx"] = files["ind.tiny.allx"][:-40]
    _publish(monkeypatch, folder, "planetoid", files, dict.fromkeys(files, "unknown"))
    with pytest.raises(InputError, match=r"ind\.tiny\.allx is not a readable pickle"):
        fetch_dataset("tiny", url=f"{url}/good")
    assert not list(module.cache_dir().glob("*"))


def test_another_graph_under_the_same_name_is_refused(
    site: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = site
    _publish(monkeypatch, folder, "gnn-benchmark", {"a.npz": _gnn_benchmark_file()}, {"a.npz": "unknown"})
    with pytest.raises(InputError, match=r"give another graph .* than expected \(\?\)"):
        fetch_dataset("tiny", url=f"{url}/good")
    assert not (module.cache_dir() / "tiny.npz").exists()


def test_damaged_cache_is_fetched_again(site: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    url, folder = site
    _publish(monkeypatch, folder, "gnn-benchmark", {"a.npz": _gnn_benchmark_file()}, {"a.npz": "unknown"})
    _accept(monkeypatch)
    path = fetch_dataset("tiny", url=f"{url}/good")
    path.write_bytes(path.read_bytes()[:100])
    assert read_npz(fetch_dataset("tiny", url=f"{url}/good")).n_nodes == 4


class _Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return eval, ("1/0",)


def test_pickles_never_call_what_they_name() -> None:
    for protocol in range(6):
        with pytest.raises(InputError, match=r"asks for \S+\.eval"):
            safe_unpickle(pickle.dumps({"graph": _Evil()}, protocol=protocol), "a file")


def test_arrays_come_out_of_pickles_of_every_protocol() -> None:
    matrix = sp.csr_matrix(np.array([[0, 1.5], [2, 0]]))
    for protocol in range(6):
        value = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "f": np.asfortranarray(np.eye(2)), "m": matrix}
        back = safe_unpickle(pickle.dumps(value, protocol=protocol), "a file")
        assert np.array_equal(back["a"], value["a"]) and np.array_equal(back["f"], value["f"])
        assert np.array_equal(back["m"].toarray(), matrix.toarray())
