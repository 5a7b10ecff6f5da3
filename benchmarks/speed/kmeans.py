"""Speed of K-Means against scikit-learn's, the same rows and starts, in one run; prints Markdown.

    python benchmarks/speed/kmeans.py            # 117,659 x 90 in 45 clusters and smaller ones, some minutes
    python benchmarks/speed/kmeans.py --quick    # tiny rows, to see that it runs
    python benchmarks/speed/kmeans.py --gpu      # 10^7 x 128 on one GPU beside it

The ratio is scikit-learn's seconds over ours; the inertia's ratio is ours over theirs (below 1: ours is tighter).
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from tuplet._threads import cores
from tuplet.rows.kmeans import kmeans
from tuplet.rows.unit import scale_rows

SHAPES = ((2708, 14, 7), (18_333, 30, 15), (34_493, 10, 5), (117_659, 90, 45))


def rows_of(n: int, d: int, k: int, spread: float = 0.3) -> Any:
    """Unit rows around k overlapping centres of uneven sizes."""
    rng = np.random.default_rng(0)
    share = np.arange(1, k + 1.0)
    centres = 0.35 * rng.standard_normal((k, d), dtype=np.float32)
    noise = spread * rng.standard_normal((n, d), dtype=np.float32)
    return scale_rows(centres[rng.choice(k, n, p=share / share.sum())] + noise)


def measure(n: int, d: int, k: int, starts: int) -> list[Any]:
    from sklearn.cluster import KMeans

    rows = rows_of(n, d, k)
    begun = time.perf_counter()
    ours = kmeans(rows, k, n_init=starts, unit_rows=False, device="cpu")
    middle = time.perf_counter()
    theirs = KMeans(k, n_init=starts, random_state=0).fit(rows)
    mine, rival = middle - begun, time.perf_counter() - middle
    return [f"{n} x {d}, {k}", mine, rival, rival / mine, ours.inertia / theirs.inertia_]


def on_a_gpu(n: int, d: int, k: int) -> list[Any]:
    rows = rows_of(n, d, k)
    begun = time.perf_counter()
    found = kmeans(rows, k, n_init=1, unit_rows=False, device="cuda")
    return [f"{n} x {d}, {k}, GPU, one start", time.perf_counter() - begun, "", "", found.inertia]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    args = parser.parse_args()
    kmeans(np.eye(4), 2)  # compiles
    print(f"\n{cores()} threads, 20 starts\n\n| rows, clusters | tuplet s | scikit-learn s | ratio | inertia |")
    print("| --- | --- | --- | --- | --- |")
    shapes = [(500, 4, 3)] if args.quick else list(SHAPES)
    for row in [measure(*shape, 20) for shape in shapes] + ([on_a_gpu(10**7, 128, 50)] if args.gpu else []):
        print("| " + " | ".join(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row) + " |")


if __name__ == "__main__":
    main()
