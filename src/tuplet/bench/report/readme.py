"""The one table of README, between its markers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from tuplet._check import InputError
from tuplet.bench.report.published import Cell, Number, read_published
from tuplet.bench.report.tables import Comparison, group_rows, markdown_table, reaches
from tuplet.bench.rows import read_rows
from tuplet.plots import dataset_title

START, END = "<!-- results:start -->", "<!-- results:end -->"
OURS = (  # name of the column, method, the specs whose rows it shows
    ("SelfDMAT", "SelfDMAT", ("defaults",)),
    ("recipe", "DMAT-i", ("clustering", "classification", "links")),
)
Pair = tuple[float | None, float | None]  # our mean, the paper's
TASKS = {"clustering": ("clusters", "accuracy"), "classification": ("classes", "accuracy"), "links": ("links", "auc")}


def readme_table(rows: str | Path | Iterable[str | Path], *, published: str | Path | None = None) -> str:
    """The one table of README: a row a graph; for each task our two methods and the paper's tuned DMAT-i.

    Means in percent, bold where at or above the paper's; the last row has the mean of each full column.
    """
    groups = [g for g in group_rows(read_rows(rows)) if g.usage == "all"]
    numbers = read_published(published)
    columns: dict[str, dict[str, Pair]] = {}  # name -> graph -> numbers
    for task, (title, metric) in TASKS.items():
        for name, method, specs in OURS:
            mine = [g for g in groups if g.task == task and g.method == method and g.spec in specs]
            if mine:
                columns[f"{title}: {name}"] = _means(Comparison(mine, numbers), method, metric)
        if any(key.startswith(f"{title}: ") for key in columns):
            columns[f"{title}: paper"] = _published(numbers, task, metric)
    if not columns:
        raise InputError("The rows hold no results of SelfDMAT or DMAT-i on the paper's graphs.")
    return _markdown(columns, dict.fromkeys(dataset for _, dataset, *_ in numbers))


def _means(table: Comparison, method: str, metric: str) -> dict[str, Pair]:
    found: dict[str, Pair] = {}
    for dataset in table.datasets:
        ours, paper = (look(dataset, m, "all", metric) for look, m in ((table.ours, method), (table.paper, "DMAT-i")))
        if ours is not None and paper is not None:
            found[dataset] = (ours.mean, paper.mean)
    return found


def _published(numbers: Mapping[Cell, Number], task: str, metric: str) -> dict[str, Pair]:
    wanted = (task, "DMAT-i", "all", metric)
    return {d: (None, n.mean) for (t, d, m, usage, name), n in numbers.items() if (t, m, usage, name) == wanted}


def _markdown(columns: Mapping[str, Mapping[str, Pair]], known: Iterable[str]) -> str:
    ours = {dataset for name, column in columns.items() if not name.endswith("paper") for dataset in column}
    order = [dataset for dataset in known if dataset in ours]
    body = [[dataset_title(d), *(_cell(column.get(d), name) for name, column in columns.items())] for d in order]
    if len(order) > 1:
        body.append(["mean", *(_mean(column, order, name) for name, column in columns.items())])
    return markdown_table(["graph", *columns], body)


def _cell(pair: Pair | None, name: str) -> str:
    if pair is None:
        return "-"
    mine, paper = pair
    if mine is None or paper is None:
        return f"{paper:.1f}"
    text = f"{mine:.1f}"
    return f"**{text}**" if reaches(mine, paper, name) else text


def _mean(column: Mapping[str, Pair], order: Sequence[str], name: str) -> str:
    pairs = [column[d] for d in order if d in column]
    if len(pairs) < len(order):
        return "-"
    mine, paper = ([value for p in pairs if (value := p[side]) is not None] for side in (0, 1))
    return _cell((fmean(mine) if mine else None, fmean(paper) if paper else None), name)


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
