"""Graph: adjacency in CSR, features, labels and node ids. It holds and checks; functions elsewhere compute.

The adjacency is three plain arrays, not a SciPy matrix: SciPy widens 32-bit node indices as soon as the row
pointers need 64 bits, and always stores a value for each edge. Here row pointers are 64-bit, node indices
32-bit while n < 2**31, and a graph without weights stores none. Each array may be a memory map.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import check_labels
from tuplet._html import table
from tuplet._sums import LARGE, feed
from tuplet.graph._checks import Features, checked_adjacency, checked_features, checked_ids


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """n nodes, their edges, and what is known of them.

    `indptr` int64 (n + 1,) and `indices` int32 or int64 (stored edges,) are the CSR adjacency: row u lists the
    targets of u's edges, sorted, without duplicates and self loops. An undirected graph stores both directions.
    `weights` float32 (stored edges,) or None for 1 everywhere. `x` (n, f) is dense, CSR or a memory map, or None.
    `y` int64 (n,) holds classes 0.. and -1 for unknown, or None. `ids` (n,) are the user's node names. `split` holds
    the train, validation and test nodes that came with the data, or None.

    The fields are trusted as they are. `Graph.from_scipy` checks and cleans a matrix first.

    >>> g = Graph.from_scipy([[0, 1, 0], [1, 0, 1], [0, 1, 0]], x=[[1.0], [2.0], [3.0]])
    >>> g
    Graph(3 nodes, 2 edges, 1 features)
    >>> g.degrees
    array([1., 2., 1.])
    """

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    x: Features | None = None
    weights: NDArray[np.float32] | None = None
    y: NDArray[np.int64] | None = None
    ids: NDArray[Any] | None = None
    directed: bool = False
    name: str = ""
    label_names: tuple[str, ...] = field(default=())
    feature_names: tuple[str, ...] = field(default=())
    preparation: Any = None  # how a table's columns became x (io.preparation); None for a plain matrix
    label_column: str = ""  # of the table that the labels come from
    split: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None = None

    @classmethod
    def from_scipy(
        cls,
        adj: Any,
        x: Any = None,
        y: Any = None,
        *,
        ids: Any = None,
        directed: bool = False,
        name: str = "",
        label_names: Sequence[str] = (),
        feature_names: Sequence[str] = (),
        preparation: Any = None,
        label_column: str = "",
    ) -> Graph:
        """A checked graph from any SciPy sparse matrix or square array.

        Duplicate entries are summed, zeros and self loops dropped. An undirected graph (the default) is
        symmetrised: an edge that is stored in one direction counts in both, with the larger weight.
        """
        matrix = checked_adjacency(adj)
        if not directed:
            matrix = sp.csr_array(matrix.maximum(matrix.T))
        matrix.sort_indices()
        n = matrix.shape[0]
        unweighted = matrix.nnz == 0 or bool(np.all(matrix.data == 1))
        return cls(
            indptr=matrix.indptr.astype(np.int64),
            indices=matrix.indices.astype(np.int32 if n < 2**31 else np.int64),
            weights=None if unweighted else matrix.data.astype(np.float32),
            x=None if x is None else checked_features(x, n),
            y=None if y is None else check_labels("y", y, n),
            ids=None if ids is None else checked_ids(ids, n),
            directed=directed,
            name=name,
            label_names=tuple(label_names),
            feature_names=tuple(feature_names),
            preparation=preparation,
            label_column=label_column,
        )

    @classmethod
    def from_networkx(cls, *args: Any, **options: Any) -> Graph:
        """From a NetworkX graph: `tuplet.io.libraries.from_networkx`."""
        from tuplet.io.libraries import from_networkx

        return from_networkx(*args, **options)

    @classmethod
    def from_igraph(cls, *args: Any, **options: Any) -> Graph:
        """From an igraph graph: `tuplet.io.libraries.from_igraph`."""
        from tuplet.io.libraries import from_igraph

        return from_igraph(*args, **options)

    @classmethod
    def from_pyg(cls, *args: Any, **options: Any) -> Graph:
        """From a PyG `Data`: `tuplet.io.libraries.from_pyg`."""
        from tuplet.io.libraries import from_pyg

        return from_pyg(*args, **options)

    @classmethod
    def from_frames(cls, *args: Any, **options: Any) -> Graph:
        """From pandas, polars or Arrow tables: `tuplet.io.libraries.from_frames`."""
        from tuplet.io.libraries import from_frames

        return from_frames(*args, **options)

    def to_networkx(self) -> Any:
        """As a NetworkX graph: `tuplet.io.libraries.to_networkx`."""
        from tuplet.io.libraries import to_networkx

        return to_networkx(self)

    def to_igraph(self) -> Any:
        """As an igraph graph: `tuplet.io.libraries.to_igraph`."""
        from tuplet.io.libraries import to_igraph

        return to_igraph(self)

    def to_pyg(self) -> Any:
        """As a PyG `Data`: `tuplet.io.libraries.to_pyg`."""
        from tuplet.io.libraries import to_pyg

        return to_pyg(self)

    def to_pandas(self) -> Any:
        """As pandas frames (edges, nodes): `tuplet.io.libraries.to_pandas`."""
        from tuplet.io.libraries import to_pandas

        return to_pandas(self)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, n."""
        return len(self.indptr) - 1

    @property
    def n_stored(self) -> int:
        """Stored adjacency entries: twice the edges of an undirected graph."""
        return int(self.indptr[-1])

    @property
    def n_edges(self) -> int:
        """Number of edges; an undirected edge counts once."""
        return self.n_stored if self.directed else self.n_stored // 2

    @property
    def n_features(self) -> int:
        """Number of feature columns, f; 0 without features."""
        return 0 if self.x is None else int(self.x.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes among the known labels; 0 without labels."""
        return 0 if self.y is None or not len(self.y) else int(self.y.max()) + 1

    @property
    def degrees(self) -> NDArray[np.float64]:
        """Weighted out-degree of each node, self loops left out: float64 (n,)."""
        if self.weights is None:
            return np.diff(self.indptr).astype(np.float64)
        sums = np.zeros(self.n_nodes)
        filled = np.flatnonzero(np.diff(self.indptr))
        if len(filled):
            sums[filled] = np.add.reduceat(self.weights, self.indptr[filled], dtype=np.float64)
        return sums

    @property
    def adj(self) -> sp.csr_array:
        """The adjacency as a SciPy matrix (float32). Builds a value for each edge; small graphs and tests only."""
        data = np.ones(self.n_stored, np.float32) if self.weights is None else self.weights
        return sp.csr_array((data, self.indices, self.indptr), shape=(self.n_nodes, self.n_nodes))

    @property
    def node_ids(self) -> NDArray[Any]:
        """The user's ids, or 0..n-1 where none were given."""
        return np.arange(self.n_nodes) if self.ids is None else self.ids

    def edges(self) -> NDArray[np.int64]:
        """Edges as (m, 2) int64 node pairs; an undirected edge once, smaller node first."""
        source = np.repeat(np.arange(self.n_nodes), np.diff(self.indptr))
        pairs = np.column_stack([source, self.indices.astype(np.int64)])
        return pairs if self.directed else pairs[pairs[:, 0] < pairs[:, 1]]

    def with_(self, **changes: Any) -> Graph:
        """A copy with some fields replaced, unchecked."""
        return replace(self, **changes)

    def fingerprint(self) -> str:
        """16 hex digits that depend on structure, weights and features (not on labels, ids or the name)."""
        return self._hashed(whole=False)

    def has_fingerprint(self, known: Any) -> bool:
        """Whether `known` is the fingerprint of this graph, also as 0.1 made it of large arrays: in one thread."""
        if known == self.fingerprint():
            return True
        large = any(part is not None and part.nbytes > LARGE for part in self._parts())
        return large and known == self._hashed(whole=True)

    def _hashed(self, *, whole: bool) -> str:
        digest = hashlib.blake2b(digest_size=8)
        digest.update(f"{self.n_nodes} {self.n_features} {self.directed}".encode())
        for part in self._parts():
            feed(digest, part, whole=whole)
        return digest.hexdigest()

    def _parts(self) -> list[Any]:
        """The arrays that the fingerprint depends on."""
        x: Any = self.x
        return [self.indptr, self.indices, self.weights, *([x.indptr, x.indices, x.data] if sp.issparse(x) else [x])]

    def __repr__(self) -> str:
        kind = ", directed" if self.directed else ""
        classes = f", {self.n_classes} classes" if self.y is not None else ""
        name = f"{self.name}: " if self.name else ""
        return f"Graph({name}{self.n_nodes} nodes, {self.n_edges} edges{kind}, {self.n_features} features{classes})"

    def _repr_html_(self) -> str:
        counts = np.diff(self.indptr)
        rows = [["nodes", f"{self.n_nodes:,}"], ["edges", f"{self.n_edges:,}{', directed' if self.directed else ''}"]]
        rows.append(["neighbours", f"{counts.mean():.1f} on average, at most {counts.max():,}"])
        if self.x is not None:
            kind = "sparse" if sp.issparse(self.x) else "dense"
            names = ", ".join(self.feature_names[:5]) + (", .." if len(self.feature_names) > 5 else "")
            rows.append(["features", f"{self.n_features:,}, {kind} {self.x.dtype}{': ' if names else ''}{names}"])
        if self.y is not None:
            known = int(np.count_nonzero(self.y >= 0))
            rows.append(["classes", f"{self.n_classes}, known of {known:,} nodes"])
        return table(f"Graph {self.name}".strip(), rows)
