"""A default is said once, in the constructor's signature: bench, ladder, command line and docs give the same."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tuplet.bench.fitting import GIVEN, Bench, open_defaults, parameters, train_config
from tuplet.bench.spec import Job
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr
from tuplet.models.dmat import DMATi
from tuplet.models.new_nodes import filter_of
from tuplet.models.registry import make_estimator, method_class, method_names
from tuplet.training.config import TrainConfig

DOCS = Path(__file__).parents[1]


def signature(method: str) -> dict[str, Any]:
    given = inspect.signature(method_class(method)).parameters
    return {name: parameter.default for name, parameter in given.items()}


@pytest.mark.parametrize("method", method_names())
def test_the_registry_gives_an_estimator_with_the_defaults_of_its_constructor(method: str) -> None:
    assert make_estimator(method).get_params(deep=False) == signature(method) == parameters(method)


@pytest.mark.parametrize("method", method_names())
@pytest.mark.parametrize("task", ["clustering", "scale"])
def test_a_bench_job_without_settings_runs_with_those_defaults(method: str, task: str) -> None:
    job = Job(task, "cora", method, "all", 3, {})
    want = {name: value for name, value in signature(method).items() if name not in GIVEN}
    model = Bench("cpu").estimator(job)
    assert {name: getattr(model, name) for name in want} == want
    assert open_defaults(job) == want
    assert getattr(model, "seed", 3) == 3


@pytest.mark.parametrize("method", ["DMAT-i", "DMAT", "DMT"])
def test_a_rung_of_the_ladder_has_those_defaults(method: str) -> None:
    from tuplet.bench.tasks.scale import DEFAULTS, Rung
    from tuplet.bench.tasks.work_folder import WorkFolder

    job = Job("scale", "rmat-1e3", method, "all", 0, {})
    settings = {**DEFAULTS, "store": "memory"}
    ladder = Rung(job, settings, WorkFolder.choose(job, settings, streamed=True), "cpu")
    want = {name: value for name, value in signature(method).items() if name not in (*GIVEN, "n_clusters")}
    assert {name: getattr(ladder.model, name) for name in want} == want


def test_the_filter_of_a_model_has_its_parameters() -> None:
    given = signature("DMAT-i")
    chosen = filter_of(DMATi())
    assert (chosen.weights, chosen.r, chosen.tol) == (ppr(given["alpha"]), given["r"], given["tol"])
    chosen = filter_of(DMATi(alpha=0.3, r=0.2, tol=1e-3))
    assert (chosen.weights, chosen.r, chosen.tol) == (ppr(0.3), 0.2, 1e-3)
    assert GraphFilter().tol == given["tol"] and GraphFilter().r == given["r"]


def test_training_has_the_defaults_of_the_estimators() -> None:
    given, fields = signature("DMAT-i"), TrainConfig.__dataclass_fields__
    shared = (set(given) & set(fields)) - {"criterion"}  # estimators have edges, so theirs is modularity
    assert {name: given[name] for name in shared} == {name: fields[name].default for name in shared}
    config = train_config(DMATi())
    assert {name: getattr(config, name) for name in shared} == {name: given[name] for name in shared}


@pytest.mark.parametrize("page", sorted((DOCS / "docs").glob("*.md")) + [DOCS / "README.md"], ids=lambda p: p.name)
def test_pages_that_state_a_default_state_the_right_one(page: Path) -> None:
    """Every "`name` (default 3)", "`name`, default 3" and "by default `name=3`"."""
    known: dict[str, set[str]] = {}
    for method in method_names():
        for name, value in signature(method).items():
            known.setdefault(name, set()).add(str(value))
    stated = re.findall(r"`(\w+)`,? \(?(?:by )?default:? `?([\w.\-]+)", page.read_text())
    stated += re.findall(r"by default `(\w+)=([\w.\-]+?)`", page.read_text())
    for name, value in stated:
        if name in known:
            assert value.rstrip(".") in known[name], f"{page.name}: {name} is {sorted(known[name])}"
