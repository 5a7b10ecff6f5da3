"""What vectors have seen while they were learned: labels of which nodes, which edges. It goes with the vectors.

A score on a node whose label has trained the vectors says nothing. `seen_by` makes the record, `labels_seen` reads
it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._check import InputError
from tuplet.graph import Graph


def seen_by(graph: Graph, *, labels: bool) -> dict[str, Any]:
    """The record of vectors learned on all edges of `graph`, and with `labels` on the labels it has."""
    record: dict[str, Any] = {"edges": {"count": graph.n_edges, "graph": graph.fingerprint()}, "labels": None}
    if labels and graph.y is not None:
        known = np.asarray(graph.y) >= 0
        packed = zlib.compress(np.packbits(known).tobytes())
        record["labels"] = {"count": int(known.sum()), "nodes": base64.b64encode(packed).decode()}
    return record


def labels_seen(metadata: Mapping[str, Any], n: int) -> NDArray[np.bool_] | None:
    """Which of the `n` rows had a label that trained the vectors, bool (n,); None where nothing is recorded."""
    record = metadata.get("seen")
    if not isinstance(record, dict) or "labels" not in record:
        return None
    labels = record["labels"]
    if labels is None:
        return np.zeros(n, dtype=bool)
    if labels == "unknown":
        return None
    size = (n + 7) // 8
    try:
        opened = zlib.decompressobj()
        packed = opened.decompress(base64.b64decode(labels["nodes"]), size + 1)
        count = int(labels["count"])
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise InputError(f"What the vectors have seen is damaged ({error!r}). Embed the graph again.") from None
    mask = np.unpackbits(np.frombuffer(packed, np.uint8))[:n].astype(bool)
    if len(packed) != size or int(mask.sum()) != count:
        raise InputError("What the vectors have seen does not fit their number. Embed the graph again.")
    return mask
