"""Values in the writings of other countries and programs: read rightly, refused, or told; never read as others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import Run
from tuplet import InputError, read_graph
from tuplet.io.convert import convert
from tuplet.io.new_nodes import read_new_nodes

N = 40
EDGES = [(i, (i + 1) % N) for i in range(N)]
SIZES = [1000.5 + 37.25 * i for i in range(N)]


def with_comma(value: float, mark: str = ".") -> str:
    return f"{value:,.2f}".replace(",", "!").replace(".", ",").replace("!", mark)


def note_of(graph: Any, name: str) -> tuple[str, str]:
    return next((line.role, line.note) for line in graph.preparation.lines() if line.name == name)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(EDGES, columns=["source", "target"]).to_csv("edges.csv", index=False)
    return tmp_path


def nodes(file: str = "n.csv", **columns: Any) -> pd.DataFrame:
    table = pd.DataFrame({"id": range(N), "other": [i * 7 % 13 for i in range(N)], **columns})
    table.to_csv(file, index=False, sep=";")
    return table


@pytest.mark.parametrize("mark", [".", " ", "'", "\u00a0", "\u202f", ""])
def test_a_decimal_comma_is_read_where_it_is_named(here: Path, mark: str) -> None:
    nodes(size=[with_comma(value, mark) for value in SIZES], other=[f"{i},5" for i in range(N)])
    nodes("plain.csv", size=SIZES, other=[f"{i}.5" for i in range(N)])
    with pytest.raises(InputError, match=r"not read.*decimal=','"):
        read_graph("edges.csv", "n.csv")
    found, plain = read_graph("edges.csv", "n.csv", decimal=","), read_graph("edges.csv", "plain.csv")
    np.testing.assert_array_equal(found.x, plain.x)
    stored = convert("edges.csv", here / "store", features="n.csv", decimal=",")
    np.testing.assert_array_equal(stored.x, plain.x)


def test_a_decimal_point_named_takes_commas_between_thousands(here: Path) -> None:
    nodes(size=[f"{value:,.2f}" for value in SIZES])
    nodes("plain.csv", size=SIZES)
    found = read_graph("edges.csv", "n.csv", decimal=".")
    np.testing.assert_array_equal(found.x, read_graph("edges.csv", "plain.csv").x)


@pytest.mark.parametrize("cell", ["1.5", "0.125", "12.3456", "1,234,5"])
def test_what_a_decimal_comma_does_not_explain_is_refused(here: Path, cell: str) -> None:
    nodes(other="7", size=[f"{i},5" for i in range(N - 1)] + [cell])
    with pytest.raises(InputError, match=rf"Line 41 of n.csv, column 'size', holds '{cell}'.*not read"):
        read_graph("edges.csv", "n.csv", decimal=",")


def test_dots_that_may_mark_thousands_are_told(here: Path) -> None:
    nodes(
        size=[f"{1 + i}.{i:03d}" if i % 3 else str(100 + i) for i in range(N)],
        share=[f"0.{100 + 7 * i}" for i in range(N)],
        real=[f"{1 + i}.{i * 7 % 40}5" for i in range(N)],
    )
    graph = read_graph("edges.csv", "n.csv")
    assert note_of(graph, "size")[1].endswith("'2.001' is read as 2.001: if that is 2001, say decimal=','")
    assert "read as" not in note_of(graph, "share")[1] + note_of(graph, "real")[1] + note_of(graph, "other")[1]
    assert "read as" not in note_of(read_graph("edges.csv", "n.csv", decimal=".", columns=["size"]), "size")[1]
    stored = convert("edges.csv", here / "store", features="n.csv")
    assert note_of(stored, "size") == note_of(graph, "size")


def test_weights_and_separators_with_a_decimal_comma(here: Path) -> None:
    Path("w.csv").write_text("".join(f"{a};{b};0,{a + 1}\n" for a, b in EDGES))
    with pytest.raises(InputError, match=r"'0,1', not a number.*decimal=','"):
        read_graph("w.csv")
    graph = read_graph("w.csv", decimal=",")
    assert graph.n_nodes == N and graph.weights is not None
    assert graph.weights.min() == pytest.approx(0.1) and graph.weights.max() == pytest.approx(0.9)
    Path("thousands.csv").write_text("".join(f"{a};{b};1.50{a % 10}\n" for a, b in EDGES))
    assert read_graph("thousands.csv", decimal=",").weights.max() == 1509


def test_ids_and_labels_are_not_rewritten(here: Path) -> None:
    table = nodes(size=[f"{i},5" for i in range(N)], label=["1,5", "2.000"] * (N // 2))
    table.assign(id=[f"1.{i:03d}" for i in range(N)]).to_csv("n.csv", index=False, sep=";")
    Path("e.csv").write_text("source;target\n" + "".join(f"1.{a:03d};1.{b:03d}\n" for a, b in EDGES))
    graph = read_graph("e.csv", "n.csv", decimal=",")
    assert list(graph.node_ids[:2]) == ["1.000", "1.001"] and graph.label_names == ("1,5", "2.000")


def test_the_flag_the_file_and_new_nodes_know_the_decimal_mark(here: Path, run: Run) -> None:
    nodes(size=[with_comma(value) for value in SIZES])
    code, _, err = run("info", "edges.csv", "-f", "n.csv")
    assert code == 1 and "--decimal ," in err
    assert run("info", "edges.csv", "-f", "n.csv", "--decimal", ",")[0] == 0
    Path("g.toml").write_text('edges = "edges.csv"\nfeatures = "n.csv"\ndecimal = ","\n')
    assert run("info", "g.toml")[0] == 0
    Path("new.csv").write_text("id;other;size\n100;3;1.037,75\n")
    graph = read_graph("edges.csv", "n.csv", decimal=",")
    new = read_new_nodes(graph, [(100, 0)], "new.csv", decimal=",")
    np.testing.assert_allclose(new.x[0, 1], graph.x[1, 1])
    settings = ["--method", "FilterSVD", "--dim", "2", "-k", "2", "-q", "-o", "v.npy"]
    code, _, err = run("embed", "g.toml", *settings, "--save-model", "model")
    assert code == 0, err
    Path("new-edges.csv").write_text("source,target\n100,0\n")
    code, _, err = run("embed", "g.toml", "--model", "model", "--new", "new-edges.csv", "new.csv", "-o", "n.npy")
    assert code == 0, err


def test_a_decimal_mark_is_a_point_or_a_comma(here: Path) -> None:
    nodes()
    with pytest.raises(InputError, match="decimal"):
        read_graph("edges.csv", "n.csv", decimal=";")
    with pytest.raises(InputError, match="no text file"):
        read_graph(pd.DataFrame(EDGES, columns=["source", "target"]), decimal=",")


@pytest.mark.parametrize("form", ["{},5", "1 {:03d}", "{} %"])
def test_texts_of_a_frame_that_are_numbers_in_another_writing_are_refused(form: str) -> None:
    table = pd.DataFrame({"id": range(N), "size": [form.format(i) for i in range(N)]})
    with pytest.raises(InputError, match=r"Column 'size' holds '.*a number in a form that is not read"):
        read_graph(EDGES, table)


def test_levels_that_differ_in_case_only_are_told() -> None:
    table = pd.DataFrame({"id": range(N), "ok": ["yes", "Yes", "no", " no"] * (N // 4), "size": range(N)})
    graph = read_graph(EDGES, table, columns=["ok", "size"])
    role, note = note_of(graph, "ok")
    assert role == "category" and graph.feature_names[:3] == ("ok=Yes", "ok=no", "ok=yes")
    assert note == "'Yes' and 'yes' differ in case only"
    more = table.assign(ok=["yes", "Yes", "YES", "no", "No"] * (N // 5))
    note = note_of(read_graph(EDGES, more, columns=["ok"]), "ok")[1]
    assert note == "'No' and 'no', and 3 other levels, differ in case only"


@pytest.mark.parametrize(("unit", "name"), [(1, "seconds"), (1000, "milliseconds"), (10**6, "microseconds")])
def test_seconds_since_1970_in_a_column_named_as_a_date_are_dates(unit: int, name: str) -> None:
    days = pd.date_range("2019-03-01", periods=N, freq="17D")
    seconds = [int(day.timestamp()) * unit for day in days]
    graph = read_graph(EDGES, pd.DataFrame({"id": range(N), "created_at": seconds}))
    plain = read_graph(EDGES, pd.DataFrame({"id": range(N), "created_at": days}))
    assert note_of(graph, "created_at") == ("date", f"trend and season; {name} since 1970")
    np.testing.assert_allclose(graph.x, plain.x, atol=1e-5)
    asked = read_graph(EDGES, pd.DataFrame({"id": range(N), "when": seconds}), roles={"when": "date"})
    np.testing.assert_allclose(asked.x, plain.x, atol=1e-5)


def test_other_numbers_are_no_dates() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"id": range(N), "created": rng.integers(1990, 2020, N), "size": rng.integers(1, 9, N) * 10**9}
    )
    graph = read_graph(EDGES, table)
    assert note_of(graph, "created")[0] == "number" and note_of(graph, "size")[0] == "number"
    with pytest.raises(InputError, match=r"Column 'size' should hold dates, but"):
        read_graph(EDGES, table, roles={"size": "date"})


@pytest.mark.parametrize(
    "form", ["%a, %d %b %Y %H:%M:%S +0000", "%d %B %Y", "%B %d, %Y", "%b %d %Y %I:%M %p", "%d-%b-%Y", "%a %b %d %Y"]
)
def test_dates_with_names_of_months_are_read(form: str) -> None:
    days = pd.date_range("2019-03-01", periods=N, freq="17D")
    graph = read_graph(EDGES, pd.DataFrame({"id": range(N), "when": days.strftime(form)}))
    plain = read_graph(EDGES, pd.DataFrame({"id": range(N), "when": days}))
    assert note_of(graph, "when") == ("date", "trend and season; months by their English names")
    np.testing.assert_array_equal(graph.x, plain.x)


def test_a_month_that_is_none_is_refused() -> None:
    when = ["3 March 2020"] * (N - 1) + ["31 Juni 2020"]
    with pytest.raises(InputError, match=r"row 40 holds '31 Juni 2020'"):
        read_graph(EDGES, pd.DataFrame({"id": range(N), "when": when}), roles={"when": "date"})
