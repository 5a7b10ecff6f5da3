"""The report: one HTML file with a map of the nodes, what their clusters are, and how the run came about.

It opens offline in any browser of today. `report` is the door; `tuplet report` and `tuplet embed --report` use it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tuplet._check import check_int
from tuplet.graph import Graph
from tuplet.pages._file import check_page_path, read_page, write_page

__all__ = ["SAMPLE", "check_page_path", "report"]

SAMPLE = 100_000  # nodes on the map, at most


def report(
    model: Any,
    graph: Graph,
    out: str | os.PathLike[str] = "report.html",
    *,
    vectors: Any = None,
    clusters: Any = None,
    sample: int = SAMPLE,
    like: str | os.PathLike[str] | None = None,
    title: str = "",
    seed: int = 0,
    engine: str = "local",
    progress: Any = None,
) -> Path:
    """Write the report of `model` on `graph` as one HTML file, and return its path.

    `model` is a fitted estimator, a table from `read_vectors`, or rows (n, d) in node order; `vectors` (n, d) spares
    an estimator without `embedding_` a transform. `clusters`: a number for K-Means or one number a node; default: the
    run's own, else K-Means with the number of classes, else with the best silhouette. At most `sample` nodes are
    drawn on the map; everything else counts all nodes. `like` is an earlier report: its nodes keep their places, and
    new ones are placed among their nearest. The same input and seed give the same page.

    `engine`: "ray" or "ray://host:10001" looks for nearest nodes and reads the features on the nodes of that cluster,
    which must see the folder of `out` and the graph's; the same page comes out.

    >>> import tempfile
    >>> from tuplet.graph.synth import block_model
    >>> g = block_model([30, 20], seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = report(g.x, g, f"{folder}/report.html").read_text()
    >>> "</html>" in page
    True
    """
    from tuplet.engines import check_engine
    from tuplet.pages._tasks import shared
    from tuplet.pages.gather import chosen_nodes, gather
    from tuplet.pages.layout import check_layout
    from tuplet.pages.subject import subject_of

    target = check_page_path(out)
    check_engine(engine)
    seed = check_int("seed", seed, minimum=0)
    sample = check_int("sample", sample, minimum=10)
    old = None if like is None else _old_places(like)
    check_layout(min(sample, graph.n_nodes))
    with shared(engine, target, graph, progress) as on:
        subject = subject_of(model, graph, vectors, clusters, seed)
        shown = chosen_nodes(graph, sample, old, seed)
        facts, arrays = gather(subject, graph, shown, old, seed=seed, progress=progress, on=on)
        if title:
            facts["title"] = title
        return write_page(target, facts, arrays)


def _old_places(like: str | os.PathLike[str]) -> Any:
    import numpy as np

    from tuplet._check import InputError

    facts, arrays = read_page(like)
    try:
        places = arrays["xy"].reshape(-1, 2).astype(np.float32) / 32767
        ids = facts["ids"] or [str(i) for i in range(facts["shown"])]
        if len(ids) != len(places):
            raise ValueError(f"{len(ids)} ids for {len(places)} places")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{like} is not a report of tuplet ({error!r}). Give the page of an earlier run.") from None
    return ids, places
