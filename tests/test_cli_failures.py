"""What ends a command badly: Ctrl-C, a full disk, no memory, a closed pipe, and whatever nobody thought of."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Run
from tuplet.cli._failures import one_line
from tuplet.graph.synth import block_model
from tuplet.io.npz import write_npz
from tuplet.io.vectors import read_vectors

SHORT = ["--method", "DMAT-i", "--set", "layers=(32, 2)"]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "a graph.npz"
    write_npz(block_model([100, 100, 100], seed=0), path)
    return path


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "tuplet.cli", *map(str, args)]


def interrupted(args: list[str], cwd: Path) -> tuple[int, str, str]:
    """Run the command, press Ctrl-C as soon as training has begun."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731  a job in the background ignores it
    with subprocess.Popen(args, cwd=cwd, preexec_fn=heard, **pipes) as process:
        assert process.stderr is not None and process.stdout is not None
        seen = ""
        while "train:" not in seen:
            line = process.stderr.readline()
            assert line, seen
            seen += line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=900)
    return process.returncode, out, seen + err


@pytest.mark.slow
def test_ctrl_c_writes_nothing_keeps_the_checkpoint_and_says_how_to_go_on(
    run: Run,
    graph: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = graph.parent
    monkeypatch.chdir(folder)
    args = ["embed", graph, "-o", "v.parquet", *SHORT, "--set", "batch_size=16", "--set", "max_steps=3000"]
    state = ["--checkpoint", "state"]
    code, out, err = interrupted(command(*args, *state), folder)
    assert code == 130 and out == "" and "Traceback" not in err
    assert "--resume" in err and "interrupted" in err
    assert sorted(p.name for p in folder.iterdir()) == ["a graph.npz", "state"]
    assert (folder / "state" / "checkpoint.safetensors").is_file()
    assert run(*args, *state, "--resume", "-q")[0] == 0
    resumed = read_vectors("v.parquet").z
    assert run(*args, "-q")[0] == 0
    assert np.array_equal(resumed, read_vectors("v.parquet").z)


@pytest.mark.slow
def test_ctrl_c_without_a_checkpoint_leaves_the_old_vectors(graph: Path) -> None:
    (graph.parent / "v.parquet").write_bytes(b"old")
    args = command("embed", graph, "-o", "v.parquet", *SHORT, "--set", "max_steps=100000")
    code, _, err = interrupted(args, graph.parent)
    assert code == 130 and "--checkpoint DIR" in err
    assert (graph.parent / "v.parquet").read_bytes() == b"old"
    assert sorted(p.name for p in graph.parent.iterdir()) == ["a graph.npz", "v.parquet"]


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """No file can grow beyond `limit` bytes."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", ["v.parquet", "v.csv", "v.npy", "parts/"])
def test_a_full_disk_keeps_the_old_vectors(run: Run, graph: Path, name: str) -> None:
    args = ["embed", graph, "-o", f"{graph.parent}/{name}", "--method", "FilterSVD", "-q"]
    assert run(*args)[0] == 0
    before = content(graph.parent)
    with full_disk(1000):
        code, out, err = run(*args, "--seed", 1)
    assert code == 1 and out == "" and len(err.splitlines()) == 1 and "cannot be written" in err
    assert content(graph.parent) == before


def test_a_full_disk_keeps_the_old_model_and_the_old_checkpoint(run: Run, graph: Path) -> None:
    folder = graph.parent
    args = ["embed", graph, "-o", folder / "v.parquet", *SHORT, "--set", "max_steps=2", "--set", "layers=(512, 2)"]
    model, state = ["--save-model", folder / "model", "-q"], ["--checkpoint", folder / "state", "-q"]
    assert run(*args, *model)[0] == 0 and run(*args, *state)[0] == 0
    before = content(folder)
    small = (folder / "v.parquet").stat().st_size
    assert (folder / "model" / "weights.safetensors").stat().st_size > 2 * small
    for target, what in ((["--seed", 1, *model], "model"), (["--resume", "--set", "max_steps=4", *state], "state")):
        with full_disk(2 * small):
            code, out, err = run(*args, *target)
        assert code == 1 and out == "" and len(err.splitlines()) == 1 and what in err, err
    after = content(folder)
    assert {p: b for p, b in after.items() if p.name != "v.parquet"} == {
        p: b for p, b in before.items() if p.name != "v.parquet"
    }


@pytest.mark.parametrize("method", ["DMAT-i", "SelfDMAT"])
def test_the_state_of_an_earlier_run_is_not_lost_without_a_word(run: Run, graph: Path, method: str) -> None:
    folder = graph.parent
    args = ["embed", graph, "-o", folder / "v.parquet", "--method", method, "--set", "max_steps=2", "--device", "cpu"]
    args += ["-k", 3] if method == "SelfDMAT" else []
    state = ["--checkpoint", folder / "state", "-q"]
    assert run(*args, *state)[0] == 0
    before = content(folder)
    code, _, err = run(*args, *state, "--seed", 1)
    assert code == 1 and "holds the state of an earlier run" in err and "--resume" in err and err.count("\n") == 1
    assert content(folder) == before
    assert run(*args, *state, "--resume")[0] == 0


def test_a_full_disk_keeps_the_old_rows_of_a_filter(run: Run, graph: Path) -> None:
    folder = graph.parent
    args = ["embed", graph, "-o", folder / "v.npy", *SHORT, "--set", "max_steps=2", "--set", "layers=(4, 2)", "-q"]
    args += ["--cache", folder / "rows"]
    assert run(*args)[0] == 0
    before = content(folder / "rows")
    with full_disk(1000):
        code, out, err = run(*args, "--set", "alpha=0.3")
    assert code == 1 and out == "" and len(err.splitlines()) == 1 and "cannot be written" in err, err
    after = content(folder / "rows")  # besides, what a next run goes on from
    assert {path: after[path] for path in before} == before


@pytest.mark.parametrize("error", [MemoryError(), ImportError("x.so: failed to map segment from shared object")])
def test_no_memory_is_said_also_where_the_error_does_not(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def greedy(*args: object) -> None:
        raise error

    monkeypatch.setattr("tuplet.cli.data.describe", greedy)
    code, out, err = run("info", "cora")
    assert code == 1 and out == "" and len(err.splitlines()) == 1
    assert err.startswith("error: Not enough memory (") and (" GB of address space" in err or "x.so" in err)


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [512, 128])
def test_too_little_memory_says_what_was_asked_for(graph: Path, megabytes: int) -> None:
    code = "import resource; import torch, sklearn, pyarrow, numba, numpy\n"
    code += "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
    code += f"resource.setrlimit(resource.RLIMIT_AS, (used + {megabytes * 2**20},) * 2)\n"
    code += "import sys; from tuplet.cli import main; main()"
    args = ["embed", graph, "-o", "v.npy", "--method", "DMAT-i", "--set", "layers=(1000000000, 2)", "-q"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], cwd=graph.parent, capture_output=True, text=True
    )
    assert done.returncode == 1 and "Not enough memory" in done.stderr and "alloc" in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (graph.parent / "v.npy").exists()


@pytest.mark.parametrize(
    ("out", "hint"),
    [
        ("v.xlsx", ".xlsx"),
        ("v", "no ending"),
        ("no/such/v.parquet", "does not exist"),
        ("taken/", "something else than vectors"),
        ("v.csv --dtype float16", "float16"),
        ("v.npy --dtype float8", "float8"),
        ("v.npy --save-model taken", "not a model folder"),
        ("v.npy --save-model no/such/m", "does not exist"),
        ("v.npy --checkpoint no/such/c", "does not exist"),
        ("v.npy --cache no/such/c", "does not exist"),
        ("v.npy --checkpoint empty --resume", "no checkpoint"),
        ("v.npy --memory 1e400GB", "1e400GB"),
        ("v.npy --memory lots", "lots"),
    ],
)
def test_targets_are_checked_before_the_graph_is_read(
    run: Run,
    tmp_path: Path,
    out: str,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").mkdir()
    Path("taken", "letter.txt").write_text("dear")
    Path("empty").mkdir()
    code, text, err = run("embed", "no-such-graph.csv", "--method", "DMAT-i", "-o", *out.split())
    assert code == 1 and text == "" and hint in err and len(err.splitlines()) == 1, err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "taken"]


def test_the_unexpected_is_one_line_and_a_hint(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("tuplet.cli.data.describe", broken)
    code, out, err = run("info", "cora")
    assert code == 1 and out == "" and len(err.splitlines()) == 1
    assert "RuntimeError: two lines" in err and "TUPLET_DEBUG=1" in err
    monkeypatch.setenv("TUPLET_DEBUG", "1")
    with pytest.raises(RuntimeError):
        run("info", "cora")


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(graph: Path) -> None:
    line = f"{sys.executable} -m tuplet.cli embed '{graph}' -o - --method FilterSVD -q | head -n 1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.stdout.startswith('"id"') and done.stderr == ""


@pytest.mark.slow
def test_demo_prints_its_table_without_matplotlib(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ["matplotlib", *(name for name in sys.modules if name.startswith("matplotlib."))]:
        monkeypatch.setitem(sys.modules, name, None)
    code, text, err = run("demo", "--seeds", 1, "-q", "-o", tmp_path / "d")
    assert code == 0 and "SelfDMAT vectors" in text and "No map" in text and "±" in text, err
    assert sorted(p.name for p in (tmp_path / "d").iterdir()) == ["model", "vectors.parquet"]


def test_embed_writes_the_report_and_says_beforehand_what_it_cannot(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("openTSNE")
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\n" + "".join(f"{i},{(i * 7 + 1) % 40}\n" for i in range(40)))
    words = ["embed", str(edges), "-k", "2", "-q", "-o", str(tmp_path / "v.parquet"), "--set", "max_steps=2"]
    assert run(*words, "--report", str(tmp_path / "r.html"))[0] == 0
    assert "<html" in (tmp_path / "r.html").read_text()[:500]
    code, _, err = run(*words, "--report", str(tmp_path / "r.png"))
    assert code == 1 and ".html" in err


def test_a_worker_that_has_lost_another_says_so_in_one_line() -> None:
    """What gloo says, as seen when a machine lost power."""
    text = (
        "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.77.0.2]:42720: "
        "Connection reset by peer. This is typically caused by a remote worker hanging or bugs in the application."
    )
    told = one_line(RuntimeError(text))
    assert told.startswith("Another worker is gone (Read error [10.77.0.2]:42720: Connection reset by peer). ")
