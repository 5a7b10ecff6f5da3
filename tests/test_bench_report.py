"""Reports: means from rows, the published number beside them, counts, shortfalls with reasons, README's table."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuplet._check import InputError
from tuplet.bench.live import LiveTable
from tuplet.bench.report import readme_table, report, update_ablations, update_readme
from tuplet.bench.report.figures import draw_figures, scale_stops
from tuplet.bench.report.published import Number, find_published, read_published
from tuplet.bench.report.readme import END, START
from tuplet.bench.report.reasons import Reasons
from tuplet.bench.report.sections import exponent
from tuplet.bench.report.sensitivity import effects
from tuplet.bench.report.statistics import cliques, critical_difference, mean_ranks, paired_verdict, verdict
from tuplet.bench.report.tables import Comparison, cell, group_rows
from tuplet.bench.run import RunState
from tuplet.bench.spec import Job

PUBLISHED = """task,dataset,method,usage,metric,mean,std,note
clustering,cora,DMAT-i,all,accuracy,70.57,1.28,
clustering,cora,DMAT-i,all,nmi,53.59,1.22,
clustering,cora,AGE,all,accuracy,76.80,0.50,did not converge
clustering,acm,DMAT-i,all,accuracy,91.60,0.70,
clustering,acm,DMAT-i,all,conductance,6.68,0.27,
links,cora,DMAT-i,all,auc,92.62,0.29,
"""


def row(dataset: str = "cora", method: str = "DMAT-i", seed: int = 0, **changes: Any) -> dict[str, Any]:
    base = {"task": "clustering", "usage": "all", "settings": {}, "spec": "clustering:ab", "commit": "c0ffee"}
    base |= {"machine": "toy", "seconds": {"train": 1.0}, "peak_mb": 100.0, "metrics": {"accuracy": 70.0}}
    return base | {"dataset": dataset, "method": method, "seed": seed} | changes


@pytest.fixture
def published(tmp_path: Path) -> Path:
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "all.csv").write_text(PUBLISHED)
    return folder


def written(tmp_path: Path, rows: list[dict[str, Any]]) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def test_a_group_has_the_mean_and_deviation_over_its_seeds() -> None:
    rows = [row(seed=s, metrics={"accuracy": v}) for s, v in enumerate((70.0, 72.0, 74.0))]
    (group,) = group_rows(rows)
    assert group.number("accuracy") == Number(72.0, pytest.approx((8 / 3) ** 0.5), n=3)
    assert group.number("nmi") is None and group.runs == 3


def test_the_last_row_of_a_job_and_the_last_settings_of_a_cell_count() -> None:
    old = [row(seed=s, settings={"lr": 1}, metrics={"accuracy": 10.0}) for s in range(5)]
    new = [row(seed=s, settings={"lr": 2}, metrics={"accuracy": 80.0 + s}) for s in range(2)]
    again = row(seed=1, settings={"lr": 2}, metrics={"accuracy": 90.0})
    (group,) = group_rows([*old, *new, again])
    assert group.values["accuracy"] == [80.0, 90.0]
    back = row(seed=0, settings={"lr": 1}, metrics={"accuracy": 11.0})
    (group,) = group_rows([*old, *new, back])
    assert group.values["accuracy"] == [11.0, 10.0, 10.0, 10.0, 10.0]


def test_specs_are_kept_apart_even_for_the_same_method() -> None:
    groups = group_rows([row(), row(spec="defaults:cd", metrics={"accuracy": 60.0})])
    assert [(g.spec, g.values["accuracy"]) for g in groups] == [("clustering", [70.0]), ("defaults", [60.0])]


def test_a_run_that_failed_later_does_not_hide_the_good_ones() -> None:
    (group,) = group_rows([row(seed=0), row(seed=1, metrics={}, error="MemoryError: no")])
    assert group.runs == 1 and group.error == "MemoryError: no" and group.values["accuracy"] == [70.0]


@pytest.mark.parametrize(
    ("ours", "paper", "metric", "text"),
    [
        (Number(91.6), Number(91.6), "accuracy", "91.60 ±0.00 (91.60, +0.00 =)"),
        (Number(92.0, 0.9), Number(91.6, 0.8), "accuracy", "92.00 ±0.90 (91.60, +0.40 =)"),
        (Number(95.0, n=1), Number(91.6, 0.8), "accuracy", "95.00 ±0.00 (91.60, +3.40 ?)"),
        (Number(91.59), Number(91.6), "accuracy", "91.59 ±0.00 (91.60, -0.01 ▼)"),
        (Number(5.0), Number(6.68), "conductance", "**5.00** ±0.00 (6.68, -1.68)"),
        (Number(70.0), Number(62.5, 1, "did not converge"), "accuracy", "**70.00** ±0.00 (62.50*, +7.50)"),
        (None, Number(62.5), "accuracy", "- (62.50)"),
        (Number(1.0, 0.5), None, "accuracy", "1.00 ±0.50"),
    ],
)
def test_a_cell_shows_both_numbers_and_marks_the_difference(
    ours: Number | None, paper: Number | None, metric: str, text: str
) -> None:
    assert cell(ours, paper, metric) == text


def test_verdicts_compare_with_the_same_method_or_with_the_best(published: Path) -> None:
    rows = [row(seed=s, metrics={"accuracy": 73.0 + s / 5, "nmi": 53.4 + s / 5}) for s in range(5)]
    rows += [row("acm", seed=s, metrics={"accuracy": 90.0 + s / 5}) for s in range(5)]
    c = Comparison(group_rows(rows), read_published(published))
    assert c.verdicts("DMAT-i", ("accuracy",)) == ["win", "loss"]
    assert c.verdicts("DMAT-i", ("nmi",)) == ["tie"]
    assert c.verdicts("DMAT-i", ("accuracy",), against="best") == ["loss", "loss"]  # AGE has 76.80 on cora


def test_a_verdict_is_welchs_test_over_the_seeds() -> None:
    from scipy.stats import ttest_ind

    rng = np.random.default_rng(0)
    for gap in (0.0, 0.3, 0.8, 1.5, 4.0):
        a, b = rng.normal(70 + gap, 1.0, 10), rng.normal(70, 2.0, 7)
        ours, other = (Number(float(v.mean()), float(v.std()), n=len(v)) for v in (a, b))
        p = ttest_ind(a, b, equal_var=False).pvalue
        expected = "tie" if p >= 0.05 else "win" if a.mean() > b.mean() else "loss"
        assert verdict(ours, other) == expected
        swapped = {"win": "loss", "loss": "win", "tie": "tie"}[expected]
        assert verdict(other, ours) == swapped == verdict(ours, other, "conductance")


def test_a_paired_verdict_sees_a_small_difference_that_every_split_shows() -> None:
    splits = {seed: 80.0 + 3 * seed for seed in range(10)}
    better = {seed: value + 0.2 + 0.01 * seed for seed, value in splits.items()}
    assert paired_verdict(better, splits) == "win" and paired_verdict(splits, better) == "loss"
    assert (
        verdict(*(Number(float(np.mean([*v.values()])), float(np.std([*v.values()]))) for v in (better, splits)))
        == "tie"
    )
    assert paired_verdict(better, {0: 1.0}) == "untested" and paired_verdict(splits, splits) == "tie"


def test_blocks_are_kept_apart_and_named(tmp_path: Path, published: Path) -> None:
    split = {"evaluate": {"split": "protocol"}}
    rows = [row(spec="tuned:0", seed=s, settings=split, metrics={"accuracy": 74.0 + s / 10}) for s in range(10)]
    rows += [row(spec="tuned:0", method="DGI", seed=s, settings=split, metrics={"accuracy": 71.0}) for s in range(10)]
    rows += [row(spec="defaults:0", seed=s, metrics={"accuracy": 72.0}, defaults={}) for s in range(3)]
    rows += [row(seed=s, metrics={"accuracy": 99.0}) for s in range(3)]
    text = report(written(tmp_path, rows), published=published)
    assert "- (a) DMAT-i with the paper's table" in text and text.count("**No rows yet.**") == 2  # a and d
    lines: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("| ("):
            lines.setdefault(line.split(" | ")[0].removeprefix("| "), line)
    assert list(lines) == ["(b) DMAT-i, tuned with labels", "(b) DGI, tuned with labels", "(c) DMAT-i"]
    assert "1 win, 0 ties, 0 losses | 1 win, 0 ties, 0 losses |" not in lines["(b) DMAT-i, tuned with labels"]
    assert lines["(b) DGI, tuned with labels"].endswith("| 1 win, 0 ties, 0 losses |")
    assert "(c) DMAT-i: Cora 3" in text
    assert (
        "not run" in lines["(b) DGI, tuned with labels"].split(" | ")[1]
        and " - " not in lines["(b) DGI, tuned with labels"]
    )  # ACM


def test_a_second_line_of_ours_stands_beside_the_first_and_judges_too(tmp_path: Path, published: Path) -> None:
    split = {"evaluate": {"split": "protocol"}}

    def runs(spec: str, first: float, method: str = "DMAT-i") -> list[dict[str, Any]]:
        return [
            row(spec=spec, method=method, seed=s, settings=split, metrics={"accuracy": first + s / 10})
            for s in range(10)
        ]

    rows = [*runs("tuned:0", 70.0), *runs("tuned-start:0", 74.0), *runs("tuned:0", 72.0, "DGI")]
    text = report(written(tmp_path, rows), published=published)
    assert "| (b) DMAT-i against it | (b) DMAT-i from its filter against it |" in text
    second = next(line for line in text.splitlines() if line.startswith("| (b) DMAT-i from its filter, tuned with"))
    rival = next(line for line in text.splitlines() if line.startswith("| (b) DGI"))
    assert second.endswith("| 0 wins, 0 ties, 1 loss |  |")
    assert rival.endswith("| 0 wins, 0 ties, 1 loss | 1 win, 0 ties, 0 losses |")
    assert "## Tuned by the protocol: DMAT-i from its filter" in text


STOPPED = "TimeoutError: stopped after 60 s with 4% of train done: about 50 minutes of CPU time a fit"


def test_a_cell_without_a_number_says_why(tmp_path: Path, published: Path) -> None:
    rows = [row(spec="released:0", method="AGE", metrics={}, error=STOPPED)]
    rows += [
        row(
            spec="released:0",
            method="GCA",
            metrics={},
            error="InputError: GCA needs about 39.1 GB, above 9 GB (x). Y",
        )
    ]
    rows += [row("acm", spec="released:0", method="GCA", seed=s) for s in range(3)]
    rows += [row("acm", spec="released:0", task="links", method="GCA", metrics={"auc": 90.0})]
    rows += [row(task="convergence", spec="convergence:0", metrics={"convergence_seconds": 3.0})]
    more = PUBLISHED + "links,acm,AGE,all,auc,1,1,\nlinks,cora,AGE,all,auc,1,1,\n"
    more += "convergence,cora,AGE,all,convergence_seconds,9,1,\n"
    (published / "all.csv").write_text(more)
    text = report(written(tmp_path, rows), published=published)
    clusters = text.partition("### Clusters")[2].partition("### ")[0]
    assert "4 runs, 2 more that ended without a result; minutes" in text
    age, gca = (line for line in clusters.splitlines() if line.startswith("- (d) "))
    assert "; Cora: stopped after 60 s with 4% of train done: about 50 minutes of CPU time a fit." in age
    assert "; Cora: GCA needs about 39.1 GB, above 9 GB (x)." in gca and "ACM" not in gca
    links = text.partition("### Links")[2].partition("## ")[0]
    assert "; Cora: as for clusters: stopped after 60 s" in links and "- (d) AGE: ACM, DBLP, " in links
    assert "; Cora: as for clusters: GCA needs" in links
    assert (
        "Of the 2 cells that the paper has here for its rivals: 0 filled with 10 seeds, 0 with fewer, 1 with a "
        in links
    )
    assert "time limit (76.80)" in text
    convergence = text.partition("## Convergence")[2]
    assert (
        "| AGE | time limit (9.00) |" in convergence
        and "as for block (d), clusters: stopped after 60 s" in convergence
    )


def test_a_note_says_why_a_cell_is_empty_and_a_cost_comes_before_it(tmp_path: Path, published: Path) -> None:
    notes = tmp_path / "notes.toml"
    notes.write_text('[[notes]]\nspec = "released"\ndataset = "acm"\nempty = "No time."\n')
    rows = [row(spec="released:0", method="GCA", seconds={"load": 9.0, "train": 40.0, "evaluate": 9.0})]
    rows += [row(spec="released:0", task="links", method="AGC", metrics={"auc": 9.0})]
    text = report(written(tmp_path, rows), published=published, notes=notes).partition("### Links")[2]
    line = next(line for line in text.splitlines() if line.startswith("- (d) GCA: ACM: No time; "))
    assert "; Cora: not run; a fit for clusters took 40 s on a CPU." in line


def test_rivals_with_one_setting_for_all_graphs_stand_for_block_c(tmp_path: Path, published: Path) -> None:
    graphs = ("acm", "dblp", "cora", "citeseer", "pubmed", "amazon-photo", "coauthor-cs", "coauthor-phy")
    rows = [row(g, spec="released:0", method="AGC") for g in graphs]
    rows += [row(g, spec="released:0", method="GCA", settings={"lr": i}) for i, g in enumerate(graphs)]
    text = report(written(tmp_path, rows), published=published)
    assert "| (d = c) AGC |" in text and "| (d) GCA |" in text


def test_k_means_on_the_vectors_stands_beside_a_methods_own_clusters(tmp_path: Path) -> None:
    own: dict[str, Any] = {"spec": "defaults:0", "method": "SelfDMAT", "kmeans_on_vectors": {"accuracy": 68.5}}
    text = report(written(tmp_path, [row(**own), row(spec="tuned:0")]))
    assert "What is scored: for the methods below" in text
    assert "| (c) SelfDMAT |  |  | 68.50 (-1.50) |" in text and "| (b) DMAT-i, tuned with labels |  |" not in text


def test_the_report_says_which_rivals_were_tuned_and_what_the_others_cost(tmp_path: Path) -> None:
    rows = [row(spec="tuned:0", method="DGI"), row("acm", spec="tuned:0", method="DGI"), row(spec="tuned:0")]
    rows += [row(g, spec="released:0", method="GCA", seconds={"train": 30.0}) for g in ("cora", "acm")]
    text = report(written(tmp_path, rows))
    assert (
        "- clusters: tuned on the same budget as DMAT-i: DGI on 2 graphs. Not tuned: GCA (40 minutes, 2 graphs)."
        in text
    )
    assert "- links: tuned on the same budget as DMAT-i: no rival. Not tuned: GCA (none measured)." in text


def ablation_rows() -> list[dict[str, Any]]:
    settings = [{}, {"alpha": 0.3}, {"max_steps": 1}, {"max_steps": 1000}]
    settings += [{"filter": {"weights": {"family": "custom", "values": [1.0]}}}]
    shared: dict[str, Any] = {"spec": "ablations:0", "defaults": {"alpha": 0.15, "max_steps": None}}
    return [
        row(dataset, seed=s, settings=given, metrics={"accuracy": 60.0 + 2 * i + s}, **shared)
        for dataset in ("cora", "acm")
        for i, given in enumerate(settings)
        for s in range(2)
    ]


def test_ablations_show_one_change_a_line_against_the_defaults(tmp_path: Path) -> None:
    rows = [*ablation_rows(), row(method="FilterSVD", spec="defaults:0", metrics={"accuracy": 61.0}, defaults={})]
    text = report(written(tmp_path, rows), figures="images")
    assert (
        "## One setting changed" in text
        and "means of 2 seeds" in text
        and "| defaults | 60.50 | 60.50 | 60.50 |" in text
    )
    assert "| alpha = 0.3 | 62.50 (+2.00) | 62.50 (+2.00) | 62.50 (+2.00) |" in text
    assert "| filter: none | 68.50 (+8.00) | 68.50 (+8.00) | 68.50 (+8.00) |" in text
    assert "](images/ablations.png)" in text and "](images/steps.png)" in text
    found = draw_figures(tmp_path / "rows.jsonl", tmp_path / "figures", cora_map=False)
    assert {"ablations.png", "steps.png"} <= {path.name for path in found}


def test_training_stands_beside_its_filter_with_a_test(tmp_path: Path) -> None:
    def after(steps: int, mean: float) -> list[dict[str, Any]]:
        what: dict[str, Any] = {"spec": "ablations:0", "settings": {"max_steps": steps}}
        return [row(seed=s, metrics={"accuracy": mean + s / 10}, **what) for s in range(3)]

    base: dict[str, Any] = {"method": "FilterSVD", "spec": "defaults:0", "defaults": {}}
    rows = [*ablation_rows(), *after(3, 58.0), *after(30, 68.0)]
    rows += [row(seed=s, metrics={"accuracy": 63.0 + s / 10}, **base) for s in range(3)]
    text = report(written(tmp_path, rows)).partition("## Does training beat its own filter?")[2]
    assert "| graph | FilterSVD | 1 step | 3 steps | 30 steps | 150 steps | 1000 steps |" in text
    assert "| Cora | 63.10 | 64.50 = | 58.10 ▼ | **68.10** | 60.50 = | 66.50 = |" in text
    assert "With the defaults against FilterSVD: 0 wins, 1 tie, 0 losses." in text


def test_labels_in_an_ablation_are_named(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"task": "classification", "usage": "train", "spec": "ablations-labels:0"}
    rows = [row(**{**shared, "spec": "ablations:0", "usage": "all"}), row(method="DMAT", **shared), row(**shared)]
    text = report(written(tmp_path, rows))
    assert "| DMAT on the training nodes, labels of the training nodes | 70.00 (+0.00) |" in text
    assert "| DMAT-i on the training nodes, no labels | 70.00 (+0.00) |" in text


def test_a_page_of_ablations_is_renewed_and_linked(tmp_path: Path) -> None:
    rows, page = written(tmp_path, [*ablation_rows(), row()]), tmp_path / "page.md"
    page.write_text("# Ablations\n\n<!-- ablations:start -->\nold\n<!-- ablations:end -->\n\nend\n")
    assert update_ablations(page, rows, figures="images") and not update_ablations(page, rows, figures="images")
    text = page.read_text()
    assert text.startswith("# Ablations\n") and text.endswith("\n\nend\n") and "old" not in text
    assert "## One setting changed" in text and "![steps.png](images/steps.png)" in text
    linked = report(rows, ablations="page.md")
    assert "[ablations](page.md)" in linked and "One setting changed" not in linked


def test_sensitivity_is_the_mean_over_the_trials_with_a_value() -> None:
    trials = [
        row(
            graph,
            seed=100,
            spec="tuned:0",
            settings={"alpha": a, "lr": lr, "r": 1},
            metrics={"val_accuracy": base + 4 * (a > 0.2) + lr},
        )
        for graph, base in (("cora", 50.0), ("acm", 80.0))
        for a in (0.1, 0.3)
        for lr in (0, 1)
    ]
    unlike = {"settings": {"alpha": 9}, "metrics": {"val_accuracy": 0.0}}  # a finalist's seed, another line's trial
    other = [row(seed=101, spec="tuned:0", **unlike), row(seed=100, spec="tuned-start:0", **unlike)]
    found = effects([*trials, *other, row(metrics={"accuracy": 1.0})], "clustering", "DMAT-i", "tuned")
    assert set(found) == {"alpha", "lr"}  # r has one value
    assert {v: mean for v, (mean, _, _) in found["alpha"].items()} == pytest.approx({"0.1": -2.0, "0.3": 2.0})
    assert {v: n for v, (_, _, n) in found["lr"].items()} == {"0": 4, "1": 4}
    assert found["lr"]["1"][:2] == pytest.approx((0.5, np.std([2.5, -1.5] * 2, ddof=1) / 2))


def test_ranks_and_their_critical_difference() -> None:
    scores = np.array([[90.0, 80.0, 70.0]] * 8)
    assert mean_ranks(scores).tolist() == [1.0, 2.0, 3.0]
    assert critical_difference(3, 8) == pytest.approx(2.343 * (12 / 48) ** 0.5, rel=1e-3)  # q of Demsar's table
    assert cliques([1.0, 2.0, 3.0], 1.2) == [(1.0, 2.0), (2.0, 3.0)] and cliques([1.0, 3.0], 1.0) == []


def test_conductance_of_acm_is_compared_with_self_loops(published: Path) -> None:
    rows = [row("acm", metrics={"conductance": 9.0, "conductance_self_loops": 6.5})]
    c = Comparison(group_rows(rows), read_published(published))
    assert c.ours("acm", "DMAT-i", "all", "conductance") == Number(6.5, 0.0, n=1)


def test_the_report_names_counts_shortfalls_reasons_and_failures(tmp_path: Path, published: Path) -> None:
    rows = [row(seed=s, metrics={"accuracy": 67.0 + s / 10, "nmi": 56.0 + s / 10}) for s in range(5)]
    rows += [row("acm", seed=s, metrics={"accuracy": 93.0 + s / 10}) for s in range(5)]
    rows += [row(method="GCA", metrics={}, error="MemoryError: needs 90 GB")]
    notes = tmp_path / "notes.toml"
    notes.write_text(
        '[[notes]]\ntask = "clustering"\ntext = "vague"\n'
        '[[notes]]\ntask = "clustering"\ndataset = "cora"\ntext = "Too few steps."\n'
        '[[notes]]\nspec = "tuned"\ntask = "clustering"\ndataset = "cora"\ntext = "Of another block."\n'
    )
    text = report(written(tmp_path, rows), published=published, notes=notes)
    assert "| Cora | 67.20 ±0.14 (70.57, -3.37 ▼) | **56.20** ±0.14 (53.59, +2.61)" in text
    assert "accuracy against the paper's DMAT-i: 1 win, 0 ties, 1 loss" in text
    assert "- Cora, DMAT-i: accuracy -3.37. Too few steps." in text
    assert "- Cora, GCA: MemoryError: needs 90 GB" in text
    assert "Commit: c0ffee" in text


def test_a_released_fit_that_took_too_long_is_no_reason_for_a_tuned_one() -> None:
    slow = row(method="GCA", spec="released:0", metrics={}, error="TimeoutError: stopped after 9 s")
    reasons = Reasons(group_rows([slow, row(method="GCA", spec="tuned:0", metrics={"accuracy": 1.0})]))
    assert reasons.of("one-setting", "links", "cora", "GCA").text == "as for block (d), clusters: stopped after 9 s"
    tuned = reasons.of("tuned", "links", "cora", "GCA")
    assert tuned.text.startswith("not run; a fit for clusters took") and not tuned.measured
    assert reasons.of("tuned", "links", "acm", "GCA").text == "not run"


def test_block_a_is_named_by_what_was_changed_and_one_method_has_one_table(tmp_path: Path) -> None:
    text = report(written(tmp_path, [row(spec="printed-adam:0"), row(spec="as-printed:0")]))
    assert "## The paper's settings as printed (block a)" in text
    assert "## The paper's settings as printed, with unit rows and Adam (block a)" in text
    assert "every method" not in text
    both = report(written(tmp_path, [row(spec="released:0"), row(spec="released:0", method="GCA")]))
    assert "**accuracy, every method**" in both


def test_the_tasks_of_one_spec_get_a_section_each(tmp_path: Path) -> None:
    rows = [row(spec="defaults:0"), row(spec="defaults:0", task="links", metrics={"auc": 90.0, "ap": 90.0})]
    text = report(written(tmp_path, rows))
    assert "## One setting for every graph: clustering" in text
    assert "## One setting for every graph: link prediction" in text


def test_a_report_of_no_rows_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tuplet bench run"):
        report(tmp_path / "none.jsonl")


def test_classification_links_and_studies_have_their_sections(tmp_path: Path, published: Path) -> None:
    rows = [row(task="classification", spec="classification:0", usage="train", method="DMT")]
    rows += [row(task="links", spec="links:0", seed=s, metrics={"auc": 95.0, "ap": 95.0}) for s in range(2)]
    rows += [row(task="tau0", spec="tau0:0", metrics={"q1": 1.0, "median": 2.0, "q3": 5.0})]
    rows += [row(task="hardness", spec="hardness:0", metrics={"mean_features": 0.1, "hard_features": 5.0})]
    rows += [row(task="convergence", spec="convergence:0", metrics={"convergence_seconds": 3.0})]
    text = report(written(tmp_path, rows), published=published)
    for title in ("## Classification", "## Link prediction", "## tau0", "## Hardness", "## Convergence"):
        assert title in text
    assert "| DMT (training nodes) | 70.00 ±0.00 |" in text
    assert "**95.00** ±0.00 (92.62, +2.38)" in text
    assert "- DMAT-i against the paper's: 1 win, 0 ties, 0 losses" in text


def scale_row(n: int, seconds: float, method: str = "DMAT-i", **changes: Any) -> dict[str, Any]:
    facts = {"nodes": n, "stored_edges": 40 * n, "total_seconds": seconds, "peak_mb": 200.0, "disk_mb": 0.0}
    return row(f"rmat-{n}", method, task="scale", spec="scalability:0", metrics=facts, **changes)


def test_the_ladder_states_its_slope_and_where_a_method_stops(tmp_path: Path) -> None:
    rows = [scale_row(n, n / 1000) for n in (10_000, 100_000, 1_000_000)]
    rows += [scale_row(10_000, 50, "GCA"), scale_row(100_000, 0, "GCA", error="MemoryError: 80 GB")]
    rows[-1]["metrics"] = {}
    text = report(written(tmp_path, rows))
    assert "slope of log seconds against log nodes: 1.00" in text
    assert "stops at rmat-100000: MemoryError: 80 GB" in text
    assert scale_stops(group_rows(rows)) == {"GCA": (100_000, "out of memory")}


def test_an_exponent_is_the_slope_over_one_size_with_the_others_fixed() -> None:
    def point(n: int, f: int) -> dict[str, Any]:
        facts = {"n": n, "e": 10, "f": f, "b": 512, "step_ms": 3.0 * f, "train_mb": 7.0}
        return row(f"rmat:n={n},e=10,f={f},b=512", task="complexity", metrics=facts)

    groups = group_rows([point(1000, 64), point(2000, 64), point(4000, 64), point(1000, 128), point(1000, 256)])
    assert exponent(groups, "f", "step_ms") == pytest.approx(1.0)
    assert exponent(groups, "n", "step_ms") == pytest.approx(0.0)
    assert exponent(groups, "b", "step_ms") is None


def test_the_readme_table_goes_between_its_markers(tmp_path: Path, published: Path) -> None:
    ours = {"spec": "defaults:0", "method": "SelfDMAT"}
    entries = [row(spec="tuned:0", seed=s, metrics={"accuracy": 70.1}) for s in range(3)]
    entries += [row(spec="defaults:0", metrics={"accuracy": 1.0}), row(metrics={"accuracy": 99.0})]
    entries += [
        *[row(**ours, seed=s, metrics={"accuracy": 74.0}) for s in range(3)],
        row(**ours, dataset="blocks-even", metrics={"accuracy": 9.0}),
    ]
    rows = written(tmp_path, entries)
    table = readme_table(rows, published=published)
    assert table.splitlines() == [
        "| graph | clusters: SelfDMAT | clusters: DMAT-i, tuned with labels | clusters: paper, tuned |",
        "|---|--:|--:|--:|",
        "| Cora | **74.0** | 70.1 | 70.6 |",
    ]
    readme = tmp_path / "README.md"
    readme.write_text(f"head\n{START}\nold\n{END}\ntail\n")
    assert update_readme(readme, rows, published=published)
    assert readme.read_text() == f"head\n{START}\n{table}\n{END}\ntail\n"
    assert not update_readme(readme, rows, published=published)
    readme.write_text("no markers")
    with pytest.raises(InputError, match="results:start"):
        update_readme(readme, rows, published=published)


def test_defaults_stand_side_by_side_with_their_means(tmp_path: Path, published: Path) -> None:
    entries = [
        row(spec="defaults:0", method=method, dataset=dataset, metrics={"accuracy": value, "nmi": 1.0, "ari": 2.0})
        for method, values in {"FilterSVD": (60.0, 70.0, 5.0), "SelfDMAT": (71.0, 90.0, 6.0)}.items()
        for dataset, value in zip(("cora", "acm", "blocks-even"), values)
    ]
    for entry in entries[:-1]:
        entry["defaults"] = {}
    entries[3]["kmeans_on_vectors"] = {"accuracy": 69.0}
    text = report(written(tmp_path, entries), published=published)
    assert "| Cora | 60.00 ±0.00 | 71.00 ±0.00 | 70.57 |" in text
    assert "| Blocks-even | 5.00 ±0.00 | 6.00 ±0.00† |  |" in text and "fall short" not in text
    assert "† made by version 0.1" in text
    assert "| graph | SelfDMAT | paper's DMAT-i, tuned |" in text and "| Cora | 69.00 ±0.00 | 70.57 |" in text
    assert "| mean | 65.00 | 80.50 | 81.08 |" in text  # of Cora and ACM


def test_the_published_tables_of_the_repository_are_found_and_whole() -> None:
    assert find_published() is not None
    numbers = read_published()
    assert numbers["clustering", "cora", "DMAT-i", "all", "accuracy"].mean == 70.57
    assert numbers["links", "coauthor-phy", "SSGC", "all", "auc"].mean == 96.57
    assert numbers["classification", "dblp", "DMT", "train", "accuracy"].mean == 77.59
    assert numbers["tau0", "acm", "DMAT-i", "all", "median"].mean == 11.67
    assert numbers["clustering", "dblp", "AGE", "all", "accuracy"].note


def test_figures_are_drawn_from_rows(tmp_path: Path) -> None:
    series = {"steps": [1, 10], "seconds": [0.1, 1.0], "accuracy": [50.0, 80.0], "nmi": [20.0, 60.0]}
    rows = [row(task="convergence", series=series, metrics={"convergence_seconds": 2.0, "accuracy": 80.0})]
    rows += [row(task="convergence", method="AGE", metrics={"convergence_seconds": 9.0, "accuracy": 81.0})]
    rows += [row(task="tau0", metrics={"median": 2.0}, series={"edges": [1, 2, 4], "counts": [3, 5]})]
    shapes = {"edges": [-1.0, 0.0, 1.0], "features": [0.5, 0.5], "filtered": [0.2, 0.8], "vectors": [0.9, 0.1]}
    rows += [row(task="hardness", metrics={"mean_features": 0.0}, series=shapes)]
    rows += [scale_row(10_000, 1.0), scale_row(100_000, 10.0)]
    path = written(tmp_path, rows)
    found = draw_figures(path, tmp_path / "figures", cora_map=False)
    names = ["convergence-cora.png", "tau0.png", "hardness.png", "time-against-nodes.png"]
    assert [path.name for path in found] == names
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in found)
    text = report(path, figures="images")
    assert all(f"](images/{name})" in text for name in names)


def test_the_live_table_shows_means_counts_and_time_left() -> None:
    from rich.console import Console

    live = LiveTable()
    live.on_row(row(metrics={"accuracy": 70.0}))
    live.on_row(row(seed=1, metrics={"accuracy": 72.0}))
    live.on_row(row(task="classification", metrics={"accuracy": 90.0}))
    live.on_row(row(task="links", metrics={"auc": 97.0}))
    job = Job("clustering", "acm", "DMAT-i", "all", 0, {})
    state = RunState(total=5, skipped=1, done=2, running={job.key: job}, open_jobs={"acm DMAT-i": 2})
    state.seconds = {"cora DMAT-i": [1.0, 1.0]}
    live.on_state(state)
    console = Console(width=120, file=io.StringIO())
    console.print(live.table())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "3 of 5 jobs" in text and "about 2 s left" in text and "now: acm DMAT-i 0" in text
    assert all(part in text for part in ("accuracy 71.00", "accuracy 90.00", "auc 97.00"))
