"""SelfDMAT with its tall arrays in files: the same vectors, within a budget, and after a kill the same bits."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.conftest import Run
from tuplet._check import InputError
from tuplet._memory import resident_bytes
from tuplet.filters import GraphFilter
from tuplet.graph import Graph
from tuplet.graph.synth import block_model
from tuplet.io.folder import save_graph
from tuplet.io.vectors import read_vectors
from tuplet.models import _steps
from tuplet.models._selfdmat_disk import Work
from tuplet.models._spectrum import GroupRows, spectrum_of
from tuplet.models.selfdmat import SelfDMAT
from tuplet.rows import blocks as row_blocks
from tuplet.rows import svd

QUICK: dict[str, Any] = {"n_clusters": 3, "max_steps": 3, "layers": (8, 4), "n_init": 2, "detail": 20}


@pytest.fixture(autouse=True)
def iterated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The few columns of these graphs would be taken whole: here they take the rounds that many columns need."""
    monkeypatch.setattr(svd, "WHOLE_UP_TO", 0)


@pytest.fixture(scope="module")
def words() -> Graph:
    return block_model([120, 60, 60], seed=1)


def dense(graph: Graph, folder: Path, dtype: str) -> Graph:
    """The same with features in a memory map."""
    x = graph.x.toarray() if sp.issparse(graph.x) else np.asarray(graph.x)
    np.save(folder / "x.npy", x.astype(dtype))
    return graph.with_(x=np.load(folder / "x.npy", mmap_mode="r"))


@pytest.mark.parametrize("kind", ["sparse", "float32", "float16", "negative"])
def test_files_give_the_vectors_of_memory(words: Graph, kind: str, tmp_path: Path) -> None:
    graph = words if kind == "sparse" else dense(words, tmp_path, kind if kind.startswith("float") else "float32")
    graph = graph.with_(x=np.asarray(graph.x) - np.float32(0.3)) if kind == "negative" else graph
    inside = SelfDMAT(**QUICK).fit(graph)
    outside = SelfDMAT(**QUICK, memory="4GB").fit(graph)
    assert isinstance(outside.embedding_, np.memmap) and not isinstance(inside.embedding_, np.memmap)
    np.testing.assert_allclose(outside.embedding_, inside.embedding_, atol=2e-3)
    assert np.array_equal(outside.labels_, inside.labels_)


def test_files_give_the_vectors_of_memory_where_no_round_is_needed(
    words: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(svd, "WHOLE_UP_TO", 256)
    inside, outside = SelfDMAT(**QUICK).fit(words), SelfDMAT(**QUICK, memory="4GB").fit(words)
    np.testing.assert_allclose(outside.embedding_, inside.embedding_, atol=2e-3)


def test_many_small_blocks_change_nothing_but_rounding(words: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SelfDMAT(**QUICK, memory="4GB", dim=16).fit(words)
    monkeypatch.setattr(row_blocks, "BLOCK_VALUES", 2**9)
    pieces = SelfDMAT(**QUICK, memory="4GB", dim=16).fit(words)
    np.testing.assert_allclose(np.abs(pieces.embedding_), np.abs(whole.embedding_), atol=2e-3)
    assert np.array_equal(pieces.labels_, whole.labels_)


class Killed(BaseException):
    """No handler expects it."""


def test_a_fit_that_stops_anywhere_resumes_to_the_same_bits(
    words: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = SelfDMAT(**QUICK).fit(words, checkpoint=tmp_path / "truth")
    real, made = _steps.Steps.rows, 0

    def stopping_at(stop: int) -> Any:
        def rows(self: Any, name: str, make: Any) -> Any:
            def stopped(path: Path) -> None:
                nonlocal made
                make(path)
                made += 1
                if made == stop:  # with the next step half-written
                    path.with_name("half.tmp").write_bytes(b"half")
                    raise Killed

            return real(self, name, stopped)

        return rows

    stop, resumed = 1, False
    while True:
        made = 0
        monkeypatch.setattr(_steps.Steps, "rows", stopping_at(stop))
        try:
            model = SelfDMAT(**QUICK).fit(words, checkpoint=tmp_path / "again", resume=resumed)
            break
        except Killed:
            resumed, stop = True, 2 + 3 * stop % 7  # after two to eight more
    assert resumed and np.array_equal(model.embedding_, truth.embedding_)
    assert np.array_equal(model.labels_, truth.labels_)


def test_cached_rows_are_found_by_other_settings(
    words: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = SelfDMAT(**QUICK, cache=tmp_path / "cache").fit(words)
    monkeypatch.setattr(GraphFilter, "transform", None)
    again = SelfDMAT(**QUICK, cache=tmp_path / "cache").fit(words)
    assert np.array_equal(first.embedding_, again.embedding_)
    assert SelfDMAT(**{**QUICK, "n_clusters": 4}, cache=tmp_path / "cache").fit(words).n_clusters_ == 4
    with pytest.raises(TypeError):
        SelfDMAT(**{**QUICK, "near": 0.3}, cache=tmp_path / "cache").fit(words)


def test_what_belongs_to_another_run_is_refused(words: Graph, tmp_path: Path) -> None:
    SelfDMAT(**QUICK).fit(words, checkpoint=tmp_path / "steps")
    with pytest.raises(InputError, match="another graph or of other settings"):
        SelfDMAT(**{**QUICK, "max_steps": 4}).fit(words, checkpoint=tmp_path / "steps", resume=True)
    with pytest.raises(InputError, match="another graph or of other settings"):
        SelfDMAT(**QUICK).fit(words.with_(x=2 * words.x), checkpoint=tmp_path / "steps", resume=True)
    SelfDMAT(**{**QUICK, "max_steps": 4}).fit(words, checkpoint=tmp_path / "steps")
    (tmp_path / "mine" / "rows").mkdir(parents=True)
    (tmp_path / "mine" / "rows" / "diary.txt").write_text("dear")
    with pytest.raises(InputError, match="something else"):
        SelfDMAT(**QUICK).fit(words, checkpoint=tmp_path / "mine")
    assert (tmp_path / "mine" / "rows" / "diary.txt").read_text() == "dear"
    with pytest.raises(InputError, match="needs checkpoint"):
        SelfDMAT(**QUICK).fit(words, resume=True)


def test_a_disk_without_room_is_refused_before_any_work(
    words: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuplet.models._cost.file_bytes", lambda *sizes: 10**18)
    monkeypatch.setattr(Work, "spectra", None)
    with pytest.raises(InputError, match="GB are free"):
        SelfDMAT(**QUICK).fit(words, checkpoint=tmp_path / "steps")


def test_progress_grows_to_the_end(words: Graph) -> None:
    seen: dict[str, list[float]] = {}
    SelfDMAT(**QUICK, memory="4GB").fit(words, progress=lambda phase, part: seen.setdefault(phase, []).append(part))
    assert list(seen) == ["features", "filter", "groups", "train", "vectors"]
    assert all(parts == sorted(parts) and parts[-1] == 1 for parts in seen.values())


def test_the_estimate_tells_what_a_budget_changes(words: Graph) -> None:
    found = SelfDMAT(3).estimate(words)
    assert found.disk >= 4 * 240 * 3 * 256 and found.memory >= 16 * 240 * 256 and found.seconds[0] < found.seconds[1]
    assert "of disk" in str(found) and found.to_dict()["memory"] == found.memory


@pytest.mark.parametrize("k", [3, 40])
def test_the_files_never_take_more_than_the_estimate_says(k: int, tmp_path: Path) -> None:
    graph, folder, seen = block_model([900, 900], n_features=500, seed=0), tmp_path / "steps", list[int]()

    def look(phase: str, part: float) -> None:
        seen.append(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))

    settings = QUICK | {"n_clusters": k, "max_steps": 1, "detail": 250}
    model = SelfDMAT(**settings).fit(graph, checkpoint=folder, progress=look)
    share = max(seen) / model.estimate(graph).disk
    assert 0.8 < share <= 1.02  # headers, and small arrays


def test_the_command_line_goes_on_where_it_was(words: Graph, run: Run, tmp_path: Path) -> None:
    save_graph(words.with_(y=None), tmp_path / "my graph")
    given = ["embed", tmp_path / "my graph", "-k", 3, "--memory", "4GB", "--dtype", "float16", "-q"]
    steps = ["--checkpoint", tmp_path / "steps"]
    assert run(*given, "-o", f"{tmp_path / 'one'}/", *steps)[0] == 0
    assert run(*given, "-o", f"{tmp_path / 'two'}/", *steps, "--resume")[0] == 0
    assert run(*given, "-o", f"{tmp_path / 'three'}/", "--cache", tmp_path / "cache")[0] == 0
    found = [read_vectors(tmp_path / name) for name in ("one", "two", "three")]
    assert found[0].z.shape[0] == 240 and found[0].cluster is not None
    assert all(np.array_equal(found[0].z, other.z) for other in found[1:])
    code, _, err = run(*given, "-o", f"{tmp_path / 'four'}/", "--memory", "1MB", "--checkpoint", tmp_path / "new")
    assert code != 0 and "too little" in err and not (tmp_path / "four").exists()


@pytest.mark.parametrize("in_order", [True, False])
def test_reading_group_rows_piece_by_piece_does_not_hold_the_map(in_order: bool, tmp_path: Path) -> None:
    n, d = 100_000, 128  # 51 MB
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).random((n, d), dtype=np.float32))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    groups = GroupRows(spectrum_of(np.eye(d, dtype=np.float32), rows, balance=True), rows, 8)
    assert groups[:1000].shape == (1000, 8)
    anywhere = np.random.default_rng(1).permutation(n)
    before, most = resident_bytes(), 0
    for start in range(0, n, 10_000):
        some = slice(start, start + 10_000)
        assert len(groups[some if in_order else anywhere[some][:500]])
        most = max(most, resident_bytes())
    assert most - before < rows.nbytes / 2


SCRIPT = Path(__file__).parent.parent / "scripts" / "embed_large.py"


@pytest.mark.slow
def test_a_large_graph_stays_within_its_budget_and_survives_a_kill(tmp_path: Path) -> None:
    """2*10^5 x 256, whose four arrays in memory would be 0.9 GB beside the libraries' 0.6."""
    import json

    def run(*options: str) -> dict[str, Any]:
        words = [sys.executable, str(SCRIPT), str(tmp_path), "--nodes", "2e5", "--features", "256", "--device", "cpu"]
        done = subprocess.run([*words, *options], capture_output=True, text=True, check=True)
        row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return row

    whole = run("--memory", "1.1GB", "--keep")
    assert whole["exit"] == 0 and whole["peak_gb"] <= 1.2
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
    killed = run("--memory", "1.1GB", "--kill", str(whole["embed_s"] / 2))
    assert killed["exit"] == 0 and killed["vectors"] == whole["vectors"]
