"""What a notebook shows of a graph, a result, a summary, a history and an estimator."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tuplet import DMATi, Graph, SelfDMAT
from tuplet._html import curve
from tuplet.evaluation.results import Result, Summary
from tuplet.models.registry import make_estimator, method_names
from tuplet.training.history import History


class Tags(HTMLParser):
    """Checks that tags are closed in order; collects the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("path", "polyline", "circle", "link", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "polyline", "circle"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def shown(thing: Any) -> str:
    tags = Tags(thing._repr_html_())
    assert not tags.open
    return tags.text


def test_a_graph_shows_its_sizes_and_keeps_names_as_text() -> None:
    x = sp.csr_array(np.eye(3))
    g = Graph.from_scipy(np.ones((3, 3)), x, [0, 1, -1], name="<i>g</i>", feature_names=["<script>", "b", "c"])
    text = shown(g)
    assert "Graph <i>g</i>" in text and "<script>, b, c" in text and "2, known of 2 nodes" in text
    assert "<i>" not in g._repr_html_() and "2.0 on average, at most 2" in text


def test_results_and_summaries_are_tables() -> None:
    result = Result("cluster", {"accuracy": 70.5}, 0, {"nodes": 1200}, 1.5, {"k_from": "classes"}, ("a < b",))
    assert "70.50" in shown(result) and "1,200 nodes, k_from classes" in shown(result) and "a < b" in shown(result)
    two = Summary((result, Result("cluster", {"accuracy": 72.5}, 1, {}, 0.5)))
    assert "71.50 ± 1.00" in " ".join(shown(two).split()) and "2 runs, 2.00 s" in shown(two)


def test_a_history_is_a_curve_through_all_its_rows() -> None:
    rows = [{"step": s, "epoch": 1.0, "loss": 4.0 / s, "seconds": 0.1} for s in (1, 2, 4)]
    html = History(rows=rows, best_step=2)._repr_html_()
    points = html.split("points='")[1].split("'")[0].split()
    across, down = zip(*(map(float, point.split(",")) for point in points))
    assert len(points) == 3 and list(across) == sorted(across) and list(down) == sorted(down)
    assert (across[1] - across[0]) / (across[2] - across[0]) == pytest.approx(1 / 3, abs=0.01)
    assert "stroke-dasharray" in html and "0 steps" in History()._repr_html_()
    shown(History(rows=rows[:1]))
    assert "nan" not in curve([1.0], [2.0], name="loss", axis="step")


@pytest.mark.parametrize("method", method_names())
def test_estimators_show_as_those_of_scikit_learn(method: str) -> None:
    html = make_estimator(method)._repr_html_()
    assert "sk-" in html and type(make_estimator(method)).__name__ in html


def test_two_of_ours_by_their_settings() -> None:
    assert "DMATi" in DMATi(seed=7)._repr_html_() and "SelfDMAT" in SelfDMAT(3)._repr_html_()
