"""The one table of README, between its markers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from tuplet._check import InputError
from tuplet.bench.report.legend import BLOCKS
from tuplet.bench.report.published import Cell, Number, read_published
from tuplet.bench.report.statistics import WIN, verdict
from tuplet.bench.report.tables import Comparison, group_rows, markdown_table
from tuplet.bench.rows import read_rows
from tuplet.models.registry import default_method
from tuplet.plots import dataset_title

START, END = "<!-- results:start -->", "<!-- results:end -->"
TUNED = default_method(recipe=True)
OURS = (  # name of the column, method, the spec whose rows it shows
    (default_method(), default_method(), "defaults"),
    (f"{TUNED}, tuned", TUNED, "tuned"),
    (f"{TUNED} from its filter, tuned", TUNED, "tuned-start"),
)
Pair = tuple[Number | None, Number | None]  # ours, the paper's
TASKS = {"clustering": ("clusters", "accuracy"), "classification": ("classes", "accuracy"), "links": ("links", "auc")}
BY = {
    "clustering": " with labels",
    "classification": " with labels",
    "links": " on edges",
}  # how settings were chosen


def readme_table(rows: str | Path | Iterable[str | Path], *, published: str | Path | None = None) -> str:
    """The one table of README: a row a graph; for each task our methods and the paper's, tuned.

    Means in percent, bold for a win against the paper's number; the last row has the mean of each full column.
    """
    groups = [g for g in group_rows(read_rows(rows)) if g.usage == "all"]
    numbers = read_published(published)
    columns: dict[str, dict[str, Pair]] = {}  # name -> graph -> numbers
    for task, (title, metric) in TASKS.items():
        for name, method, spec in OURS:
            mine = [g for g in groups if g.task == task and g.method == method and g.spec == spec]
            if mine:
                by = BY[task] if BLOCKS[spec][0] == "b" else ""
                columns[f"{title}: {name}{by}"] = _means(Comparison(mine, numbers), method, metric)
        if any(key.startswith(f"{title}: ") for key in columns):
            columns[f"{title}: paper, tuned"] = _published(numbers, task, metric)
    if not columns:
        raise InputError(f"The rows hold no results of {default_method()} or {TUNED} on the paper's graphs.")
    return _markdown(columns, dict.fromkeys(dataset for _, dataset, *_ in numbers))


def _means(table: Comparison, method: str, metric: str) -> dict[str, Pair]:
    found: dict[str, Pair] = {}
    for dataset in table.datasets:
        ours, paper = (look(dataset, m, "all", metric) for look, m in ((table.ours, method), (table.paper, TUNED)))
        if ours is not None and paper is not None:
            found[dataset] = (ours, paper)
    return found


def _published(numbers: Mapping[Cell, Number], task: str, metric: str) -> dict[str, Pair]:
    wanted = (task, TUNED, "all", metric)
    return {d: (None, n) for (t, d, m, usage, name), n in numbers.items() if (t, m, usage, name) == wanted}


def _markdown(columns: Mapping[str, Mapping[str, Pair]], known: Iterable[str]) -> str:
    ours = {dataset for name, column in columns.items() if not name.endswith(": paper, tuned") for dataset in column}
    order = [dataset for dataset in known if dataset in ours]
    body = [[dataset_title(d), *(_cell(column.get(d)) for column in columns.values())] for d in order]
    if len(order) > 1:
        body.append(["mean", *(_mean(column, order) for column in columns.values())])
    return markdown_table(["graph", *columns], body)


def _cell(pair: Pair | None) -> str:
    """Bold for a win against the paper's number; without ours, the paper's."""
    if pair is None:
        return "-"
    mine, paper = pair
    if mine is None or paper is None:
        return "-" if paper is None else f"{paper.mean:.1f}"
    return f"**{mine.mean:.1f}**" if verdict(mine, paper) == WIN else f"{mine.mean:.1f}"


def _mean(column: Mapping[str, Pair], order: Sequence[str]) -> str:
    pairs = [column[d] for d in order if d in column]
    if len(pairs) < len(order):
        return "-"
    return f"{fmean((mine or paper).mean for mine, paper in pairs if paper is not None):.1f}"


def update_readme(
    file: str | Path, rows: str | Path | Iterable[str | Path], *, published: str | Path | None = None
) -> bool:
    """Put `readme_table(rows)` between the results markers of `file`; True if that changed it."""
    return put_between(file, readme_table(rows, published=published), START, END)


def put_between(file: str | Path, text: str, start: str, end: str) -> bool:
    """Put `text` between the lines `start` and `end` of `file`; True if that changed it."""
    place = Path(file)
    old = place.read_text()
    if start not in old or end not in old:
        raise InputError(f"{place} has no {start} .. {end}. Put both lines where the table belongs.")
    head, _, rest = old.partition(start)
    new = f"{head}{start}\n{text}\n{end}{rest.partition(end)[2]}"
    if new == old:
        return False
    part = place.with_name(f".{place.name}.part")
    part.write_text(new)
    part.replace(place)
    return True
