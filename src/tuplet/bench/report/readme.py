"""The short tables of README, between its markers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tuplet._check import InputError
from tuplet.bench.report.published import Cell, Number, read_published
from tuplet.bench.report.tables import Comparison, Group, cell, group_rows, markdown_table
from tuplet.bench.rows import read_rows
from tuplet.plots import dataset_title

START, END = "<!-- results:start -->", "<!-- results:end -->"
README_TABLES = (  # title, method, the specs whose rows it shows
    ("SelfDMAT, one setting for every graph", "SelfDMAT", ("defaults",)),
    ("DMAT-i with the recipe of each graph", "DMAT-i", ("clustering", "classification", "links")),
)
README_COLUMNS = {
    "clustering": ("clustering accuracy", "accuracy"),
    "classification": ("classification accuracy", "accuracy"),
    "links": ("links AUC", "auc"),
}


def readme_table(rows: str | Path | Iterable[str | Path], *, published: str | Path | None = None) -> str:
    """The short tables of README: our two methods on each graph and task, the paper's tuned DMAT-i in brackets."""
    groups = group_rows(read_rows(rows))
    numbers = read_published(published)
    parts = []
    for title, method, specs in README_TABLES:
        mine = [g for g in groups if g.spec in specs and g.method == method and g.usage == "all"]
        if mine:
            parts += [f"**{title}**", _short_table(mine, method, numbers)]
    if not parts:
        raise InputError("The rows hold no results of SelfDMAT or DMAT-i on the paper's graphs.")
    return "\n\n".join(parts)


def _short_table(groups: Sequence[Group], method: str, numbers: Mapping[Cell, Number]) -> str:
    """Graphs x tasks, one metric a task."""
    tasks = [task for task in README_COLUMNS if any(g.task == task for g in groups)]
    tables = {task: Comparison([g for g in groups if g.task == task], numbers) for task in tasks}
    known = {name: place for place, name in enumerate(dict.fromkeys(dataset for _, dataset, *_ in numbers))}
    found = {d for table in tables.values() for d in table.datasets} & known.keys()
    body = []
    for dataset in sorted(found, key=known.__getitem__):
        line = [dataset_title(dataset)]
        for task, table in tables.items():
            metric = README_COLUMNS[task][1]
            paper = table.paper(dataset, "DMAT-i", "all", metric)
            line.append(cell(table.ours(dataset, method, "all", metric), paper, metric))
        body.append(line)
    return markdown_table(["graph", *(README_COLUMNS[task][0] for task in tasks)], body)


def update_readme(
    file: str | Path, rows: str | Path | Iterable[str | Path], *, published: str | Path | None = None
) -> bool:
    """Put `readme_table(rows)` between the results markers of `file`; True if that changed it."""
    place, text = Path(file), readme_table(rows, published=published)
    old = place.read_text()
    if START not in old or END not in old:
        raise InputError(f"{place} has no {START} .. {END}. Put both lines where the table belongs.")
    head, _, rest = old.partition(START)
    new = f"{head}{START}\n{text}\n{END}{rest.partition(END)[2]}"
    if new == old:
        return False
    part = place.with_name(f".{place.name}.part")
    part.write_text(new)
    part.replace(place)
    return True
