"""GraphFilter: (graph, features) -> filtered rows, H = sum of w_l (D^(r-1) A D^-r)^l X.

It only decides: which method and device, how many columns at a time, memory or disk. The operator and the order of
products are in `_operator`, reading features in `_read`, the methods in `_cpu` and `_gpu`,
files in `_disk`, fewer columns in `_reduce`.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tuplet._check import InputError, check_choice, check_int, check_number, check_out_path
from tuplet._files import file_of, locked, writing
from tuplet._memory import mapped_file
from tuplet.engines import check_engine
from tuplet.filters._backends import choose_device
from tuplet.filters._estimate import FilterEstimate, exact_seconds, push_seconds
from tuplet.filters._operator import make_plan
from tuplet.filters._read import checked_map
from tuplet.filters._reduce import REDUCTIONS
from tuplet.filters._run import SLACK, rows_key, run_filter
from tuplet.filters.content import is_kept, keep
from tuplet.filters.weights import Weights, ppr
from tuplet.filters.widths import free_width
from tuplet.graph import Features, Graph, check_size, checked_features

log = logging.getLogger("tuplet")

Progress = Callable[[str, float], None]
CACHE_WAIT = 7 * 24 * 3600.0  # seconds to wait for another process that filters the same rows


@dataclass(frozen=True)
class GraphFilter:
    """A linear filter over the graph: each row becomes a weighted mean over its neighbourhood.

    `weights`: w_0, w_1, .. (`tuplet.weights`). `r`: 0.5 for D^-1/2 A D^-1/2, 0 for D^-1 A, 1 for A D^-1; the paper's
    `rrz`. `self_loops`: A + I in the place of A. `direction`: which edges of a directed graph count: row u averages
    over u's targets ("out"), sources ("in") or both ("symmetric"); an undirected graph has no choice.

    `method="exact"` leaves at most `tol` out of the series: with E the error, ||D^(1/2-r) E|| <= tol ||D^(1/2-r) X||
    for each column and for the whole, where A is symmetric (r = 0.5: ||E|| <= tol ||X||), and max |D^-r E| <=
    tol max |D^-r X| for each column of the power series on any graph; float32 rounding comes on top (about 1e-6).
    `series`: "power" for the w_l themselves, "chebyshev" for the expansion that needs fewer products on undirected
    graphs, "auto" for the shorter.
    `method="push"` (PageRank weights only) is GBP's reverse push with the threshold `r_max`: for each column its
    error is at most (1-alpha) r_max S d_u^r at node u, with S the sum of the positive (negative) entries of D^-r x.
    `method="bidirectional"` adds `n_walks` random walks from each node, after which the error's mean is 0.

    `columns`: reduce X to so many columns first, by `reduction` "projection" or "svd" (see `_reduce.py`).
    `device`: "cpu", "cuda", or "auto" for a GPU where there is one and the work is worth it.

    >>> g = Graph.from_scipy([[0, 1], [1, 0]], x=[[1.0], [0.0]])
    >>> GraphFilter(ppr(0.5)).transform(g)
    array([[0.75],
           [0.25]], dtype=float32)
    """

    weights: Weights = field(default_factory=ppr)
    r: float = field(default=0.5, kw_only=True)
    tol: float = field(default=1e-4, kw_only=True)
    method: str = field(default="exact", kw_only=True)
    series: str = field(default="auto", kw_only=True)
    r_max: float | None = field(default=None, kw_only=True)
    n_walks: int | None = field(default=None, kw_only=True)
    self_loops: bool = field(default=True, kw_only=True)
    direction: str = field(default="symmetric", kw_only=True)
    columns: int | None = field(default=None, kw_only=True)
    reduction: str = field(default="projection", kw_only=True)
    device: str = field(default="auto", kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Weights):
            raise InputError(f"weights must come from tuplet.filters.weights (ppr, heat, ..), got {self.weights!r}.")
        check_number("r", self.r, low=0, high=1)
        check_number("tol", self.tol, low=0, high=1, open_low=True)
        check_choice("method", self.method, ("exact", "push", "bidirectional"))
        check_choice("series", self.series, ("auto", "power", "chebyshev"))
        check_choice("direction", self.direction, ("symmetric", "in", "out"))
        check_choice("reduction", self.reduction, REDUCTIONS)
        check_int("seed", self.seed, minimum=0)
        if self.columns is not None:
            check_int("columns", self.columns)
        self._check_push()

    def _check_push(self) -> None:
        if self.method == "exact":
            if self.r_max is not None or self.n_walks is not None:
                raise InputError(
                    f"r_max={self.r_max} and n_walks={self.n_walks} belong to push. "
                    'Set method="push" or "bidirectional", or leave them out; tol bounds the exact filter.'
                )
            return
        if self.weights.family != "ppr":
            raise InputError(
                f'method={self.method!r} works with ppr weights only, got {self.weights!r}. Use "exact".'
            )
        if self.r_max is None:
            raise InputError(f"method={self.method!r} needs r_max, the push threshold, for example r_max=1e-5.")
        check_number("r_max", self.r_max, low=0, high=1, open_low=True)
        if (self.method == "bidirectional") != (self.n_walks is not None):
            raise InputError(
                f"n_walks={self.n_walks} with method={self.method!r}. "
                'Give n_walks, the random walks from each node, with "bidirectional" and only there.'
            )
        if self.n_walks is not None:
            check_int("n_walks", self.n_walks)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values; `GraphFilter.from_dict` reads them back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> GraphFilter:
        """The filter that `to_dict` described."""
        weights = settings["weights"]
        known = {f.name: settings[f.name] for f in fields(cls) if f.name in settings}
        return cls(**{**known, "weights": Weights(weights["family"], tuple(weights["values"]))})

    def transform(
        self,
        graph: Graph,
        *,
        x: Any = None,
        out: str | os.PathLike[str] | None = None,
        memory: int | str | None = None,
        cache: str | os.PathLike[str] | None = None,
        dtype: str = "float32",
        progress: Progress | None = None,
        engine: str = "local",
    ) -> NDArray[Any]:
        """The filtered rows (n, f). `x` (n, f) takes the place of `graph.x`.

        `out="rows.npy"` writes them to that file and returns a memory map; input and output may then be larger than
        memory, and a run that was killed goes on where it was. `memory="4GB"` bounds the memory of the process. With
        `cache=folder` the rows are kept there with a checksum, and found again by all of the graph, the features and
        the settings; damaged ones are filtered again. `dtype="float16"`
        halves the rows' bytes; the products stay float32, and the trainer reads either. `engine="ray"` or
        "ray://host:port" filters blocks of columns on the nodes of a cluster, which must all see the files of graph
        and rows; the same bits come out.
        """
        check_engine(engine)
        kind = np.dtype(check_choice("dtype", dtype, ("float32", "float16")))
        features = self._features(graph, x)
        if cache is not None:
            if out is not None:
                raise InputError("Give out= or cache=, not both: the cache chooses its own file names.")
            return self._cached(graph, features, Path(cache), memory, kind, progress, engine)
        if out is None and engine == "local":
            return run_filter(self, graph, features, None, memory, kind, progress)
        if out is None:
            return self._by_way_of_a_file(graph, features, memory, kind, progress, engine)
        with locked(check_out_path(out)), writing(Path(out)):
            return run_filter(self, graph, features, out, memory, kind, progress, engine)

    def _by_way_of_a_file(
        self, graph: Graph, x: Features, memory: Any, kind: np.dtype[Any], progress: Progress | None, engine: str
    ) -> NDArray[Any]:
        """The rows in memory, by tasks that write beside the graph's files; a killed run is found again there."""
        home = file_of(graph.indices)
        folder = Path(tempfile.gettempdir()) if home is None else home.parent.parent
        file = folder / f".filtered-{rows_key(self, graph, x, kind)}.npy"
        with locked(file), writing(file):
            run_filter(self, graph, x, file, memory, kind, progress, engine)
            rows: NDArray[Any] = np.load(file)
            file.unlink()
            return rows

    def _cached(
        self,
        graph: Graph,
        x: Features,
        folder: Path,
        memory: int | str | None,
        kind: np.dtype[Any],
        progress: Progress | None,
        engine: str = "local",
    ) -> NDArray[Any]:
        """The rows from the cache; of several processes that want the same rows one filters, the others wait."""
        _make_folder(folder)
        file = folder / f"filtered-{rows_key(self, graph, x, kind)}.npy"
        with locked(file, wait=CACHE_WAIT), writing(file):
            if is_kept(file):
                log.info("filtered rows found in %s", file)
                return np.load(file, mmap_mode="r")  # type: ignore[no-any-return]
            rows = run_filter(self, graph, x, file, memory, kind, progress, engine)
            keep(file, rows)
            return rows

    def estimate(self, graph: Graph, *, x: Any = None, width: int | None = None) -> FilterEstimate:
        """Products, bytes of memory and disk, and a range of seconds, without filtering anything.

        Of `x`, of `width` columns, or of the graph's features.
        """
        f = int(self._features(graph, x).shape[1]) if width is None else check_int("width", width)
        f = f if self.columns is None else min(f, self.columns)
        n, stored, threads = graph.n_nodes, graph.n_stored, os.cpu_count() or 1
        block = free_width(n, stored, f)
        common = {
            "rows": n,
            "columns": f,
            "memory": 4 * n * f + 12 * n * block,
            "streamed": 12 * n * min(f, 16) + SLACK,
            "disk": (2 if f > 16 else 1) * 4 * n * f,
        }
        if self.method != "exact":
            d = graph.degrees + 1
            mass = float((d ** (1 - self.r)).sum() / (d**-self.r).sum())
            span = push_seconds(mass, self.weights.values[0], float(self.r_max or 1), n, f, threads)
            return FilterEstimate(method=self.method, device="cpu", products=0, seconds=span, **common)
        symmetric = not graph.directed or self.direction == "symmetric"
        products = self.products(symmetric)
        device = choose_device(self.device, float(products) * stored * f)
        span = exact_seconds(products, stored, n, f, device, threads)
        return FilterEstimate(method=self.method, device=device, products=products, seconds=span, **common)

    def products(self, symmetric: bool = True) -> int:
        """Sparse products of the exact filter, for a symmetric adjacency or another."""
        return make_plan(self.weights, self.tol, self.series, symmetric).products

    def _features(self, graph: Graph, x: Any) -> Features:
        if x is not None:
            return checked_map(x, graph.n_nodes) if mapped_file(x) is not None else checked_features(x, graph.n_nodes)
        if graph.x is None:
            raise InputError("The graph has no features to filter. Give x=..., one row for each node.")
        x = graph.x
        check_size(x.data if sp.issparse(x) else x)
        return x  # type: ignore[no-any-return]

    def settings(self) -> dict[str, Any]:
        """What decides the result: all settings but the device."""
        return {name: value for name, value in self.to_dict().items() if name != "device"}


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The cache folder {folder} cannot be made ({error}). Choose another cache=.") from None
