"""Why a cell has no number: what stopped its run, or a run of the same method on the same graph in another task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tuplet.bench.report.published import Cell, Number
from tuplet.bench.report.tables import Group
from tuplet.models.registry import own_methods

RIVALS = "released"  # the spec whose runs stand for a rival where another spec has none
_SEARCHED = "tuned"  # whose settings are shorter ones: how long a released fit takes says nothing of theirs
WHERE = {"clustering": "clusters", "classification": "classes", "links": "links", "convergence": "convergence"}
SEEDS = {"convergence": 5}  # else ten


@dataclass(frozen=True)
class Reason:
    """`word` stands in the cell, `text` below the table; `measured` is False where nothing was run."""

    word: str
    text: str
    measured: bool = True


class Reasons:
    """Looks reasons up among the groups of all specs, then among the notes on empty cells."""

    def __init__(self, groups: Iterable[Group], notes: Sequence[Mapping[str, str]] = ()) -> None:
        self.groups = {(g.spec, g.task, g.dataset, g.method, g.usage): g for g in groups}
        self.notes = [note for note in notes if "empty" in note]

    def of(self, spec: str, task: str, dataset: str, method: str, usage: str = "all") -> Reason:
        """The reason for a cell without a number: its own run's, that of a fit of the same method on the same graph,
        a note's, or that it was not run.
        """
        released = () if spec == _SEARCHED else ((RIVALS, "clustering"),)
        for place in dict.fromkeys(((spec, task), (spec, "clustering"), *released)):
            group = self.groups.get((*place, dataset, method, usage))
            if group is not None and group.error and not group.runs:
                return Reason(short_reason(group.error), _behind(place, (spec, task)) + _plain(group.error))
        for place in ((spec, "clustering"), *released):
            group = self.groups.get((*place, dataset, method, usage))
            if group is not None and group.runs:
                return Reason("not run", f"not run; {_cost(group)}", measured=False)
        return Reason("not run", self._note(spec, task, dataset, method), measured=False)

    def _note(self, spec: str, task: str, dataset: str, method: str) -> str:
        wanted = {"spec": spec, "task": task, "dataset": dataset, "method": method}
        fits = [note for note in self.notes if all(note.get(key, value) == value for key, value in wanted.items())]
        return max(fits, key=len)["empty"].rstrip(".") if fits else "not run"


def short_reason(error: str) -> str:
    """ "out of memory", "time limit" or the first words of the error.

    >>> short_reason("MemoryError: needs 120 GB"), short_reason("TimeoutError: stopped after 9 s")
    ('out of memory', 'time limit')
    """
    text = error.lower()
    if "memory" in text or "killed" in text or "needs about" in text:
        return "out of memory"
    return "time limit" if "timeout" in text else error[:30]


def _behind(place: tuple[str, str], own: tuple[str, str]) -> str:
    """Where a reason was measured, if not in the cell itself."""
    if place == own:
        return ""
    block = "block (d), " if place[0] == RIVALS != own[0] else ""
    return f"as for {block}{WHERE[place[1]]}: "


def _plain(error: str) -> str:
    """The error without the name of its class, in one line and at most its first sentence or 160 characters."""
    kind, _, text = error.partition(": ")
    text = " ".join((text if kind.isidentifier() and text else error).split())
    return text.split(". ")[0][:160].rstrip(".")


def _cost(group: Group) -> str:
    """What a fit of the group took, and on what."""
    rows = [row for row in group.rows if "error" not in row]
    spent = [sum(s for phase, s in row["seconds"].items() if phase not in ("load", "evaluate")) for row in rows]
    machine = "a GPU box" if "NVIDIA" in rows[-1]["machine"] else "a CPU"
    return f"a fit for clusters took {sum(spent) / len(spent):.0f} s on {machine}"


def reason_lines(found: Mapping[str, Mapping[str, Reason]]) -> str:
    """Title of a line -> graph -> reason, as a list; graphs with the same reason together."""
    lines = []
    for title, by_graph in found.items():
        same: dict[str, list[str]] = {}
        for graph, reason in by_graph.items():
            same.setdefault(reason.text, []).append(graph)
        lines.append(
            f"- {title}: " + "; ".join(f"{', '.join(graphs)}: {text}" for text, graphs in same.items()) + "."
        )
    return "\n".join(lines)


def coverage(
    task: str, metric: str, spec: str, reasons: Reasons, numbers: Mapping[Cell, Number], *, ours: bool = False
) -> str:
    """How many of the paper's cells of a task have all seeds, fewer, a measured reason, or were not run."""
    wanted = SEEDS.get(task, 10)
    cells = [c for c in numbers if c[0] == task and c[4] == metric and (ours or c[2] not in own_methods())]
    counts = {"whole": 0, "fewer": 0, "measured": 0, "none": 0}
    for _, dataset, method, usage, _ in cells:
        group = reasons.groups.get((spec, task, dataset, method, usage))
        runs = 0 if group is None else group.runs
        if runs:
            counts["whole" if runs >= wanted else "fewer"] += 1
        else:
            counts["measured" if reasons.of(spec, task, dataset, method, usage).measured else "none"] += 1
    if not cells:
        return ""
    whose = "" if ours else " for its rivals"
    return (
        f"Of the {len(cells)} cells that the paper has here{whose}: {counts['whole']} filled with {wanted} seeds, "
        f"{counts['fewer']} with fewer, {counts['measured']} with a measured reason, {counts['none']} not run."
    )
