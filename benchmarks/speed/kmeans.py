"""Speed and inertia of K-Means beside its rivals, the same rows and number of starts, in one run; prints Markdown.

    python benchmarks/speed/kmeans.py            # 117,659 x 90 in 45 clusters and smaller ones, some minutes
    python benchmarks/speed/kmeans.py --quick    # tiny rows, to see that it runs
    python benchmarks/speed/kmeans.py --gpu      # on one GPU instead: 117,659 x 90 and 10^7 x 128

Rivals: scikit-learn with Lloyd's and with Elkan's steps and with mini-batches, faiss (25 steps a start, its default).
A cell is seconds / inertia over ours (above 1: ours is tighter).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tuplet._threads import cores, over
from tuplet.rows.kmeans import kmeans

SHAPES = ((2708, 14, 7), (18_333, 30, 15), (34_493, 10, 5), (117_659, 90, 45))
STARTS, BLOCK = 20, 2**14


def rows_of(n: int, d: int, k: int, spread: float = 0.3) -> Any:
    """Unit rows around k overlapping centres of uneven sizes."""
    rng = np.random.default_rng(0)
    share = np.arange(1, k + 1.0)
    centres = 0.35 * rng.standard_normal((k, d), dtype=np.float32)
    out = np.empty((n, d), np.float32)

    def fill(start: int) -> None:
        own = np.random.default_rng([1, start])
        some = out[start : start + BLOCK]
        own.standard_normal(out=some, dtype=np.float32)
        some *= spread
        some += centres[own.choice(k, len(some), p=share / share.sum())]
        some /= np.linalg.norm(some, axis=1, keepdims=True)

    over(fill, range(0, n, BLOCK), hold=False)
    return out


def with_sklearn(algorithm: str) -> Callable[[Any, int], float]:
    from sklearn.cluster import KMeans

    def run(rows: Any, k: int) -> float:
        return float(KMeans(k, n_init=STARTS, algorithm=algorithm, random_state=0).fit(rows).inertia_)

    return run


def with_mini_batches(rows: Any, k: int) -> float:
    from sklearn.cluster import MiniBatchKMeans

    return float(MiniBatchKMeans(k, n_init=STARTS, random_state=0).fit(rows).inertia_)


def with_faiss(rows: Any, k: int) -> float:
    import faiss

    faiss.omp_set_num_threads(cores())
    found = faiss.Kmeans(
        rows.shape[1], k, nredo=STARTS, niter=25, seed=1, max_points_per_centroid=len(rows), min_points_per_centroid=1
    )
    found.train(rows)
    return float(found.index.search(rows, 1)[0].sum(dtype=np.float64))


def timed(run: Callable[[], float]) -> tuple[float, float]:
    """Seconds and inertia."""
    begun = time.perf_counter()
    inertia = run()
    return time.perf_counter() - begun, inertia


def measure(n: int, d: int, k: int) -> str:
    """One line of the table."""
    rows = rows_of(n, d, k)
    ours = timed(lambda: kmeans(rows, k, n_init=STARTS, unit_rows=False, device="cpu").inertia)
    rivals = (with_sklearn("lloyd"), with_sklearn("elkan"), with_mini_batches, with_faiss)
    found = [timed(lambda run=run: run(rows, k)) for run in rivals]  # type: ignore[misc]
    cells = [f"{seconds:.2f} s / {inertia / ours[1]:.4f}" for seconds, inertia in found]
    return f"| {n:,} x {d}, {k} | {ours[0]:.2f} s | " + " | ".join(cells) + " |"


def on_a_gpu(n: int, d: int, k: int) -> None:
    """Two runs on the GPU, the first of which loads its libraries, as JSON lines."""
    rows = rows_of(n, d, k)
    for turn in ("first", "again"):
        seconds, inertia = timed(lambda: kmeans(rows, k, n_init=STARTS, unit_rows=False, device="cuda").inertia)
        row = {"bench": "kmeans", "rows": n, "columns": d, "clusters": k, "starts": STARTS, "run": turn}
        print(json.dumps({**row, "seconds": round(seconds, 2), "inertia": round(inertia, 1)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    args = parser.parse_args()
    kmeans(np.eye(4), 2)  # compiles
    if args.gpu:
        for shape in ((117_659, 90, 45), (10**7, 128, 50)):
            on_a_gpu(*shape)
        return
    print(
        f"\n{cores()} threads, {STARTS} starts\n\n| rows, clusters | tuplet | Lloyd | Elkan | mini-batches | faiss |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for shape in [(500, 4, 3)] if args.quick else SHAPES:
        print(measure(*shape), flush=True)


if __name__ == "__main__":
    main()
