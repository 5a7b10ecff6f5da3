"""The four blocks of docs/protocol.md: which spec belongs to which, what they cost, which rivals were tuned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from tuplet.bench.report.reasons import RIVALS, WHERE
from tuplet.bench.report.tables import Group, is_trial, spec_name
from tuplet.bench.rows import Row
from tuplet.bench.tune import FINALISTS, SEEDS_EACH, SETTINGS
from tuplet.models.registry import default_method, own_methods

GRAPHS = ("acm", "dblp", "cora", "citeseer", "pubmed", "amazon-photo", "coauthor-cs", "coauthor-phy")
TASKS = {"clustering": "accuracy", "classification": "accuracy", "links": "auc"}
TITLES = {task: WHERE[task].capitalize() for task in TASKS}
# the name of a spec -> its block, and what it says behind the method's name
BLOCKS: Mapping[str, tuple[str, str]] = {
    "as-printed": ("a", ""),
    "printed-unit-rows": ("a", ", with unit rows"),
    "printed-adam": ("a", ", with unit rows and Adam"),
    "printed-short": ("a", ", with unit rows and 200 steps"),
    "tuned": ("b", ""),
    "tuned-start": ("b", " from its filter"),
    "tuned-labels": ("b", ""),
    "defaults": ("c", ""),
    "one-setting": ("c", ""),
    "one-setting-s2cag": ("c", " without modularity (S2CAG)"),
    "released": ("d", ""),
}
OURS = ("tuned", "tuned-start")  # the specs of our own lines of block (b), which every line is held against
ABOUT = {
    "a": "DMAT-i with the paper's table of hyper-parameters as printed; below it one thing changed",
    "b": "settings **chosen with labels** of validation nodes (or on validation edges), 40 fits; test seeds once",
    "c": "one setting for all graphs; none was chosen for the graph at hand, ours while looking at these graphs. A "
    "rival that was released with one setting stands at (d = c)",
    "d": "what a rival's authors released for the graph, or the nearest to it (`baselines.toml` marks each value)",
}
TUNED = default_method(recipe=True)
FITS = SETTINGS + FINALISTS * (SEEDS_EACH - 1)


def cost_of_block(block: str, rows: Sequence[Row]) -> str:
    """How many runs and trials a block has, and the minutes of their processes, on GPU boxes and on CPUs."""
    mine = [row for row in rows if BLOCKS.get(spec_name(row), ("",))[0] == block]
    trials = sum(is_trial(row) for row in mine)
    minutes = {"GPU": 0.0, "CPU": 0.0}
    for row in mine:
        minutes["GPU" if "NVIDIA" in row["machine"] else "CPU"] += sum(row["seconds"].values()) / 60
    spent = ", ".join(f"{value:.0f} on a {kind} box" for kind, value in minutes.items() if value)
    ended = sum("error" in row and not is_trial(row) for row in mine)
    tried = f" and {trials} trials" if trials else ""
    tried += f", {ended} more that ended without a result" if ended else ""
    return f"{len(mine) - trials - ended} runs{tried}; minutes of their processes, several at a time: {spent}."


def tuning_budget(groups: Sequence[Group]) -> str:
    """Which rivals were tuned on the same budget as ours, task by task, and what the others would have cost."""
    rivals = dict.fromkeys(g.method for g in groups if g.spec == RIVALS)
    texts = []
    for task in TASKS:
        tuned: dict[str, int] = {}
        for g in groups:
            if (g.spec, g.task) == ("tuned", task) and g.runs and g.method not in own_methods():
                tuned[g.method] = tuned.get(g.method, 0) + 1
        names = [name + (f" on {n} graphs" if n < len(GRAPHS) else "") for name, n in tuned.items()]
        left = [_tuning_cost(groups, task, method) for method in rivals if method not in tuned]
        title = f"- {TITLES[task].lower()}: tuned on the same budget as {TUNED}: {', '.join(names) or 'no rival'}."
        texts.append(title + (f" Not tuned: {', '.join(left)}." if left else ""))
    about = (
        "Rivals in block (b). What is not tuned was left out for time: 40 fits a graph, in brackets the minutes that "
        "they would take by the mean seconds of block (d)'s runs, one after the other, and on how many graphs those "
        "were measured; none where no run of block (d) ended in that task. A comparison of tuned "
        f"{TUNED} with a rival of another block is one of tuned against not tuned."
    )
    return f"{about}\n\n" + "\n".join(texts) if rivals else ""


def _tuning_cost(groups: Sequence[Group], task: str, method: str) -> str:
    """ "GCA (28 minutes, 4 graphs)": 40 fits on each graph that block (d) has runs of."""
    measured = [g for g in groups if (g.spec, g.task, g.method) == (RIVALS, task, method) and g.runs]
    means = [fmean(sum(row["seconds"].values()) for row in g.rows if "error" not in row) for g in measured]
    count = f"{len(means)} graph{'s' if len(means) > 1 else ''}"
    return f"{method} ({FITS * sum(means) / 60:.0f} minutes, {count})" if means else f"{method} (none measured)"
