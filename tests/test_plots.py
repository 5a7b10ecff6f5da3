"""Figures: they are written whole, hold what they should, and leave matplotlib's global state alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tuplet import plots
from tuplet._check import InputError, MissingExtraError


def test_the_map_has_three_panels_coloured_by_class(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 3
    y[0] = -1
    learned = rng.normal(size=(40, 5)) + 4 * np.eye(3)[y][:, :2] @ np.ones((2, 5))
    figure = plots.map_panels(
        sp.csr_array(rng.normal(size=(40, 60))),
        learned,
        learned,
        y,
        label_names=["a", "b", "c"],
        path=tmp_path / "m.png",
    )
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "Features",
        "Filtered features",
        "Learned vectors",
    ]
    assert figure.axes[0].get_legend_handles_labels()[1] == ["unknown", "a", "b", "c"]
    drawn = sum(len(part.get_offsets()) for part in figure.axes[0].collections)
    assert drawn == 40
    assert (tmp_path / "m.png").read_bytes()[:4] == b"\x89PNG"
    assert [p.name for p in tmp_path.iterdir()] == ["m.png"]


def test_tsne_keeps_far_groups_apart_and_is_the_same_for_a_seed() -> None:
    rng = np.random.default_rng(1)
    z = np.concatenate([rng.normal(size=(25, 8)), rng.normal(size=(25, 8)) + 20])
    first, second = plots.tsne(z, seed=3), plots.tsne(z, seed=3)
    np.testing.assert_array_equal(first, second)
    centres = first[:25].mean(0), first[25:].mean(0)
    spread = max(np.linalg.norm(first[:25] - centres[0], axis=1).max(), 1)
    assert np.linalg.norm(centres[0] - centres[1]) > spread


def test_panels_of_different_nodes_are_refused() -> None:
    with pytest.raises(InputError, match=r"\[5, 5, 4\] rows"):
        plots.map_panels(np.zeros((5, 2)), np.zeros((5, 2)), np.zeros((4, 2)))


def test_time_against_nodes_marks_where_a_method_stops(tmp_path: Path) -> None:
    figure = plots.time_against_nodes(
        {"DMAT-i": [(1e4, 1.0), (1e5, 9.0)], "GCA": [(1e4, 30.0)], "ProGCL": [(1e4, 31.0)], "DGI": []},
        stops={"GCA": (1e5, "out of memory"), "ProGCL": (1e5, "time limit")},
        path=tmp_path / "t.png",
    )
    (axes,) = figure.axes
    texts = {text.get_text(): text for text in axes.texts}
    assert [*texts] == ["GCA", "ProGCL", "DMAT-i"]
    low, high = (np.log10(texts[name].xy[1]) for name in ("GCA", "ProGCL"))
    assert high - low >= 0.119  # one above the other
    marks = {line.get_marker() for line in axes.lines}
    assert {"X", "^"} <= marks
    assert axes.get_legend_handles_labels()[1] == ["out of memory at the next size", "time limit at the next size"]
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_a_line_of_accuracy_never_runs_backwards() -> None:
    figure = plots.convergence({"nmi": ([1, 10], [3, 4])}, {"x": ([46.4, 45.4, 60.0], [1, 2, 3]), "y": ([21.0], [5])})
    line = figure.axes[1].lines[0]
    assert line.get_xdata().tolist() == [45.4, 46.4, 60.0] and line.get_ydata().tolist() == [2, 1, 3]
    assert figure.axes[1].get_xscale() == "linear" and figure.axes[1].get_xlim()[0] == 0
    wide = plots.convergence({"nmi": ([1, 10], [3, 4])}, {"x": ([1.0, 300.0], [1, 2])}).axes[1]
    ticks = [wide.xaxis.get_major_formatter()(value, 0) for value in (1, 20, 500)]
    assert wide.get_xscale() == "log" and ticks == ["1", "20", "500"]


def test_many_groups_differ_by_colour_or_shape_and_are_named_rightly() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 20
    axes = plots.map_vectors(rng.normal(size=(60, 4)), y, kind="cluster").axes[0]
    looks = {(part.get_facecolor().tobytes(), len(part.get_paths()[0].vertices)) for part in axes.collections}
    assert len(looks) == 20
    assert axes.get_legend_handles_labels()[1] == [f"cluster {i}" for i in range(20)]
    crowded = plots.map_vectors(rng.normal(size=(60, 4)), np.arange(60) % 30, kind="cluster")
    assert [text.get_text() for text in crowded.axes[0].texts] == [str(i) for i in range(30)] and not crowded.legends


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_ending_chooses_the_format_and_the_bytes_repeat(tmp_path: Path, ending: str, magic: bytes) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        plots.bars(["x", "y"], {"one": [1.0, 2.0]}, y="percent", path=path)
    assert paths[0].read_bytes()[: len(magic)] == magic and paths[0].read_bytes() == paths[1].read_bytes()
    with pytest.raises(InputError, match="`tuplet report` writes pages"):
        plots.save_figure(None, tmp_path / "map.html")
    with pytest.raises(InputError, match="A picture ends in"):
        plots.save_figure(None, tmp_path / "map.jpg")


def test_histograms_are_shares() -> None:
    figure = plots.tau0_panels({"cora": ([1.0, 2.0, 4.0], [1, 3])}, medians={"cora": 2.3}, published={"cora": 2.32})
    (patch,) = figure.axes[0].patches
    np.testing.assert_allclose(patch.get_data().values, [0.25, 0.75])
    assert figure.axes[0].get_legend_handles_labels()[1] == ["median 2.3", "paper's median 2.32"]
    with pytest.raises(InputError, match="nothing to draw"):
        plots.hardness_panels({}, [0, 1])


def test_drawing_does_not_load_pyplot() -> None:
    code = """
import sys
from tuplet import plots
plots.convergence({"accuracy": ([1, 2], [3, 4])}, {"x": ([1], [2])}, chosen=2)
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_figure_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    class Broken:
        def savefig(self, path: Path, **_: object) -> None:
            path.write_bytes(b"half")
            raise OSError("disk full")

    with pytest.raises(InputError, match="disk full"):
        plots.save_figure(Broken(), tmp_path / "f.png")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="does not exist"):
        plots.save_figure(Broken(), tmp_path / "none" / "f.png")


def test_without_matplotlib_the_pip_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"tuplet\[plot\]"):
        plots.time_against_nodes({})
