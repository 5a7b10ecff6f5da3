"""Rows -> Markdown: one section a spec, our numbers beside the published ones, counts, what falls short and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tuplet._check import InputError
from tuplet.bench.report.ablations import ablations_section, is_ablation
from tuplet.bench.report.blocks import blocks_section
from tuplet.bench.report.defaults import defaults_section
from tuplet.bench.report.figures import ablation_figures, figure_names, rank_figures
from tuplet.bench.report.legend import BLOCKS
from tuplet.bench.report.published import Cell, Number, find_published, read_published
from tuplet.bench.report.readme import put_between
from tuplet.bench.report.reasons import RIVALS, Reason, Reasons, coverage, reason_lines
from tuplet.bench.report.sections import (
    classification_section,
    clustering_section,
    complexity_section,
    convergence_section,
    hardness_section,
    links_section,
    scale_section,
    tau0_section,
    theory_section,
)
from tuplet.bench.report.sensitivity import sensitivity_section
from tuplet.bench.report.statistics import LOSS, verdict
from tuplet.bench.report.tables import Comparison, Group, group_rows
from tuplet.bench.rows import Row, read_rows
from tuplet.bench.toml_file import check_kind, read_toml
from tuplet.metrics import LABEL_SCORES
from tuplet.models.registry import own_methods
from tuplet.plots import dataset_title

TITLES = {
    "links": "Link prediction",
    "tuned": "Tuned by the protocol",
    "tuned-start": "Tuned by the protocol: DMAT-i from its filter",
    "tuned-labels": "Tuned by the protocol: training nodes only",
    "as-printed": "The paper's settings as printed",
    "released": "Rivals as released",
    "one-setting": "Rivals with one setting for every graph",
    "one-setting-s2cag": "S2CAG with one setting for every graph",
    "defaults": "One setting for every graph",
    "tau0": "tau0 (Eq. 8)",
    "scalability": "Scale ladder",
    "laptop": "Scale: ten million nodes on two cores",
    "gpu": "Scale: one GPU box",
    "rivals": "Scale: methods that fit in one piece",
}
METRICS = {"convergence": "convergence_seconds"}
SECTIONS: Mapping[str, Callable[[Comparison, Sequence[Group]], list[str]]] = {
    "clustering": clustering_section,
    "classification": classification_section,
    "links": links_section,
    "convergence": convergence_section,
    "tau0": tau0_section,
    "hardness": hardness_section,
    "theory": theory_section,
    "complexity": complexity_section,
    "scale": scale_section,
}


def report(
    rows: str | Path | Iterable[str | Path],
    *,
    published: str | Path | None = None,
    notes: str | Path | None = None,
    figures: str | None = None,
    ablations: str | None = None,
    title: str = "Results",
) -> str:
    """The Markdown report of one or several files of rows.

    `published` is the folder of the paper's CSV files, `notes` a TOML file with reasons for what falls short
    or has no number ([[notes]] with any of spec, task, dataset, method, and text or empty); both are found in the
    repository around the working folder.
    `figures` is where `draw_figures` puts its files, as the report should link to it, such as "images". Sensitivity
    and ablations are left to the page that `ablations` links to, if it is given.
    """
    found = read_rows(rows)
    if not found:
        raise InputError(f"There are no rows in {rows}. Run `tuplet bench run SPEC --out {rows}` first.")
    numbers, reasons = read_published(published), read_notes(notes)
    parts = [f"# {title}", _legend()]
    everything = group_rows(row for row in found if not is_ablation(row))
    why = Reasons(everything, reasons)
    parts += blocks_section(everything, numbers, found, why)
    parts += [f"![{name}]({figures}/{name})" for name in rank_figures(everything) if figures]
    if ablations is None:
        parts += ablation_parts(found, figures)
    else:
        parts.append(f"What each setting does, and whether training beats its own filter: [ablations]({ablations}).")
    by_spec = _by_spec(everything)
    drawn: set[str] = set()  # several specs of one task share a figure
    for (spec, task), groups in by_spec.items():
        several = sum(name == spec for name, _ in by_spec) > 1
        parts += _section(_title(spec, task if several else ""), groups, numbers, reasons, why)
        names = [name for name in figure_names(groups) if figures and name not in drawn]
        parts += [f"![{task}]({figures}/{name})" for name in names]
        drawn.update(names)
    return "\n\n".join(parts).rstrip() + "\n"


def ablation_parts(rows: Sequence[Row], figures: str | None = None) -> list[str]:
    """Sensitivity from the trials, one setting changed at a time, training against its filter; with the figures."""
    pictures = [f"![{name}]({figures}/{name})" for name in ablation_figures(rows) if figures]
    return [*sensitivity_section(rows), *ablations_section(rows), *pictures]


def update_ablations(
    file: str | Path, rows: str | Path | Iterable[str | Path], *, figures: str | None = None
) -> bool:
    """Put what `report` would say of ablations between the markers of `file`; True if that changed it."""
    parts = ablation_parts(read_rows(rows), figures)
    text = "\n" + "\n\n".join(parts) + "\n"
    return put_between(file, text, "<!-- ablations:start -->", "<!-- ablations:end -->")


def _title(spec: str, task: str) -> str:
    letter, changed = BLOCKS.get(spec, ("", ""))
    title = TITLES["as-printed"] + changed if letter == "a" else TITLES.get(spec, spec.capitalize())
    block = f" (block {letter})" if letter else ""
    return (f"{title}: {TITLES.get(task, task).lower()}" if task else title) + block


def _section(
    title: str, groups: list[Group], numbers: Mapping[Cell, Number], reasons: list[dict[str, str]], why: Reasons
) -> list[str]:
    spec, task = groups[0].spec, groups[0].task
    comparison = Comparison(
        groups,
        numbers,
        empty=lambda dataset, method, usage: why.of(spec, task, dataset, method, usage).word,
        rivals=spec in (RIVALS, "convergence"),
    )
    if groups[0].spec == "defaults":
        body = defaults_section(comparison, groups)
    else:
        body = SECTIONS[groups[0].task](comparison, groups) + _shortfalls(comparison, groups[0].spec, reasons)
    if task == "convergence":
        body += _empty_cells(comparison, spec, why, numbers)
    ended = [] if spec in BLOCKS or task == "convergence" else _failures(groups)  # the blocks' stand above
    return [f"## {title}", _facts(groups), *body, *ended]


def _empty_cells(c: Comparison, spec: str, why: Reasons, numbers: Mapping[Cell, Number]) -> list[str]:
    """How many of the paper's cells are filled, and why the others are not."""
    found: dict[str, dict[str, Reason]] = {}
    for method, usage in c.methods:
        for dataset in c.datasets:
            group = c.groups.get((dataset, method, usage))
            if (group is None or not group.runs) and c.paper(dataset, method, usage, METRICS[c.task]) is not None:
                found.setdefault(method, {})[dataset_title(dataset)] = why.of(spec, c.task, dataset, method, usage)
    counted = coverage(c.task, METRICS[c.task], spec, why, numbers, ours=True)
    return [part for part in (counted, reason_lines(found)) if part]


def _by_spec(groups: Sequence[Group]) -> dict[tuple[str, str], list[Group]]:
    found: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        found.setdefault((group.spec, group.task), []).append(group)
    return found


def _legend() -> str:
    return (
        "Generated by `tuplet bench report`; no number here is typed. A cell reads: our mean over the seeds, "
        "± its standard deviation, and in brackets the paper's mean and the difference. By Welch's test at 5% over "
        "the seeds: bold a win over the paper's number, = a tie, ▼ a loss; ? a single run, not tested. *: the paper "
        "says that the method did not converge. Words in place of a number (time limit, out of memory, not run) are "
        "explained below the first table that has them. Percent unless said otherwise. What may be tuned, and on "
        "what: [protocol](protocol.md)."
    )


def _facts(groups: Sequence[Group]) -> str:
    rows = [row for group in groups for row in group.rows]
    runs = sorted({group.runs for group in groups if group.runs})
    counts = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}" if runs else "no"
    machines = ", ".join(sorted({row["machine"] for row in rows}))
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    return f"{counts} runs a cell. Machine: {machines}. Commit: {commits}."


def _shortfalls(comparison: Comparison, spec: str, reasons: list[dict[str, str]]) -> list[str]:
    """Our own methods' cells below the paper's, with the reason where the notes give one."""
    lines = []
    for dataset in comparison.datasets:
        for method, usage in comparison.methods:
            if method not in own_methods():
                continue
            short = []
            for metric in (*LABEL_SCORES, "auc", "ap"):
                ours, paper = (f(dataset, method, usage, metric) for f in (comparison.ours, comparison.paper))
                if ours is not None and paper is not None and verdict(ours, paper, metric) == LOSS:
                    short.append(f"{metric} {ours.mean - paper.mean:+.2f}")
            if short:
                why = _reason(reasons, spec=spec, task=comparison.task, dataset=dataset, method=method)
                name = f"{dataset_title(dataset)}, {method}" + (" on the training nodes" if usage == "train" else "")
                lines.append(f"- {name}: {', '.join(short)}. {why}".rstrip())
    return ["**Where we fall short**", "\n".join(lines)] if lines else []


def _reason(reasons: list[dict[str, str]], **wanted: str) -> str:
    texts = [r for r in reasons if "text" in r]
    fits = [r for r in texts if all(r.get(key, value) == value for key, value in wanted.items())]
    return max(fits, key=len)["text"] if fits else ""


def _failures(groups: Sequence[Group]) -> list[str]:
    failed = [g for g in groups if g.error]
    lines = [f"- {dataset_title(g.dataset)}, {g.method}: {g.error}" for g in failed]
    return ["**Runs that failed**", "\n".join(lines)] if lines else []


def read_notes(file: str | Path | None = None) -> list[dict[str, str]]:
    """The reasons in `file`, or in notes.toml beside the published numbers' folder; none where there is no file."""
    place = Path(file) if file is not None else _default_notes()
    if place is None or not place.is_file():
        return []
    entries = check_kind(f"{place.name}: notes", read_toml(place)[0].get("notes", []), list, "[[notes]]")
    for entry in entries:
        check_kind(f"an entry of {place.name}: notes", entry, dict, "[[notes]]")
        text = entry.get("text", entry.get("empty"))  # why a number is lower, or why a cell has none
        check_kind(f"{place.name}: text", text, str, 'text = "why"')
    return entries


def _default_notes() -> Path | None:
    folder = find_published()
    return None if folder is None else folder.parent / "notes.toml"
