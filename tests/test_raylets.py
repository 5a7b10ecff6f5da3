"""Two real raylets: the bits of one process, whatever is killed. Skips without Ray.

A connection starts processes on each raylet, which costs seconds: most tests share one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.light_tasks import once_killed, refused
from tests.test_engines import directed_graph, store
from tuplet import DMATi, GraphFilter, SelfDMAT
from tuplet._check import InputError
from tuplet.engines import Engine, connected
from tuplet.filters.weights import ppr
from tuplet.graph.synth import block_model
from tuplet.io.cluster_parts import cluster_parts
from tuplet.io.folder import open_graph
from tuplet.io.vectors import read_vectors, write_vectors
from tuplet.pages import report
from tuplet.rows import starts

__all__ = ["store"]  # a fixture
SPEC = GraphFilter(ppr(0.1), device="cpu")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two raylets of one CPU each; `engine="ray"` finds them by RAY_ADDRESS."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'tuplet[cluster]'")
    os.environ |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    from ray.cluster_utils import Cluster

    raylets = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    raylets.add_node(num_cpus=1)
    os.environ["RAY_ADDRESS"] = raylets.address
    yield raylets
    del os.environ["RAY_ADDRESS"]
    raylets.shutdown()


@pytest.fixture(scope="class")
def engine(cluster: Any) -> Iterator[Engine]:
    """A connection for the tests of a class."""
    with connected("ray") as engine:
        yield engine


class TestOneConnection:
    """Tests that leave the cluster and the connection as they were."""

    def test_raylets_give_the_bits_of_one_process(self, engine: Engine, store: Path, tmp_path: Path) -> None:
        assert engine.places == 2
        graph, told = open_graph(store), []
        rows = SPEC.transform(
            graph, out=tmp_path / "rows.npy", engine="ray", progress=lambda _, part: told.append(part)
        )
        assert np.array_equal(rows, SPEC.transform(graph))
        assert np.array_equal(SPEC.transform(graph, engine="ray"), rows)
        directed = directed_graph(graph.x)
        assert np.array_equal(SPEC.transform(directed, engine="ray"), SPEC.transform(directed))
        assert told == sorted(told) and told[-1] == 1
        assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]

    @pytest.mark.parametrize(
        "model", [DMATi((16, 8), max_steps=4, device="cpu"), SelfDMAT(3, max_steps=4, device="cpu")]
    )
    def test_methods_give_the_bits_of_one_process(self, engine: Engine, model: Any) -> None:
        graph = block_model([60, 40, 30], seed=0)
        want = model.fit_transform(graph)
        again = type(model)(**{**model.get_params(deep=False), "engine": "ray"})
        assert np.array_equal(again.fit_transform(graph), want)

    def test_labels_of_parts_are_those_of_the_local_engine(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Samples are small here, so that Lloyd's steps go over the parts."""
        monkeypatch.setattr(starts, "_SAMPLE", 400)
        monkeypatch.setattr(starts, "_SAMPLE_EACH", 60)
        monkeypatch.setattr("tuplet.io._vector_parts.PART_BYTES", 280 * 12 * 4)
        rng = np.random.default_rng(0)
        z = rng.standard_normal((900, 12)) + 2.0 * rng.standard_normal((5, 12))[rng.integers(0, 5, 900)]
        write_vectors(f"{tmp_path}/parts/", z.astype(np.float32))
        assert len(list((tmp_path / "parts").iterdir())) == 4
        for name in ("local", "ray"):
            cluster_parts(tmp_path / "parts", 5, tmp_path / name, engine=name)
        found = [read_vectors(tmp_path / name).cluster for name in ("local", "ray")]
        assert np.array_equal(*found) and found[0].max() == 4

    def test_the_page_of_a_report_is_that_of_one_process(self, engine: Engine, store: Path, tmp_path: Path) -> None:
        graph, z = open_graph(store), np.random.default_rng(3).standard_normal((1000, 16)).astype(np.float32)
        pages = [
            report(z, graph, tmp_path / f"{name}.html", clusters=4, engine=name).read_bytes()
            for name in ("local", "ray")
        ]
        assert pages[0] == pages[1]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["local.html", "ray.html"]

    def test_a_task_whose_worker_was_killed_runs_again(self, engine: Engine, tmp_path: Path) -> None:
        assert engine.map(once_killed, [str(tmp_path)]) == ["done"]

    def test_errors_of_a_task_name_the_node(self, engine: Engine) -> None:
        with pytest.raises(InputError, match=r"On node .*: no such thing"):
            engine.map(refused, ["no such thing"])

    def test_a_node_that_does_not_see_a_file_is_named(self, engine: Engine, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"Node .* does not see .*nowhere"):
            engine.check_sees([tmp_path, tmp_path / "nowhere"])

    def test_a_killed_driver_is_started_again(self, engine: Engine, store: Path, tmp_path: Path) -> None:
        """The first driver is a process of its own, with its own connection."""
        code = (
            "import sys, os, signal\nfrom tuplet import GraphFilter\nfrom tuplet.filters.weights import ppr\n"
            "from tuplet.io.folder import open_graph\n"
            "def die(_, part):\n    if part > 0.3: os.kill(os.getpid(), signal.SIGKILL)\n"
            f"GraphFilter(ppr(0.1), device='cpu').transform(open_graph({str(store)!r}), "
            f"out={str(tmp_path / 'rows.npy')!r}, engine='ray', progress=die)\n"
        )
        assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == -signal.SIGKILL
        parts = tmp_path / "rows.npy.parts"
        done = {path.name: path.stat().st_mtime_ns for path in parts.glob("done-*.npy")}
        assert done
        kept: dict[str, int] = {}

        def look(_: str, part: float) -> None:
            if parts.is_dir():
                kept.update({path.name: path.stat().st_mtime_ns for path in parts.glob("done-*.npy")})

        rows = SPEC.transform(open_graph(store), out=tmp_path / "rows.npy", engine="ray", progress=look)
        assert np.array_equal(rows, SPEC.transform(open_graph(store)))
        assert done.items() <= kept.items()


def test_a_killed_raylet_costs_its_tasks_and_no_bit(cluster: Any, store: Path, tmp_path: Path) -> None:
    graph, node = open_graph(store), cluster.add_node(num_cpus=1)
    try:
        with connected("ray") as engine:
            assert engine.places == 3
            cluster.remove_node(node, allow_graceful=False)
            rows = SPEC.transform(graph, out=tmp_path / "rows.npy", engine="ray")
        assert np.array_equal(rows, SPEC.transform(graph))
    finally:
        if node in cluster.list_all_nodes():
            cluster.remove_node(node)


def test_a_node_with_another_version_is_refused(cluster: Any, tmp_path: Path) -> None:
    package = tmp_path / "tuplet"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '0.0.9'\n")
    node = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
    try:
        with pytest.raises(InputError, match=r"has tuplet 0\.0\.9, this driver tuplet"), connected("ray"):
            pass
    finally:
        cluster.remove_node(node)
