"""Speed of the graph filter, against torch, SciPy, our own push and the memory's bandwidth; prints Markdown.

    python benchmarks/speed/filter.py            # all CPU sections, 2 threads, medians of 5: about half an hour
    python benchmarks/speed/filter.py --quick    # the same on tiny graphs, to see that it runs
    python benchmarks/speed/filter.py --only hop disk
    python benchmarks/speed/filter.py --gpu      # 10^7 nodes x 1000 columns on one GPU, about 90 GB of host memory

Every ratio is measured within one run, and the ways that are compared take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

THREADS = 2
if "--gpu" not in sys.argv:
    for _name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_name] = str(THREADS)

import numpy as np  # noqa: E402  (the thread counts above must be set first)

from tuplet.filters import GraphFilter  # noqa: E402
from tuplet.filters._operator import make_operator  # noqa: E402
from tuplet.filters.weights import custom, ppr  # noqa: E402
from tuplet.filters.widths import free_width  # noqa: E402
from tuplet.graph import Graph  # noqa: E402
from tuplet.graph.synth import rmat  # noqa: E402

ALPHA, ERROR = 0.1, 1e-3


def medians(ways: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Median seconds of each way; they take turns, so that a busy moment hits all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()  # compiles, and touches the memory
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def table(title: str, head: list[str], rows: list[list[Any]]) -> None:
    """Print a Markdown table."""
    text = [[f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    print(f"\n**{title}**\n")
    for row in (head, ["---"] * len(head), *text):
        print("| " + " | ".join(row) + " |")
    sys.stdout.flush()


def shapes(quick: bool) -> list[tuple[int, int]]:
    """Nodes and columns of the two graphs that most sections use."""
    return [(2_000, 256), (5_000, 64)] if quick else [(100_000, 1024), (1_000_000, 128)]


def features(n: int, f: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Gaussian features, float32 (n, f)."""
    return np.random.default_rng(seed).standard_normal((n, f), dtype=np.float32)


def copy_bandwidth(size: int) -> float:
    """Bytes a second, read and written, of a parallel copy of arrays of `size` bytes."""
    import numba

    @numba.njit(parallel=True)  # type: ignore[untyped-decorator]
    def copy(a: Any, b: Any) -> None:
        for i in numba.prange(a.shape[0]):
            b[i] = a[i]

    a = np.ones(size // 4, np.float32)
    b = np.zeros_like(a)
    return 2 * a.nbytes / medians({"copy": lambda: copy(a, b)})["copy"]


def hop_section(quick: bool) -> None:
    """One hop against torch's and SciPy's CSR product, and against what the memory allows."""
    import torch

    from tuplet.kernels.spmm import hop

    torch.set_num_threads(THREADS)
    rows = []
    for n, f in shapes(quick):
        g, z = rmat(n, seed=0), features(n, f)
        op, rival = make_operator(g), g.adj
        inverse = op.inverse
        width = free_width(n, g.n_stored, f)
        blocks = [np.ascontiguousarray(z[:, i : i + width]) for i in range(0, f, width)]  # as the filter keeps them
        outs = [np.empty_like(block) for block in blocks]

        def hops(op: Any = op, inverse: Any = inverse, blocks: Any = blocks, outs: Any = outs) -> None:
            for block, out in zip(blocks, outs):
                hop(op.indptr, op.indices, None, inverse, block, block, out)

        matrix = torch.sparse_csr_tensor(
            torch.from_numpy(g.indptr.astype(np.int32)),
            torch.from_numpy(g.indices),
            torch.from_numpy(rival.data),
            size=(n, n),
            check_invariants=False,
        )
        dense = torch.from_numpy(z)
        seconds = medians(
            {
                "tuplet": hops,
                "torch": lambda: matrix @ dense,  # noqa: B023
                "scipy": lambda: rival @ z,  # noqa: B023
            }
        )
        speed = copy_bandwidth(z.nbytes)
        ours = seconds["tuplet"]
        floor = (2 * z.nbytes + g.indices.nbytes * len(blocks)) / speed
        gathers = (g.n_stored + 2 * n) * 4 * f / speed
        rows.append(
            [
                f"{n:,} x {f}",
                ours,
                seconds["torch"],
                seconds["scipy"],
                f"{seconds['torch'] / ours:.2f}x",
                f"{seconds['scipy'] / ours:.2f}x",
                f"{speed / 1e9:.1f} GB/s",
                f"{ours / floor:.1f}x",
                f"{ours / gathers:.2f}x",
            ]
        )
    head = ["graph", "tuplet s", "torch s", "SciPy s", "torch / tuplet", "SciPy / tuplet", "copy"]
    table(
        "One hop, blocks of columns as the filter takes them, 2 threads",
        [*head, "over compulsory bytes", "over every gather at copy speed"],
        rows,
    )


def series_section(quick: bool) -> None:
    """PageRank to a relative error of 1e-3: exact against push at the r_max that gets there."""
    rows = []
    for n, f in shapes(quick):
        g, x = rmat(n, seed=0), features(n, f)
        few = np.ascontiguousarray(x[:, :2])
        exact = GraphFilter(ppr(ALPHA), tol=1e-7).transform(g, x=few)

        def error(spec: GraphFilter, g: Graph = g, few: Any = few, exact: Any = exact) -> float:
            return float(np.linalg.norm(spec.transform(g, x=few) - exact) / np.linalg.norm(exact))

        ours = next(
            spec
            for tol in (4e-3, 2e-3, 1e-3, 5e-4, 2e-4)
            if error(spec := GraphFilter(ppr(ALPHA), tol=tol, device="cpu")) <= ERROR
        )
        push = push_that_reaches(error, n)
        whole, g = g.with_(x=x), g
        seconds = medians({"exact": lambda whole=whole: ours.transform(whole)}, 1 if quick else 5)["exact"] / f  # noqa: B023
        pushed = medians({"push": lambda g=g: push.transform(g, x=few)}, 1 if quick else 5)["push"] / 2  # noqa: B023
        rows.append(
            [
                f"{n:,} x {f}",
                f"{ours.tol:g} ({ours.estimate(whole).products} products)",
                error(ours),
                f"{1e3 * seconds:.3g}",
                f"{push.r_max:.2g}",
                error(push),
                f"{1e3 * pushed:.4g}",
                f"{pushed / seconds:.0f}x",
            ]
        )
    head = ["graph", "tol", "error", "ms a column", "push r_max", "its error", "its ms a column", "push / exact"]
    table(f"PageRank, alpha {ALPHA}, relative error {ERROR:g}, 2 threads", head, rows)


def push_that_reaches(error: Callable[[GraphFilter], float], n: int) -> GraphFilter:
    """Push with the r_max whose error is just within ERROR; the error is about linear in r_max."""
    r_max = 0.03 / n
    while True:
        push = GraphFilter(ppr(ALPHA), method="push", r_max=r_max)
        seen = error(push)
        if seen <= ERROR:
            return push
        r_max *= min(0.9, 0.9 * ERROR / seen)


def slope_section(quick: bool) -> None:
    """Seconds against the number of nodes, 20 edges a node, 64 columns."""
    sizes = (1_000, 3_000, 10_000) if quick else (10_000, 30_000, 100_000, 300_000, 1_000_000)
    rows = []
    for n in sizes:
        g = rmat(n, seed=0).with_(x=features(n, 64))
        spec = GraphFilter(ppr(ALPHA), tol=ERROR, device="cpu")
        rows.append([n, g.n_edges, medians({"f": lambda g=g, spec=spec: spec.transform(g)})["f"]])
    slope = np.polyfit(np.log([row[0] for row in rows]), np.log([row[2] for row in rows]), 1)[0]
    table("Cost against size, 64 columns, tol 1e-3", ["nodes", "edges", "seconds"], rows)
    print(f"\nSlope on log axes: {slope:.2f} (1 is linear).")


CHILD = """
import re, sys, time
import numpy as np
from tuplet import Graph, GraphFilter
folder = sys.argv[1]
load = lambda name: np.load(f"{folder}/{name}.npy", mmap_mode="r")
g = Graph(load("indptr"), load("indices"), x=load("x"))
start = time.perf_counter()
GraphFilter(tol=1e-3, device="cpu").transform(g, out=f"{folder}/rows.npy", memory=sys.argv[2])
seconds = time.perf_counter() - start
status = open("/proc/self/status").read()  # VmHWM: ru_maxrss would count what the parent had at the fork
print(seconds, int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) * 1024)
"""


def disk_section(quick: bool) -> None:
    """From memory map to memory map under a budget; peak memory as the system saw it in a process of its own."""
    n, f, budget = (20_000, 100, "400MB") if quick else (1_000_000, 1000, "2GB")
    with tempfile.TemporaryDirectory() as folder:
        g = rmat(n, seed=0)
        np.save(f"{folder}/indptr.npy", g.indptr)
        np.save(f"{folder}/indices.npy", g.indices)
        x = np.lib.format.open_memmap(f"{folder}/x.npy", "w+", np.float32, (n, f))
        for start in range(0, n, 10_000):
            x[start : start + 10_000] = features(min(10_000, n - start), f, seed=start)
        x.flush()
        del x
        command = [sys.executable, "-c", CHILD, folder, budget]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds, peak = map(float, run.stdout.split())
        rows = np.load(f"{folder}/rows.npy", mmap_mode="r")
        few = np.load(f"{folder}/x.npy", mmap_mode="r")[:, :2]
        exact = GraphFilter(tol=1e-3, device="cpu").transform(g, x=np.ascontiguousarray(few))
        agree = float(np.abs(rows[:, :2] - exact).max())
    row = [f"{n:,} x {f}", budget, f"{peak / 1e9:.2f} GB", seconds, agree]
    table("From file to file", ["rows", "memory=", "peak RSS", "seconds", "largest difference from in memory"], [row])


def gpu_section(quick: bool) -> None:
    """10^7 nodes x 1000 columns, 4x10^8 stored edges, 10 hops on one GPU."""
    import torch

    from tuplet.filters._gpu import DeviceFilter
    from tuplet.filters._operator import make_plan

    n, f = (20_000, 200) if quick else (10_000_000, 1000)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    start = time.perf_counter()
    g = rmat_on_device(n, 20 * n, device)
    print(f"R-MAT made in {time.perf_counter() - start:.1f} s: {g}", flush=True)
    start = time.perf_counter()
    x = parallel_features(n, f)
    print(f"host features made in {time.perf_counter() - start:.1f} s: {x.nbytes / 1e9:.1f} GB", flush=True)
    weights = custom([float(w) for w in ppr(ALPHA).coefficients(10)])
    spec = GraphFilter(weights, series="power", tol=1e-9, device=device)
    small = rmat(2000, 5)
    spec.transform(small, x=features(2000, 8))  # wakes CUDA, cuSPARSE and the compiled loops
    op = make_operator(g)
    on_device = DeviceFilter(op, make_plan(weights, 1e-9, "power", True), 0.5, device)
    blocks = [torch.ones(n, min(f, 128), device=device) for _ in range(3)]
    sync = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    alone = []
    for _ in range(3):
        start = time.perf_counter()
        on_device.apply(*blocks)
        sync()
        alone.append(time.perf_counter() - start)
    del on_device, blocks, op
    if device == "cuda":
        torch.cuda.empty_cache()
    start = time.perf_counter()
    rows = spec.transform(g.with_(x=x))
    seconds = time.perf_counter() - start
    print(
        f"products alone: {min(alone) * f / min(f, 128):.2f} s for {f} columns; filter: {seconds:.2f} s", flush=True
    )
    few = np.ascontiguousarray(x[:, :: max(1, f // 3)])
    want = GraphFilter(weights, series="power", tol=1e-9, device="cpu").transform(g, x=few)
    error = np.linalg.norm(rows[:, :: max(1, f // 3)] - want) / np.linalg.norm(want)
    head = ["rows", "stored edges", "products", "products alone s", "filter s", "relative difference from the CPU"]
    row = [f"{n:,} x {f}", g.n_stored, 10, min(alone) * f / min(f, 128), seconds, f"{error:.1e}"]
    table("Through one GPU, features and result in host memory", head, [row])


def rmat_on_device(n: int, edges: int, device: str, chunk: int = 2**25) -> Graph:
    """R-MAT as in `tuplet.graph.synth`, drawn and sorted by torch: exactly `edges` undirected edges."""
    import torch

    rng = torch.Generator(device).manual_seed(0)
    keys = torch.empty(0, dtype=torch.int64, device=device)
    while len(keys) < edges:
        want = int((edges - len(keys)) * 1.15) + 1000
        parts = [keys, *(draw_on_device(n, min(chunk, want - i), rng, device) for i in range(0, want, chunk))]
        keys = torch.unique(torch.cat(parts))
    if len(keys) > edges:
        drop = torch.randperm(len(keys), generator=rng, device=device)[: len(keys) - edges]
        keep = torch.ones(len(keys), dtype=torch.bool, device=device)
        keep[drop] = False
        keys = keys[keep]
    both = torch.cat([keys, keys % n * n + keys // n])
    del keys
    both = both.sort().values
    indptr = torch.searchsorted(both, torch.arange(n + 1, device=device) * n)
    indices = (both % n).to(torch.int32)
    return Graph(indptr.cpu().numpy(), indices.cpu().numpy(), name="rmat")


def draw_on_device(n: int, count: int, rng: Any, device: str) -> Any:
    """Keys u * n + v with u < v of `count` draws, less those outside n x n and loops."""
    import torch

    u = torch.zeros(count, dtype=torch.int64, device=device)
    v = torch.zeros_like(u)
    for _ in range((n - 1).bit_length()):
        part = torch.rand(count, generator=rng, device=device)
        u = 2 * u + (part >= 0.67)
        v = 2 * v + (((part >= 0.45) & (part < 0.67)) | (part >= 0.89))
    good = (u < n) & (v < n) & (u != v)
    u, v = u[good], v[good]
    return torch.minimum(u, v) * n + torch.maximum(u, v)


def parallel_features(n: int, f: int) -> np.ndarray[Any, Any]:
    """Uniform features, float32 (n, f), filled by all cores."""
    from concurrent.futures import ThreadPoolExecutor

    x = np.empty((n, f), np.float32)
    step = max(1, 2**26 // (4 * f))

    def fill(start: int) -> None:
        np.random.default_rng(start).random(dtype=np.float32, out=x[start : start + step])

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(0, n, step)))
    return x


SECTIONS = {"hop": hop_section, "series": series_section, "slope": slope_section, "disk": disk_section}


def main() -> None:
    """Run the sections that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny graphs, to see that it runs")
    parser.add_argument("--gpu", action="store_true", help="the GPU section only")
    parser.add_argument(
        "--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="some of the CPU sections"
    )
    chosen = parser.parse_args()
    if chosen.gpu:
        gpu_section(chosen.quick)
        return
    for name in chosen.only:
        SECTIONS[name](chosen.quick)


if __name__ == "__main__":
    main()
