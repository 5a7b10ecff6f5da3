"""Everything that a page shows, as plain facts and number arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._seed import stream
from tuplet.evaluation.describe import clusters_described, confidence_of
from tuplet.graph import Graph
from tuplet.pages.colours import UNKNOWN
from tuplet.pages.features import (
    column_facts,
    deviations,
    feature_names,
    number_columns,
    stored_columns,
    telling_features,
)
from tuplet.pages.layout import NEIGHBOURS, map_nodes, near_rows, place_new
from tuplet.pages.subject import Subject, versions
from tuplet.pages.tables import class_groups, cluster_colours, confusion, edge_matrix, scores
from tuplet.pages.training import training_facts
from tuplet.rows.unit import scale_rows

NEAREST = 10  # nearest nodes that a page keeps for each node
LINKED = 20  # graph neighbours

Arrays = dict[str, NDArray[Any]]
Old = tuple[list[str], NDArray[np.float32]]  # ids and places of an earlier page


def chosen_nodes(graph: Graph, sample: int, old: Old | None, seed: int) -> NDArray[np.intp]:
    """The nodes on the map, sorted: all, or `sample` of them drawn by the seed, those of the old page first."""
    if graph.n_nodes <= sample:
        return np.arange(graph.n_nodes)
    order = stream(seed, "report sample").permutation(graph.n_nodes)
    if old is not None:
        known = np.isin(graph.node_ids[order].astype(str), old[0])
        order = np.concatenate([order[known], order[~known]])
    return np.sort(order[:sample])


def gather(
    subject: Subject,
    graph: Graph,
    shown: NDArray[np.intp],
    old: Old | None,
    *,
    seed: int,
    progress: Any,
    on: Any = None,
) -> tuple[dict[str, Any], Arrays]:
    """Facts and arrays of the page of `subject`, with the nodes `shown` on its map; `on` is a `Shared` of tasks."""
    rows = np.asarray(scale_rows(np.asarray(subject.z[shown])), dtype=np.float32)
    near = near_rows(rows, NEIGHBOURS, seed=seed, progress=progress, find=on and on.near)
    places = _places(rows, near, graph, shown, old, seed, progress)
    cards, arrays = _clusters(subject, graph, shown, places, on)
    arrays |= _neighbours(graph, shown, near)
    facts = {
        "title": f"{graph.name}: {subject.method}" if graph.name else subject.method,
        "graph": graph_facts(graph),
        "method": subject.method,
        "nodes": graph.n_nodes,
        "shown": len(shown),
        "directed": graph.directed,
        "clusters": cards,
        "clusters_from": subject.clusters_from,
        "classes": class_groups(graph),
        "unknown": UNKNOWN,
        "ids": _ids(graph, shown),
        "matrix": edge_matrix(graph, subject.clusters),
        "scores": scores(graph, subject.clusters),
        "confusion": confusion(graph, subject.clusters),
        "history": training_facts(subject.training),
        "warnings": [*subject.warnings, *getattr(graph.preparation, "warnings", ())],
        "notes": _notes(graph, shown, old, seed),
        "run": _run(subject, graph, seed),
        "settings": subject.settings,
        "columns": _columns(graph),
    }
    features, more = _features(graph, shown, cards, on)
    return facts | features, arrays | more


def _places(rows: Any, near: Any, graph: Graph, shown: Any, old: Old | None, seed: int, progress: Any) -> Any:
    if old is None:
        return map_nodes(rows, near, seed=seed, progress=progress)
    ids = {name: i for i, name in enumerate(old[0])}
    at = np.array([ids.get(str(name), -1) for name in graph.node_ids[shown]])
    known = np.flatnonzero(at >= 0)
    if len(known) < 3:
        return map_nodes(rows, near, seed=seed, progress=progress)
    return place_new(rows, known, old[1][at[known]])


def _clusters(
    subject: Subject, graph: Graph, shown: Any, places: Any, on: Any
) -> tuple[list[dict[str, Any]], Arrays]:
    """The cards, and of each shown node place, cluster, class and confidence."""
    classes = tuple(group["name"] for group in class_groups(graph))
    named = graph.with_(feature_names=tuple(feature_names(graph)), label_names=classes)
    find = on.marks if on and on.x else None
    described = clusters_described(subject.z, subject.clusters, named, unit_rows=True, medoids=5, marks=6, find=find)
    colours = cluster_colours(graph, subject.clusters)
    place = np.unique(subject.clusters, return_inverse=True)[1]
    here = place[shown]
    cards = []
    for i, found in enumerate(described):
        own = places[here == i]
        middle = np.median(own, axis=0).tolist() if len(own) else None
        medoids = [str(name) for name in found.medoids]
        cards.append(found.to_dict() | {"colour": colours[i], "at": middle, "medoids": medoids, "on_map": len(own)})
    sure = confidence_of(subject.z, subject.clusters)[shown]
    y = np.full(len(shown), -1) if graph.y is None else graph.y[shown]
    arrays = {
        "xy": np.rint(np.clip(places, -1, 1) * 32767).astype(np.int16).ravel(),
        "cluster": here.astype(np.int32),
        "label": y.astype(np.int32),
        "confidence": np.rint(255 * np.clip(sure, 0, 1)).astype(np.uint8),
        "degree": np.diff(graph.indptr)[shown].astype(np.uint32),
    }
    return cards, arrays


def _neighbours(graph: Graph, shown: NDArray[np.intp], near: Any) -> Arrays:
    """The nearest nodes, and the graph neighbours that are on the map, as places among the shown."""
    place = np.full(graph.n_nodes, -1, np.int64)
    place[shown] = np.arange(len(shown))
    starts, linked = [0], []
    for node in shown:
        ends = place[graph.indices[graph.indptr[node] : graph.indptr[node + 1]]]
        ends = ends[ends >= 0][:LINKED]
        linked.append(ends)
        starts.append(starts[-1] + len(ends))
    index, cosine = near[0][:, :NEAREST], near[1][:, :NEAREST]
    return {
        "near": index.astype(np.uint32).ravel(),
        "cosine": np.rint(127 * np.clip(cosine, -1, 1)).astype(np.int8).ravel(),
        "linked_start": np.array(starts, np.uint32),
        "linked": (np.concatenate(linked) if linked else np.empty(0)).astype(np.uint32),
    }


def _ids(graph: Graph, shown: NDArray[np.intp]) -> list[str] | None:
    """The ids as text, None where they are 0, 1, .. in the page's order."""
    ids = graph.node_ids[shown]
    plain = ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(len(ids)))
    return None if plain else [str(name) for name in ids]


def _features(graph: Graph, shown: Any, cards: list[dict[str, Any]], on: Any) -> tuple[dict[str, Any], Arrays]:
    if graph.x is None:
        return {"features": [], "features_left_out": 0, "feature_names": [], "prepared": False}, {}
    away = on if on and on.x else None
    about = column_facts(graph.x, away and away.columns())
    telling = away.telling(shown, about) if away else telling_features(graph, shown, about)
    names = feature_names(graph)
    place = {name: j for j, name in enumerate(names)}
    number = number_columns(about[0])
    for mark in (mark for card in cards for mark in card["marks"]):
        mark["number"] = bool(number[place[mark["name"]]])
    first = [mark["name"] for rank in range(6) for card in cards for mark in card["marks"][rank : rank + 1]]
    kept = stored_columns(graph, shown, first)
    used = np.unique(telling.column[telling.column >= 0])
    among = np.full(graph.n_features + 1, -1, np.int32)
    among[used] = np.arange(len(used))
    values = telling.value
    prepared = graph.preparation is not None and graph.preparation.scaled and not graph.preparation.as_it_is
    if prepared:  # scaled values mean nothing to a reader: numbers are told in deviations, others by their name
        values = deviations(values, about[1][telling.column], about[2][telling.column]).astype(np.float32)
        for fact in kept.facts:
            j = place[fact["name"]]
            away = (deviations(fact[end], about[1][j], about[2][j]) for end in ("low", "high"))
            fact["ends"] = [f"{end:+.1f} sd" for end in away] if number[j] else ["absent", "present"]
    facts = {
        "prepared": prepared,
        "features": kept.facts,
        "features_left_out": kept.left_out,
        "feature_names": [names[j] for j in used],
    }
    return facts, {
        "telling": among[telling.column].ravel(),
        "telling_value": values.ravel(),
        "telling_number": number[used].astype(np.uint8),
        "feature_start": kept.start,
        "feature_node": kept.node,
        "feature_level": kept.level,
        "feature_dense": kept.dense,
    }


def graph_facts(graph: Graph) -> list[str]:
    """Nodes, edges, features and labels of a graph as texts."""
    facts = [f"{graph.n_nodes:,} nodes", f"{graph.n_edges:,} {'directed ' if graph.directed else ''}edges"]
    if graph.n_features:
        facts.append(f"{graph.n_features:,} features")
    if graph.y is not None and graph.n_classes:
        known = int(np.count_nonzero(graph.y >= 0))
        part = "" if known == graph.n_nodes else f" on {known:,} nodes"
        facts.append(f"{graph.n_classes} classes{part}")
    return facts


def _notes(graph: Graph, shown: Any, old: Old | None, seed: int) -> list[str]:
    notes = []
    if len(shown) < graph.n_nodes:
        notes.append(
            f"The map shows {len(shown):,} of {graph.n_nodes:,} nodes, drawn at random with seed {seed}. Nearest "
            "nodes and graph neighbours are looked for among them. Clusters, matrices and scores count all nodes."
        )
    if old is not None:
        ids = set(old[0])
        kept = sum(str(name) in ids for name in graph.node_ids[shown])
        notes.append(
            f"{kept:,} nodes stand where the earlier report had them; the other {len(shown) - kept:,} "
            "stand among their nearest nodes."
            if kept >= 3
            else "The earlier report shares fewer than three nodes with this graph: the map was drawn anew."
        )
    return notes


def _run(subject: Subject, graph: Graph, seed: int) -> list[tuple[str, str]]:
    run = [("method", subject.method), ("clusters", subject.clusters_from)]
    run += [("vectors", f"{subject.z.shape[0]:,} of {subject.z.shape[1]} numbers")]
    run += subject.run
    return [
        *run,
        ("seed of the report", str(seed)),
        ("graph fingerprint", graph.fingerprint()),
        ("versions", versions()),
    ]


def _columns(graph: Graph) -> list[list[str]]:
    """What became of each column of the tables that the graph was read from, where it is known."""
    if graph.preparation is None:
        return []
    found = []
    for line in graph.preparation.lines():
        facts = [line.role, f"{line.width} features" if line.width > 1 else "", line.note]
        facts += [f"{line.missing:.1%} missing"] if line.missing else []
        found.append([line.name, ", ".join(filter(None, facts))])
    return found
