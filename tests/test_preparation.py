"""Column preparation: a role for each column, what it becomes, and that it is the same however the table is cut."""

from __future__ import annotations

import datetime
import itertools
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from tuplet import load_dataset, read_graph
from tuplet._check import InputError
from tuplet.io.convert import convert
from tuplet.io.preparation import Preparation
from tuplet.io.preparation._sample import sample_table
from tuplet.io.preparation.values import words
from tuplet.io.write import write_graph_tables

ROOT = Path(__file__).parent.parent
N = 60
RNG = np.random.default_rng(0)
NAMES = ("apple", "pear", "plum", "fig")


def messy() -> pa.Table:
    """One column of every role, with gaps, as a stranger's table has them."""
    rng = np.random.default_rng(3)
    day = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "Unnamed: 0": range(N),
            "key": [f"n{i:03d}" for i in range(N)],
            "size": [None if i % 7 == 0 else float(np.exp(rng.normal(8, 3))) for i in range(N)],
            "height": rng.normal(170, 10, N),
            "kind": [["oak", "ash", None][i % 3] for i in range(N)],
            "note": [f"the {NAMES[i % 4]} number {i} of the {NAMES[i % 3]}" if i % 5 else "" for i in range(N)],
            "tags": [None if i % 9 == 0 else [NAMES[i % 4], NAMES[(i + 1) % 4]] for i in range(N)],
            "marks": [f"{NAMES[i % 4]}; {NAMES[(i * 3) % 4]}" for i in range(N)],
            "vector": pa.array([rng.normal(size=3).tolist() for _ in range(N)], pa.list_(pa.float32(), 3)),
            "open": [None if i % 11 == 0 else bool(i % 2) for i in range(N)],
            "since": [day + datetime.timedelta(days=11 * i) for i in range(N)],
            "until": [None if i % 4 == 0 else f"2021-{1 + i % 12:02d}-15" for i in range(N)],
            "same": ["x"] * N,
            "nothing": pa.nulls(N, pa.float64()),
            "token_id": rng.choice(10**9, N, replace=False),
            "region_id": [int(i % 5) for i in range(N)],
            "class": [i % 2 for i in range(N)],
        }
    )


def dense(x: Any) -> np.ndarray[Any, Any]:
    return x.toarray() if sp.issparse(x) else x


def roles_of(prepared: Preparation) -> dict[str, str]:
    return {line.name: line.role for line in prepared.lines()}


def test_every_column_of_a_messy_table_gets_its_role() -> None:
    assert roles_of(Preparation.fit_table(messy(), id="key")) == {
        "size": "number", "height": "number", "kind": "category", "note": "text", "tags": "tokens", "marks": "tokens",
        "vector": "vector", "open": "boolean", "since": "date", "until": "date", "region_id": "category",
        "Unnamed: 0": "id", "key": "id", "same": "constant", "nothing": "empty", "token_id": "id", "class": "label",
    }  # fmt: skip


def test_names_are_as_many_as_columns_and_blocks_weigh_the_same() -> None:
    prepared = Preparation.fit_table(messy(), id="key")
    x = dense(prepared.transform(messy()))
    assert x.shape == (N, len(prepared.feature_names)) and len(set(prepared.feature_names)) == x.shape[1]
    start, blocks = 0, dict[str, list[np.ndarray]]()
    for column in prepared.columns:
        width = len(column.encoder.names)
        blocks.setdefault(column.block, []).append(x[:, start : start + width].astype(np.float64))
        start += width
    assert blocks.keys() == {
        "numbers",
        "categories",
        *(f"column {name}" for name in ("note", "tags", "marks", "vector")),
    }
    likeness = [_root_mean_product(np.hstack(parts)) for parts in blocks.values()]
    np.testing.assert_allclose(likeness, likeness[0], rtol=1e-4)
    np.testing.assert_allclose(np.square(x, dtype=np.float64).sum() / N, len(blocks), rtol=1e-4)


def _root_mean_product(rows: np.ndarray) -> float:
    """The root mean square of the inner products of all pairs of rows, by a loop."""
    return float(np.sqrt(np.mean([[(one @ two) ** 2 for two in rows] for one in rows])))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, N - 1), max_size=6))
def test_a_table_in_chunks_is_prepared_like_the_whole_one(cuts: list[int]) -> None:
    table = messy()
    ends = sorted({0, *cuts, N})
    chunks = [table.slice(a, b - a) for a, b in itertools.pairwise(ends)]
    whole, parts = Preparation.fit_table(table, id="key"), Preparation.fit(lambda: chunks, id="key")
    assert json.dumps(whole.to_saved()[0]) == json.dumps(parts.to_saved()[0])
    together = np.vstack([dense(parts.transform(chunk)) for chunk in chunks])
    np.testing.assert_array_equal(together, dense(whole.transform(table)))


def test_a_sample_does_not_depend_on_the_chunks() -> None:
    table, kept = pa.table({"v": np.arange(1000)}), []
    for step in (1000, 130, 7):
        found, n = sample_table((table.slice(i, step) for i in range(0, 1000, step)), most=50)
        values = found.column("v").to_numpy()
        assert n == 1000 and len(values) == 50 and (np.diff(values) > 0).all()
        kept.append(values.tolist())
    assert kept[0] == kept[1] == kept[2]


def test_saved_as_json_and_arrays_it_comes_back_the_same() -> None:
    prepared = Preparation.fit_table(messy(), id="key")
    meta, arrays = prepared.to_saved()
    back = Preparation.from_saved(json.loads(json.dumps(meta)), arrays)
    assert back.lines() == prepared.lines() and back.feature_names == prepared.feature_names
    np.testing.assert_array_equal(dense(back.transform(messy())), dense(prepared.transform(messy())))
    with pytest.raises(InputError, match="damaged"):
        Preparation.from_saved({"columns": [{}]}, {})
    dates = next(own["encoder"] for own in meta["columns"] if own["encoder"]["kind"] == "Dates")
    dates["order"] = "xyz"
    with pytest.raises(InputError, match=r"damaged.*no order of dates"):
        Preparation.from_saved(meta, arrays)


def test_numbers_follow_the_formula() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, np.nan] * 10)
    x = Preparation.fit_table(pa.table({"v": values, "w": values * 1e6})).transform(
        pa.table({"v": values, "w": values})
    )
    known = values[~np.isnan(values)]
    q1, middle, q3 = np.quantile(known, [0.25, 0.5, 0.75])
    expected = np.where(np.isnan(values), 0, (values - middle) / ((q3 - q1) / 1.349))
    ratio = x[:, 0][expected != 0] / expected[expected != 0]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-5)
    assert (x[np.isnan(values), 1] > 0).all() and (x[~np.isnan(values), 1] == 0).all()  # v:missing, 20% gaps


def test_a_heavy_tail_is_taken_by_its_logarithm_and_units_do_not_matter() -> None:
    size = np.exp(RNG.normal(10, 3, 200))
    other = RNG.normal(size=200)
    tables = [pa.table({"size": size * unit, "other": other}) for unit in (1.0, 1e6)]
    first, second = (Preparation.fit_table(table) for table in tables)
    assert first.lines()[0].note == "logarithm, scaled" and first.lines()[1].note == "scaled"
    np.testing.assert_allclose(first.transform(tables[0]), second.transform(tables[1]), rtol=1e-4, atol=1e-5)


def test_rare_levels_are_one_and_nothing_is_a_level() -> None:
    kind = ["a"] * 40 + ["b"] * 30 + [f"rare{i}" for i in range(8)] + [None, "NA"]
    table = pa.table({"kind": kind, "v": np.arange(80) % 7})
    prepared = Preparation.fit_table(table)
    assert prepared.feature_names[:4] == ("kind=a", "kind=b", "kind=other", "kind=missing")
    x = dense(prepared.transform(table))[:, :4] > 0
    assert x.sum(axis=0).tolist() == [40, 30, 8, 2] and (x.sum(axis=1) == 1).all()


def test_very_many_levels_are_hashed() -> None:
    codes = [f"q{i // 2}" for i in range(6000)]
    prepared = Preparation.fit_table(pa.table({"code": codes, "v": RNG.normal(size=6000)}))
    line = prepared.lines()[0]
    assert (line.role, line.width) == ("category", 256) and "hashed" in line.note


def test_text_is_weighted_as_a_loop_would_do() -> None:
    docs = ["red red fish", "blue fish", "red bird", "one fish two fish"] * 20
    prepared = Preparation.fit_table(pa.table({"t": docs}), roles={"t": "text"})
    x = dense(prepared.transform(pa.table({"t": docs})))
    vocabulary = [name.removeprefix("t:") for name in prepared.feature_names]
    expected = np.zeros((80, len(vocabulary)))
    for i, doc in enumerate(docs):
        for j, word in enumerate(vocabulary):
            count, df = doc.split().count(word), sum(word in other.split() for other in docs)
            expected[i, j] = (1 + np.log(count)) * (1 + np.log(81 / (1 + df))) if count else 0
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(x, expected, rtol=1e-5)


def test_dates_have_a_trend_and_a_season() -> None:
    days = [datetime.date(2018, 1, 1) + datetime.timedelta(days=10 * i) for i in range(150)]
    table = pa.table({"d": days, "s": [str(day) for day in days]})
    prepared = Preparation.fit_table(table)
    assert prepared.feature_names == ("d:trend", "d:sin", "d:cos", "s:trend", "s:sin", "s:cos")
    x = prepared.transform(table)
    np.testing.assert_array_equal(x[:, :3], x[:, 3:])
    assert (np.diff(x[:, 0]) > 0).all()
    np.testing.assert_allclose(x[:, 1] ** 2 + x[:, 2] ** 2, x[0, 1] ** 2 + x[0, 2] ** 2, rtol=1e-4)


def test_a_bag_of_words_in_columns_keeps_its_bits() -> None:
    words = (RNG.random((100, 40)) < 0.1).astype(np.int64)
    table = pa.table({f"w{i}": words[:, i] for i in range(40)})
    x = Preparation.fit_table(table).transform(table)
    assert sp.issparse(x)
    np.testing.assert_array_equal(x.toarray(), words)


def test_one_unscaled_column_does_not_join_a_bag_of_words() -> None:
    words = (RNG.random((100, 40)) < 0.1).astype(np.int64)
    table = pa.table({f"w{i}": words[:, i] for i in range(40)} | {"bytes": np.exp(RNG.normal(12, 2, 100))})
    found = roles_of(Preparation.fit_table(table))
    assert found == {"w0 .. w39": "plain", "bytes": "number"}


def test_a_single_vector_column_keeps_its_bits() -> None:
    rows = RNG.normal(size=(30, 5)).astype(np.float32)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 5), "label": [0, 1] * 15})
    np.testing.assert_array_equal(Preparation.fit_table(table).transform(table), rows)


def test_without_scaling_numbers_and_counts_stay_raw() -> None:
    table = pa.table({"age": [31.0, 17.0, 42.0], "kind": ["a", "b", "a"], "tags": [["x", "x"], ["y"], []]})
    prepared = Preparation.fit_table(table, scale=False)
    assert prepared.transform(table).tolist() == [[31, 1, 0, 2, 0], [17, 0, 1, 0, 1], [42, 1, 0, 0, 0]]


def test_what_is_asked_for_overrules_what_is_found() -> None:
    table = messy()
    prepared = Preparation.fit_table(table, columns=["class", "height", "Unnamed: 0"], roles={"class": "category"})
    assert prepared.feature_names == ("class=0", "class=1", "height", "Unnamed: 0")
    left = Preparation.fit_table(table, id="key", exclude=["note", "tags"])
    assert {line.name: line.note for line in left.left_out}["note"] == "left out as asked"
    with pytest.raises(InputError, match=r"no column 'hight'.*Did you mean 'height'"):
        Preparation.fit_table(table, exclude=["hight"])
    with pytest.raises(InputError, match="role 'numbr' is not known"):
        Preparation.fit_table(table, roles={"height": "numbr"})


def test_added_index_constant_and_ids_change_no_bit() -> None:
    table = pa.table({"v": RNG.normal(size=N), "kind": [NAMES[i % 4] for i in range(N)]})
    plain = dense(Preparation.fit_table(table).transform(table))
    for name, values in {
        "__index_level_0__": np.arange(N), "shuffled": RNG.permutation(N), "k": np.arange(N) * 3 + 7,
        "const": np.full(N, 7.5), "rnd": RNG.choice(10**9, N, replace=False),
        "hash": [f"{v:032x}" for v in range(N)], "name": [f"unit{i}" for i in range(N)],
    }.items():  # fmt: skip
        more = table.append_column(name, pa.array(values))
        np.testing.assert_array_equal(dense(Preparation.fit_table(more).transform(more)), plain, err_msg=name)


def test_sizes_that_all_differ_are_no_ids() -> None:
    table = pa.table({"bytes": np.unique(np.exp(RNG.normal(12, 2, 300)).astype(np.int64))[RNG.permutation(290)]})
    assert roles_of(Preparation.fit_table(table)) == {"bytes": "number"}


def test_new_rows_pass_the_same_way_and_strange_words_are_told(caplog: pytest.LogCaptureFixture) -> None:
    table = messy()
    prepared = Preparation.fit_table(table, id="key")
    caplog.set_level(logging.INFO, "tuplet")
    some = table.slice(10, 5)
    np.testing.assert_array_equal(dense(prepared.transform(some, new=True)), dense(prepared.transform(table))[10:15])
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
    strange = some.set_column(some.column_names.index("kind"), "kind", pa.array(["elm", "oak", "elm", "yew", "ash"]))
    x = dense(prepared.transform(strange.append_column("more", pa.array(range(5))), new=True))
    kinds = [i for i, name in enumerate(prepared.feature_names) if name.startswith("kind=")]
    assert (x[0, kinds] == 0).all() and (x[1, kinds] > 0).sum() == 1
    told = [r.getMessage() for r in caplog.records]
    assert any("'kind': 3 of 5 values are not known" in text for text in told) and any(
        "more" in text for text in told
    )
    with pytest.raises(InputError, match="'height' is missing"):
        prepared.transform(some.drop_columns(["height"]), new=True)


def test_new_rows_may_come_in_other_types() -> None:
    table = pa.table({"v": RNG.normal(size=30), "c": [i % 3 for i in range(30)]})
    prepared = Preparation.fit_table(table, roles={"c": "category"})
    text = pa.table({"v": [str(v) for v in table["v"].to_pylist()], "c": [float(v) for v in table["c"].to_pylist()]})
    np.testing.assert_array_equal(dense(prepared.transform(text, new=True)), dense(prepared.transform(table)))
    with pytest.raises(InputError, match="row 1 holds 'tall'"):
        prepared.transform(pa.table({"v": ["tall"], "c": [1]}), new=True)


def test_a_copy_of_the_label_and_a_column_that_dominates_are_named() -> None:
    kinds = [NAMES[i % 3] for i in range(N)]
    table = pa.table({"kind": kinds, "code": [{"apple": 4, "pear": 9, "plum": 2}[k] for k in kinds], "group": kinds})
    assert len(Preparation.fit_table(table, label="group").warnings) == 2
    table = pa.table({"v": RNG.normal(size=N), "bytes": np.exp(RNG.normal(12, 2, N))})
    (warning,) = Preparation.fit_table(table, scale=False).warnings
    assert "'bytes' makes up 100%" in warning and not Preparation.fit_table(table).warnings


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"a": pa.nulls(30, pa.float64())}, "No column can be used.*no value at all"),
        ({"label": [0, 1] * 15}, "No column can be used.*label"),
        ({"a": [1.0, float("inf")]}, "infinity in row 2"),
        ({"a": ["1", "2", "3", "x"]}, "holds text in 1 of 4 values, first 'x' in row 4"),
        ({"a": [[1.0], [1.0, 2.0]]}, "lengths"),
    ],
)
def test_a_table_that_cannot_be_prepared_says_why(table: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Preparation.fit_table(pa.table(table))


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
    with pytest.raises(InputError, match="Two columns have the name 'a'"):
        Preparation.fit_table(twice)


@pytest.mark.parametrize("name", ["debian", "installed"])
def test_a_real_table_is_prepared_without_a_word_from_us(name: str) -> None:
    table = pq.read_table(ROOT / "benchmarks" / "tables" / f"{name}.nodes.parquet")
    prepared = Preparation.fit_table(table, id="id", label="label")
    roles = roles_of(prepared)
    assert roles["installed_size"] == "number" and roles["maintainer"] == "category" and roles["label"] == "label"
    assert roles["version_date"] == "date" and not prepared.warnings
    frame = pa.Table.from_pandas(table.to_pandas())
    assert Preparation.fit_table(frame, id="id", label="label").feature_names == prepared.feature_names
    assert isinstance(pd.DataFrame(prepared.rows()), pd.DataFrame)


def test_cora_written_as_tables_comes_back_bit_by_bit(tmp_path: Path) -> None:
    g = load_dataset("cora")
    write_graph_tables(g, tmp_path / "e.csv", tmp_path / "n.parquet")
    back = read_graph(tmp_path / "e.csv", tmp_path / "n.parquet", unmatched="keep")
    assert back.fingerprint() == g.fingerprint() and back.y.tolist() == g.y.tolist()


@pytest.mark.parametrize("name", ["debian", "pypi"])
def test_a_real_table_converted_in_chunks_is_the_graph_in_memory(tmp_path: Path, name: str) -> None:
    edges, nodes = (ROOT / "benchmarks" / "tables" / f"{name}.{kind}.parquet" for kind in ("edges", "nodes"))
    pq.write_table(pq.read_table(nodes), tmp_path / "n.parquet", row_group_size=100)
    options: dict[str, Any] = {"roles": {"label": "category"}} if name == "pypi" else {"exclude": ["size"]}
    options |= {"columns": ["label", "summary", "keywords", "files", "last_upload"]} if name == "pypi" else {}
    expected = read_graph(edges, tmp_path / "n.parquet", **options)
    g = convert(edges, tmp_path / "g", features=tmp_path / "n.parquet", **options)
    assert g.feature_names == expected.feature_names and g.fingerprint() == expected.fingerprint()
    assert g.preparation.lines() == expected.preparation.lines() and "label" in roles_of(g.preparation)


def test_a_csv_in_memory_and_on_disk_has_the_same_roles(tmp_path: Path) -> None:
    frame = messy().drop_columns(["tags", "vector"]).to_pandas()
    frame.to_csv(tmp_path / "my nodes.csv")  # pandas adds its index, without a name
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"n{i:03d},n{i + 1:03d}\n" for i in range(N - 1)))
    g = read_graph(tmp_path / "edges.csv", tmp_path / "my nodes.csv", id="key")
    stored = convert(tmp_path / "edges.csv", tmp_path / "g", features=tmp_path / "my nodes.csv", id="key")
    roles = roles_of(g.preparation)
    assert {"size": "number", "until": "date", "note": "text", "same": "constant"}.items() <= roles.items()
    assert g.y is not None and "class" not in "".join(g.feature_names)
    assert stored.fingerprint() == g.fingerprint() and stored.preparation.lines() == g.preparation.lines()


@pytest.mark.parametrize(
    ("form", "order"),
    [("%d.%m.%Y", "day"), ("%d/%m/%Y", "day"), ("%m/%d/%Y", "month"), ("%d-%m-%Y", "day"), ("%Y/%m/%d", "year")],
)
@pytest.mark.parametrize("time", ["", " 9:05", " 10:00:00 PM"])
def test_dates_are_read_in_the_order_that_their_numbers_tell(form: str, order: str, time: str) -> None:
    days = [datetime.date(2018, 1, 1) + datetime.timedelta(days=17 * i) for i in range(60)]
    texts = pa.table({"when": [day.strftime(form) + time for day in days[:-1]] + ["NA"]})
    typed = pa.table({"when": pa.array([*days[:-1], None])})
    found = Preparation.fit_table(texts)
    assert found.lines()[0].role == "date" and found.columns[0].encoder.order == order  # type: ignore[union-attr]
    np.testing.assert_array_equal(found.transform(texts), Preparation.fit_table(typed).transform(typed))
    again = Preparation.from_json(json.loads(json.dumps(found.to_json())))
    part = texts.slice(0, 1)  # 1.1.2018 alone would not tell
    np.testing.assert_array_equal(again.transform(part), found.transform(texts)[:1])


def test_dates_that_could_be_read_in_two_ways_are_refused() -> None:
    table = pa.table({"when": [f"{i % 12 + 1:02d}/{i % 7 + 1:02d}/2020" for i in range(40)]})
    with pytest.raises(InputError, match=r"day and month cannot be told apart.*roles=\{'when': 'category'\}"):
        Preparation.fit_table(table)
    assert Preparation.fit_table(table, roles={"when": "category"}).lines()[0].role == "category"


def test_a_day_that_is_none_is_named_with_its_row() -> None:
    texts = [f"{i % 28 + 1:02d}.02.2020" for i in range(40)]
    found = Preparation.fit_table(pa.table({"when": texts}))
    with pytest.raises(InputError, match=r"day before month, but row 2 holds '30\.02\.2020'"):
        found.transform(pa.table({"when": ["29.02.2020", "30.02.2020"]}))


def test_dates_and_left_out_columns_of_a_text_file_are_no_odd_numbers(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 28 + 1:02d}.{i % 12 + 1:02d}.2021,{i}%\n" for i in range(40))
    (tmp_path / "nodes.csv").write_text("id,when,share\n" + rows)
    edges = [(i, (i + 1) % 40) for i in range(40)]
    with pytest.raises(InputError, match=r"column 'share', holds '0%': a number in a form that is not read"):
        read_graph(edges, tmp_path / "nodes.csv")
    for options in ({"exclude": ["share"]}, {"columns": ["when"]}):
        graph = read_graph(edges, tmp_path / "nodes.csv", **options)  # type: ignore[arg-type]
        assert graph.feature_names == ("when:trend", "when:sin", "when:cos")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Die Küste, größer als je", ["die", "küste", "größer", "als", "je"]),
        ("l'été à Paris", ["été", "paris"]),
        ("cafe\u0301 a b c d", ["café"]),  # an accent as a mark of its own; letters alone are no words
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("мир и война", ["мир", "война"]),
    ],
)
def test_words_are_whole_in_every_script(text: str, found: list[str]) -> None:
    assert words(pa.chunked_array([[text]])).to_pylist() == [found]


def prepared_line(values: list[Any]) -> tuple[str, str]:
    table = pa.table({"id": range(len(values)), "other": [i % 3 for i in range(len(values))], "found": values})
    line = next(line for line in Preparation.fit_table(table, id="id").lines() if line.name == "found")
    return line.role, line.note


def test_texts_that_differ_in_nearly_every_row_are_no_feature() -> None:
    names = [f"user{i}" for i in range(97)]
    assert prepared_line([*names, "user1", "user2", "user3"]) == (
        "id",
        "left out: one word, different in nearly every row",
    )
    role, note = prepared_line([f"p{i}@example.org" for i in range(100)])
    assert role == "id" and "no word that recurs" in note
    assert prepared_line([f"{'oak' if i % 2 else 'elm'} number{i}" for i in range(100)])[0] == "text"
    assert prepared_line([f"user{i % 60}" for i in range(100)])[0] == "category"


def test_numbers_with_a_unit_are_refused_with_the_remedy() -> None:
    with pytest.raises(InputError, match=r"numbers with a unit, such as '0 kg'.*categorical=\['found'\]"):
        prepared_line([f"{i} kg" for i in range(100)])
    assert prepared_line([f"{i % 9} kg" for i in range(100)])[0] == "category"  # few levels
    letters = "abcdefghijklmnopqrst"
    assert prepared_line([f"{i}{letters[i % 20]}" for i in range(100)])[0] == "id"  # codes, not units
