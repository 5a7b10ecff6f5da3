"""Specs and recipes: what a TOML file expands to, and that every recipe value can be used and says its source."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tuplet._check import InputError
from tuplet.bench.recipes import (
    SOURCES,
    estimator_settings,
    merged,
    recipe_names,
    recipe_settings,
    recipe_sources,
)
from tuplet.bench.run import run_spec
from tuplet.bench.spec import Job, digest, load_spec, matches

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
EIGHT = {"acm", "dblp", "cora", "citeseer", "pubmed", "amazon-photo", "coauthor-cs", "coauthor-phy"}

SPEC = """
task = "clustering"
datasets = ["cora", "acm"]
seeds = 3
[settings]
epochs = 5
lr = 0.1
[[methods]]
name = "DMAT-i"
recipe = true
settings = { lr = 0.5 }
[methods.per_dataset.acm]
alpha = 0.9
[[methods]]
name = "KMeans"
seeds = 1
skip = ["acm"]
limit_s = 60
"""


def spec_file(tmp_path: Path, text: str = SPEC) -> Path:
    path = tmp_path / "clustering.toml"
    path.write_text(text)
    return path


def test_a_spec_expands_to_dataset_method_seed(tmp_path: Path) -> None:
    jobs = load_spec(spec_file(tmp_path)).jobs()
    seen = [(j.dataset, j.method, j.seed) for j in jobs]
    assert seen == [
        *[("cora", "DMAT-i", s) for s in range(3)],
        ("cora", "KMeans", 0),
        *[("acm", "DMAT-i", s) for s in range(3)],
    ]
    assert jobs[3].limit_s == 60 and jobs[0].limit_s is None


def test_settings_come_from_recipe_spec_method_and_dataset_in_that_order(tmp_path: Path) -> None:
    jobs = {(j.dataset, j.method): j.settings for j in load_spec(spec_file(tmp_path)).jobs(seeds=1)}
    recipe = recipe_settings("acm")
    assert jobs["acm", "DMAT-i"] == {**recipe, "epochs": 5, "lr": 0.5, "alpha": 0.9}
    assert jobs["cora", "DMAT-i"]["alpha"] == recipe_settings("cora")["alpha"]
    assert jobs["cora", "KMeans"] == {"epochs": 5, "lr": 0.1}


def test_only_keeps_alternatives_of_one_key_and_all_of_several(tmp_path: Path) -> None:
    spec = load_spec(spec_file(tmp_path))
    assert len(spec.jobs(only=["dataset=cora", "dataset=acm"])) == len(spec.jobs())
    assert {j.method for j in spec.jobs(only=["method=kmeans"])} == {"KMeans"}
    assert not spec.jobs(only=["method=KMeans", "dataset=acm"])
    with pytest.raises(InputError, match="only 'methods' is not known"):
        matches(spec.jobs()[0], ["methods=KMeans"])


def test_a_spec_may_have_several_tasks(tmp_path: Path) -> None:
    text = 'task = ["clustering", "links"]\ndatasets = ["cora"]\n[[methods]]\nname = "DMAT-i"\nrecipe = true\n'
    jobs = load_spec(spec_file(tmp_path, text)).jobs(seeds=1)
    assert [job.task for job in jobs] == ["clustering", "links"]
    assert [dict(job.settings) for job in jobs] == [recipe_settings("cora"), recipe_settings("cora", "links")]


def test_settings_from_another_file_are_read_only_when_needed(tmp_path: Path) -> None:
    text = 'task = "links"\ndatasets = ["cora"]\n[[methods]]\nname = "AGE"\nsettings_from = "rivals.toml"\n'
    spec = load_spec(spec_file(tmp_path, text + '[[methods]]\nname = "KMeans"\n'))
    assert len(spec.jobs(only=["method=KMeans"], seeds=2)) == 2
    with pytest.raises(InputError, match=r"no .*rivals.toml"):
        spec.jobs()
    (tmp_path / "rivals.toml").write_text(
        '[AGE]\nepochs = 400\nhidden = { value = 500, source = "paper" }\n'
        "[AGE.cora]\nlayers = 8\n[AGE.acm]\nlayers = 3\n[AGE.links]\nepochs = 100\n"
    )
    assert spec.jobs()[0].settings == {"epochs": 100, "hidden": 500, "layers": 8}


def test_a_key_depends_on_the_settings_but_not_on_their_order() -> None:
    job = Job("links", "cora", "DMAT-i", "all", 0, {"a": [1, 2], "b": 2})
    assert job.key == Job("links", "cora", "DMAT-i", "all", 0, {"b": 2, "a": (1, 2)}, spec="other", limit_s=3).key
    assert job.key != Job("links", "cora", "DMAT-i", "all", 0, {"a": [1, 2], "b": 3}).key
    assert digest({}) != digest({"a": None})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('task = "clustring"', "Did you mean 'clustering'"),
        ('task = "links"\nworkers = 3', "'workers' is not known"),
        ('task = "links"\ndatasets = ["cora"]', "at least one"),
        ('task = "links"\ndatasets = ["cora"]\n[[methods]]\nusage = "all"', "has no name"),
        ('task = "links"\ndatasets = ["cora"]\n[[methods]]\nname = "AGE"\nsetting = {}', "Did you mean 'settings'"),
        ('task = "links"\n[datasets]\nclustering = ["cora"]\n[[methods]]\nname = "AGE"', "has lists for"),
        ("task = ", "not valid TOML"),
        ("a = " + "[" * 5000, "not valid TOML"),
        ('task = 3\ndatasets = ["cora"]\nmethods = [{ name = "AGE" }]', "task 3 is not known"),
        (
            'task = "links"\ndatasets = "cora"\nmethods = [{ name = "AGE" }]',
            r'must be a list, got \'cora\'.*\["cora"',
        ),
        ('task = "links"\ndatasets = 3\nmethods = [{ name = "AGE" }]', "datasets must be a list, got 3"),
        ('task = "links"\ndatasets = ["cora", 3]\nmethods = [{ name = "AGE" }]', "must be text, got 3"),
        ('task = "links"\nmethods = [{ name = "AGE" }]\n[datasets]\nlinks = "cora"', "must be a list, got 'cora'"),
        ('task = "links"\ndatasets = ["cora"]\nmethods = 3', "methods must be a list, got 3"),
        ('task = "links"\ndatasets = ["cora"]\nmethods = [3]', "methods must be a table, got 3"),
        ('task = "links"\ndatasets = ["cora"]\nseeds = 1e9\nmethods = [{ name = "AGE" }]', "seeds must be a whole"),
        ('task = "links"\ndatasets = ["cora"]\nseeds = 100000000\nmethods = [{ name = "AGE" }]', "at most 10000"),
        (
            'task = "links"\ndatasets = ["cora"]\nsettings = 3\nmethods = [{ name = "AGE" }]',
            "settings must be a table",
        ),
        ('task = "links"\ndatasets = ["cora"]\nmethods = [{ name = "AGEE" }]', "Did you mean 'AGE'"),
        ('task = "links"\ndatasets = ["cora"]\nmethods = [{ name = "AGE", skip = 3 }]', "skip must be a list, got 3"),
        ('task = "links"\ndatasets = ["cora"]\nmethods = [{ name = "AGE", skip = "acm" }]', "skip must be a list"),
        (
            'task = "links"\ndatasets = ["cora"]\nmethods = [{ name = "AGE", recipe = "no" }]',
            "recipe must be true or",
        ),
        ('task = "links"\ndatasets = ["cora"]\nmethods = [{ name = "AGE", limit_s = -1 }]', "limit_s must lie in"),
        (
            'task = "links"\ndatasets = ["cora"]\nmethods = [{ name = "AGE", settings = 3 }]',
            "settings must be a table",
        ),
        (
            'task = "links"\ndatasets = ["cora"]\nmethods = [{ name = "AGE", per_dataset = { acm = 3 } }]',
            "be a table",
        ),
        (
            'task = "links"\ndatasets = ["cora"]\n[[methods]]\nname = "AGE"\nsettings = { evaluate = 3 }',
            "evaluate must",
        ),
        ('task = "links"\ndatasets = ["cora"]\n[[methods]]\nname = "AGE"\nsettings = { lr = inf }', "kept in a row"),
        (
            'task = "links"\ndatasets = ["cora"]\n[[methods]]\nname = "AGE"\nsettings = { lr = 2020-01-01 }',
            "kept in a",
        ),
    ],
)
def test_a_bad_spec_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_spec(spec_file(tmp_path, text))


def test_a_spec_and_its_settings_must_be_utf8(tmp_path: Path) -> None:
    path = spec_file(tmp_path)
    path.write_bytes(b"about = '\xff'\n" + SPEC.encode())
    with pytest.raises(InputError, match=r"is not UTF-8 text .* at byte 9"):
        load_spec(path)
    path.write_text(
        'task = "links"\ndatasets = ["cora"]\nmethods = [{ name = "AGE", settings_from = "rivals.toml" }]'
    )
    (tmp_path / "rivals.toml").write_bytes(b"[AGE]\nlr = '\xff'")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        load_spec(path).jobs()
    for text in ("AGE = 3", "[AGE]\ncora = 3", "[AGE]\nlinks = 3"):
        (tmp_path / "rivals.toml").write_text(text)
        with pytest.raises(InputError, match="must be a table, got 3"):
            load_spec(path).jobs()


def test_only_without_a_value_or_a_match_is_an_error(tmp_path: Path) -> None:
    path = spec_file(tmp_path)
    with pytest.raises(InputError, match="only 'dataset' has no value"):
        load_spec(path).jobs(only=["dataset"])
    with pytest.raises(InputError, match=r"No job of .* fits dataset=corra"):
        run_spec(path, only=["dataset=corra"], out=tmp_path / "rows.jsonl")


def test_each_task_may_have_its_own_datasets(tmp_path: Path) -> None:
    text = 'task = ["clustering", "links"]\nseeds = 1\n[datasets]\nclustering = ["cora", "acm"]\nlinks = ["cora"]\n'
    jobs = load_spec(spec_file(tmp_path, text + '[[methods]]\nname = "AGE"')).jobs()
    assert [(job.task, job.dataset) for job in jobs] == [
        ("clustering", "cora"),
        ("clustering", "acm"),
        ("links", "cora"),
    ]


def test_a_missing_spec_says_where_the_papers_lie(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="benchmarks/paper"):
        load_spec(tmp_path / "nothing.toml")


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("**/*.toml")), ids=lambda p: p.stem)
def test_every_committed_spec_can_be_read(path: Path) -> None:
    tables = ("baselines", "notes", "printed", "chosen", "chosen-labels", "chosen-start")  # of settings, of reasons
    if path.stem not in tables:
        assert load_spec(path).methods


def test_there_is_a_recipe_for_each_of_the_eight_graphs() -> None:
    assert set(recipe_names()) == EIGHT


@pytest.mark.parametrize("dataset", sorted(EIGHT))
def test_every_recipe_fits_its_estimator_and_names_its_sources(dataset: str) -> None:
    from tuplet.evaluation._probe import classify_nodes
    from tuplet.evaluation.tasks import cluster_nodes
    from tuplet.models.registry import make_estimator

    cases = [("clustering", "DMAT-i", "all"), ("classification", "DMAT-i", "all"), ("links", "DMAT-i", "all")]
    cases += [("classification", method, "train") for method in ("DMT", "DMAT", "DMAT-i")]
    for task, method, usage in cases:
        settings = recipe_settings(dataset, task, method=method, usage=usage)
        make_estimator(method, **estimator_settings(settings))
        function = classify_nodes if task == "classification" else cluster_nodes
        if task != "links":
            assert set(settings.get("evaluate", {})) <= set(inspect.signature(function).parameters)
        sources = recipe_sources(dataset, task, method=method, usage=usage)
        flat = [s for v in sources.values() for s in (v.values() if isinstance(v, dict) else [v])]
        assert set(sources) == set(settings) and set(flat) <= set(SOURCES)


def test_a_recipe_for_a_task_or_method_changes_only_what_it_states(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(value: object) -> dict[str, object]:
        return {"value": value, "source": "guess"}

    book = {
        "toy": {
            "lr": entry(1),
            "alpha": entry(2),
            "clustering": {"evaluate": {"unit_rows": entry(False)}},
            "classification": {"lr": entry(3), "DMT": {"lr": entry(4)}, "DMAT-i:train": {"alpha": entry(5)}},
        }
    }
    monkeypatch.setattr("tuplet.bench.recipes._book", lambda: book)
    assert recipe_settings("toy") == {"lr": 1, "alpha": 2, "evaluate": {"unit_rows": False}}
    assert recipe_settings("toy", "tau0") == recipe_settings("toy", "clustering")
    assert recipe_settings("toy", "links") == {"lr": 1, "alpha": 2}
    assert recipe_settings("toy", "classification") == {"lr": 3, "alpha": 2}
    assert recipe_settings("toy", "classification", method="DMT", usage="train") == {"lr": 4, "alpha": 2}
    assert recipe_settings("toy", "classification", usage="train") == {"lr": 3, "alpha": 5}
    with pytest.raises(InputError, match="no recipe for 'else'"):
        recipe_settings("else")


def test_merging_goes_into_evaluate() -> None:
    parts = ({"a": 1, "evaluate": {"x": 1, "y": 2}}, {"evaluate": {"y": 3}})
    assert merged(*parts) == {"a": 1, "evaluate": {"x": 1, "y": 3}}


def test_the_key_of_a_job_is_that_of_its_row_and_tells_settings_apart() -> None:
    from tuplet.bench.rows import new_row, row_key

    one, other = (
        Job(task="clustering", dataset="cora", method="DMAT-i", usage="all", seed=0, settings={"lr": lr})
        for lr in (1e-3, 1e-4)
    )
    assert one.key == row_key(new_row(one)) != other.key == row_key(new_row(other))


def test_a_study_takes_the_settings_that_were_chosen_for_clustering(tmp_path: Path) -> None:
    (tmp_path / "chosen.toml").write_text(
        '["DMAT-i".cora.clustering]\nalpha = 0.4\n["DMAT-i".cora.links]\nalpha = 0.2\n'
    )
    spec = tmp_path / "spec.toml"
    method = '[[methods]]\nname = "DMAT-i"\nsettings_from = "chosen.toml"\n'
    spec.write_text(f'task = ["convergence", "links"]\ndatasets = ["cora"]\nseeds = 1\n{method}')
    assert {job.task: job.settings["alpha"] for job in load_spec(spec).jobs()} == {"convergence": 0.4, "links": 0.2}
