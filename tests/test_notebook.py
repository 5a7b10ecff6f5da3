"""A notebook run by a real Jupyter kernel: bars under the cell, tables and curves as HTML."""

from __future__ import annotations

from typing import Any

import pytest

CELLS = (
    "import tuplet\ngraph = tuplet.synth.block_model([40, 30, 20], n_features=8, signal=3.0, seed=0)\ngraph",
    "with tuplet.progress_bars() as progress:\n"
    "    model = tuplet.SelfDMAT(3, max_steps=20, n_init=1).fit(graph, progress=progress)",
    "with tuplet.progress_bars(quiet=True) as progress:\n"
    "    quiet = tuplet.DMATi(layers=(8, 4), max_steps=2).fit(graph, progress=progress)",
    "model.history_",
    "tuplet.cluster_nodes(model.embedding_, graph)",
    "model",
)


@pytest.fixture(scope="module")
def outputs() -> list[list[dict[str, Any]]]:
    """The outputs of each cell, as a notebook shows them at the end."""
    nbclient = pytest.importorskip("nbclient", reason="no nbclient: pip install 'tuplet[dev]'")
    pytest.importorskip("ipykernel", reason="no ipykernel: pip install 'tuplet[dev]'")
    from nbformat.v4 import new_code_cell, new_notebook

    notebook = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")


def test_bars_stand_under_the_cell_and_end_full(outputs: list[list[dict[str, Any]]]) -> None:
    assert [output["output_type"] for output in outputs[1]] == ["display_data"], outputs[1]  # one, drawn anew
    shown = outputs[1][0]["data"]
    assert shown["text/html"].count("<progress") == shown["text/plain"].count("100%") >= 2
    assert "train" in shown["text/plain"] and "value='1.0000'" in shown["text/html"]


def test_a_quiet_run_shows_nothing(outputs: list[list[dict[str, Any]]]) -> None:
    assert outputs[2] == []


@pytest.mark.parametrize(("cell", "part"), [(0, "<table"), (3, "<svg"), (4, "<table"), (5, "<div")])
def test_what_a_cell_ends_with_is_shown_as_html(outputs: list[list[dict[str, Any]]], cell: int, part: str) -> None:
    assert part in outputs[cell][-1]["data"]["text/html"]
