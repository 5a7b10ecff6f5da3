"""A model's preparation on other tables: read_graph(preparation=), transform, --model, --new."""

import logging

import numpy as np
import pandas as pd
import pytest

from tuplet import DMATi, InputError, load, read_graph
from tuplet.io.convert import convert

KINDS = ["oak", "ash", "elm"]


def tables(n: int, seed: int, *, factor: float = 1.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    ids = [f"{seed}-{i}" for i in range(n)]
    nodes = pd.DataFrame(
        {
            "id": ids,
            "size": np.round(np.exp(rng.normal(3, 1, n)) * factor, 2),
            "code": rng.choice(["01", "02", "10"], n),
            "kind": rng.choice(KINDS, n),
        }
    )
    edges = pd.DataFrame({"source": ids, "target": np.roll(ids, 1)})
    return edges, nodes


def model_of(graph):
    return DMATi((8,), epochs=1, seed=0).fit(graph)


@pytest.fixture(scope="module")
def model():
    return model_of(read_graph(*tables(40, 0), label="kind"))


def test_another_table_passes_the_way_that_the_model_learned(model):
    edges, nodes = tables(30, 1, factor=50.0)
    graph = read_graph(edges, nodes, preparation=model)
    assert graph.feature_names == model.feature_names_in_ and graph.preparation is model.preparation_
    expected = model.preparation_.transform(read_graph_table(nodes))
    np.testing.assert_array_equal(dense(graph.x), dense(expected))
    assert graph.n_classes == 3  # the label of the model is the label here too
    assert model.transform(graph).shape == (30, 8)


def test_a_graph_prepared_anew_is_refused_with_the_remedy(model):
    with pytest.raises(InputError, match=r"prepared anew.*read_graph\(.., preparation=model\)"):
        model.transform(read_graph(*tables(30, 1, factor=50.0), label="kind"))


def test_a_model_of_plain_features_refuses_scaled_ones():
    plain = read_graph(tables(40, 0)[0], tables(40, 0)[1][["id", "size"]], scale=False)
    model = model_of(plain.with_(preparation=None))
    edges, nodes = tables(30, 1)
    with pytest.raises(InputError, match=r"scaled by their own table.*scale=False"):
        model.transform(read_graph(edges, nodes[["id", "size"]]))
    assert len(model.transform(read_graph(edges, nodes[["id", "size"]], scale=False))) == 30


def test_a_missing_column_is_named(model):
    edges, nodes = tables(30, 1)
    with pytest.raises(InputError, match=r"column 'size' is missing.*Did you mean 'sise'"):
        read_graph(edges, nodes.rename(columns={"size": "sise"}), preparation=model)


def test_many_unseen_levels_are_warned_about(model, caplog):
    edges, nodes = tables(30, 1)
    with caplog.at_level(logging.WARNING, logger="tuplet"):
        read_graph(edges, nodes.assign(code="77"), preparation=model)
    assert "column 'code': 30 of 30 values are not known" in caplog.text


def test_options_that_would_not_be_used_are_refused(model):
    with pytest.raises(InputError, match=r"scale=False has nothing to work on"):
        read_graph(*tables(30, 1), preparation=model, scale=False)
    with pytest.raises(InputError, match=r"no table of features.*size, code"):
        read_graph(tables(30, 1)[0], preparation=model)
    with pytest.raises(InputError, match=r"preparation must be a fitted model"):
        read_graph(*tables(30, 1), preparation="model")


@pytest.fixture
def second(tmp_path):
    """A second table beside its edges, with sizes of another range and a level that the first does not know."""
    edges, nodes = tables(60, 1, factor=50.0)
    nodes.loc[:19, "code"] = "77"
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    return tmp_path / "edges.csv", tmp_path / "nodes.csv"


@pytest.mark.parametrize("missing", ["role", "mean"])
def test_convert_takes_the_preparation_of_another_graph_as_read_graph_does(second, model, tmp_path, missing):
    made = model.preparation_
    read = read_graph(*second, preparation=made, missing=missing)
    stored = convert(second[0], tmp_path / "store", features=second[1], preparation=made, missing=missing)
    np.testing.assert_array_equal(dense(stored.x), dense(read.x))
    np.testing.assert_array_equal(stored.y, read.y)
    assert stored.feature_names == read.feature_names == model.feature_names_in_
    assert stored.preparation.makes_same(made)
    anew = convert(second[0], tmp_path / "anew", features=second[1], label="kind")
    assert not stored.preparation.makes_same(anew.preparation)
    np.testing.assert_array_equal(model.transform(stored), model.transform(read))


def test_a_graph_serves_as_the_preparation_of_another(second, model):
    first = read_graph(*tables(40, 0), label="kind")
    by_graph, by_model = (read_graph(*second, preparation=one) for one in (first, model))
    np.testing.assert_array_equal(dense(by_graph.x), dense(by_model.x))
    with pytest.raises(InputError, match="This Graph does not come from a table"):
        read_graph(*second, preparation=first.with_(preparation=None))


def test_what_is_not_known_is_told_once_for_all_chunks(second, model, caplog):
    import pyarrow as pa

    table = pa.Table.from_pandas(pd.read_csv(second[1], dtype={"code": str}), preserve_index=False)
    with caplog.at_level(logging.WARNING, logger="tuplet"):
        parts = list(model.preparation_.chunks([table.slice(0, 20), table.slice(20)], new=True))
    assert [len(blocks[0].missing) for blocks in parts] == [20, 40]
    assert [record.getMessage() for record in caplog.records] == [
        "column 'code': 20 of 60 values are not known and are ignored (33%)"
    ]


def test_an_interrupted_conversion_does_not_go_on_with_another_preparation(second, model, tmp_path):
    other = read_graph(*tables(40, 5, factor=3.0), label="kind").preparation

    def stop(phase: str, fraction: float) -> None:
        if phase == "edges":
            raise KeyboardInterrupt

    options = {"features": second[1], "missing": "role"}
    with pytest.raises(KeyboardInterrupt):
        convert(second[0], tmp_path / "store", **options, preparation=model, progress=stop)
    assert (tmp_path / ".store.work").is_dir()
    stored = convert(second[0], tmp_path / "store", **options, preparation=other)
    np.testing.assert_array_equal(dense(stored.x), dense(read_graph(*second, preparation=other).x))


def test_the_flag_preparation_names_a_model_or_a_graph_folder(second, model, tmp_path, run):
    model.save(tmp_path / "model")
    edges, nodes = (str(path) for path in second)
    expected = dense(read_graph(*second, preparation=model).x)
    for i, place in enumerate(("model", "store-0")):
        out = tmp_path / f"store-{i}"
        done = run("convert", edges, str(out), "-f", nodes, "--preparation", str(tmp_path / place), "-q")
        assert done[0] == 0, done
        np.testing.assert_array_equal(dense(read_graph(out).x), expected)
    (tmp_path / "graph.toml").write_text('edges = "edges.csv"\nfeatures = "nodes.csv"\npreparation = "model"\n')
    vectors = tmp_path / "v.npy"
    assert run("embed", str(tmp_path / "graph.toml"), "--method", "FilterSVD", "-q", "-o", str(vectors))[0] == 0
    code, _, error = run("info", edges, "-f", nodes, "--preparation", str(tmp_path / "model"), "--no-scale")
    assert code and "--no-scale has nothing to work on: that was decided when the preparation was learned" in error
    code, _, error = run("embed", edges, "-f", nodes, "--model", str(tmp_path / "model"), "--preparation", "x")
    assert code and "--preparation would not be used" in error


def test_codes_stay_texts_in_a_text_file(model, tmp_path):
    edges, nodes = tables(30, 1)
    nodes["code"] = "10"  # a column of numbers, as far as this file tells
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    graph = read_graph(edges, tmp_path / "nodes.csv", preparation=model)
    assert (dense(graph.x)[:, graph.feature_names.index("code=10")] > 0).all()


def test_the_command_line_uses_the_preparation_of_the_model(tmp_path, run):
    for seed, factor in ((0, 1.0), (1, 50.0)):
        edges, nodes = tables(40, seed, factor=factor)
        edges.to_csv(tmp_path / f"edges{seed}.csv", index=False)
        nodes.to_csv(tmp_path / f"nodes{seed}.csv", index=False)
    at = lambda name: str(tmp_path / name)  # noqa: E731
    first = ["embed", at("edges0.csv"), "-f", at("nodes0.csv"), "--label", "kind", "--method", "DMAT-i", "-q"]
    settings = ["--set", "epochs=1", "--dim", "8", "-o", at("v0.npy"), "--save-model", at("model")]
    assert run(*first, *settings)[0] == 0
    again = ["embed", at("edges1.csv"), "-f", at("nodes1.csv"), "--model", at("model"), "-q", "-o", at("v1.npy")]
    assert run(*again)[0] == 0
    graph = read_graph(at("edges1.csv"), at("nodes1.csv"), preparation=load(at("model")))
    np.testing.assert_array_equal(np.load(at("v1.npy")), load(at("model")).transform(graph))
    assert "--no-scale has nothing to work on" in run(*again, "--no-scale")[2]


def read_graph_table(frame: pd.DataFrame):
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False)


def dense(x) -> np.ndarray:
    return x.toarray() if hasattr(x, "toarray") else np.asarray(x)


def test_nodes_without_a_row_are_kept_as_rows_of_zeros(tmp_path):
    from tuplet.io.convert import convert

    edges, nodes = tables(30, 1)
    with pytest.raises(InputError, match=r"5 of 30 nodes in the edges have no feature row.*unmatched='keep'"):
        read_graph(edges, nodes[:25], label="kind")
    graph = read_graph(edges, nodes[:25], label="kind", unmatched="keep")
    assert not dense(graph.x)[25:].any() and dense(graph.x)[:25].any(axis=1).all()
    stored = convert(edges, tmp_path / "graph", features=nodes[:25], label="kind", unmatched="keep")
    assert stored.with_(name="").fingerprint() == graph.fingerprint()


def test_info_shows_the_columns_that_embed_will_make(tmp_path, run):
    import json

    edges, nodes = tables(30, 1)
    nodes.loc[3:8, "size"] = np.nan
    edges.to_csv(tmp_path / "e.csv", index=False)
    nodes[:25].to_csv(tmp_path / "n.csv", index=False)
    (tmp_path / "g.toml").write_text('edges = "e.csv"\nfeatures = "n.csv"\nlabel = "kind"\n')
    wanted = read_graph(edges, nodes[:25], label="kind", unmatched="keep").n_features
    table = [tmp_path / "e.csv", "-f", tmp_path / "n.csv", "--label", "kind"]
    for given in (table, [tmp_path / "g.toml"]):
        code, out, _ = run("info", *given, "--json")
        assert code == 0 and json.loads(out)["features"] == wanted


def test_a_label_of_another_table_is_no_feature_here():
    edges, nodes = tables(30, 1)
    graph = read_graph(edges, nodes, nodes[["id", "kind"]])
    assert not any(name.startswith("kind") for name in graph.feature_names)
    asked = read_graph(edges, nodes, nodes[["id", "kind"]], columns=["kind", "size"])
    assert "kind=oak" in asked.feature_names


@pytest.mark.parametrize("names", [("id", "size", "kind"), ("", "a", "b"), ("Unnamed: 0", "a", "b")])
def test_ends_of_edges_are_not_guessed_where_an_id_or_index_comes_first(names):
    rows = {name: ["x", "y", "z"] for name in names}
    with pytest.raises(InputError, match=r"Which columns are the ends of the edges.*source=.. target=.."):
        read_graph(rows)
    assert read_graph(rows | {names[1]: ["y", "z", "x"]}, source=names[0], target=names[1]).n_nodes == 3


def test_embed_says_that_features_are_made_from_the_edges(tmp_path, run):
    tables(40, 0)[0].to_csv(tmp_path / "e.csv", index=False)
    _, out, _ = run("embed", tmp_path / "e.csv", "-k", "2", "-q", "-o", tmp_path / "v.npy")
    assert "on columns made from the edges" in out


def test_a_method_that_wants_k_says_so_in_flags(tmp_path, run):
    edges, nodes = tables(40, 0)
    edges.to_csv(tmp_path / "e.csv", index=False)
    nodes.to_csv(tmp_path / "n.csv", index=False)
    given = [tmp_path / "e.csv", "-f", tmp_path / "n.csv", "-q", "-o", tmp_path / "v.npy"]
    _, _, err = run("embed", *given, "--method", "FilterSVD")
    assert "Give --clusters .." in err
