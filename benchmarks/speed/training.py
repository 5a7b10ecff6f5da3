"""Training: what cheap views and tiles save, seconds to a quality, memory against batch size, and the GPU's step.

    python benchmarks/speed/training.py                 CPU; reads coauthor-phy and cora (TUPLET_DATA)
    python benchmarks/speed/training.py --quick         the same on tiny sizes, to see that it runs
    python benchmarks/speed/training.py --gpu           the GPU's sections
    python benchmarks/speed/training.py views loss      some sections only; --out FILE appends JSON rows

Ratios come from one run, the two sides taking turns. A section that fails prints its traceback and the next goes on.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tuplet import GraphFilter, load_dataset
from tuplet.filters.weights import ppr
from tuplet.losses import dmati_anchor, dmati_loss, dmati_pair, to_unit
from tuplet.metrics import accuracy as accuracy_of
from tuplet.rows.unit import unit_features
from tuplet.training.batches import step_indices
from tuplet.training.encoder import encode, make_encoder
from tuplet.training.loop import TrainConfig, train
from tuplet.training.views import draw_columns, mask_columns, picks_kept, views_backward

Row = dict[str, Any]


def training_rows(name: str, alpha: float) -> np.ndarray:
    graph = load_dataset(name)
    with unit_features(graph.x) as x:
        return GraphFilter(ppr(alpha)).transform(graph, x=x)


def views(quick: bool) -> Iterator[Row]:
    """An epoch with cheap views against one that builds each masked batch: mask .1, 5 views, 8415 columns."""
    if quick:
        rows = np.random.default_rng(0).random((256, 500), dtype=np.float32)
    else:
        rows = training_rows("coauthor-phy", 0.08)
    n, f = rows.shape
    batch, n_views, mask, t = (64 if quick else 512), 5, 0.1, 0.5
    steps = -(-n // batch)
    for layers in ((256, 256), (256, 512)):
        cheap, built = make_encoder(f, layers), make_encoder(f, layers)
        seconds, worst = {"cheap": 0.0, "built": 0.0}, 0.0
        optimizers = {
            name: torch.optim.AdamW(e.parameters(), fused=True) for name, e in (("cheap", cheap), ("built", built))
        }

        def cheap_step(x: torch.Tensor, columns: torch.Tensor, encoder: Any = cheap) -> float:
            optimizers["cheap"].zero_grad(set_to_none=False)  # noqa: B023
            kept = picks_kept(f, mask)
            loss = views_backward(
                encoder, x, columns, lambda u: dmati_anchor(u, t), lambda a, v: dmati_pair(a, v, t), kept=kept
            )
            optimizers["cheap"].step()  # noqa: B023
            return loss.item()

        def built_step(x: torch.Tensor, columns: torch.Tensor, encoder: Any = built) -> float:
            optimizers["built"].zero_grad(set_to_none=False)  # noqa: B023
            u = encoder(x)
            loss = torch.stack([dmati_loss(u, encoder(mask_columns(x, c)), temperature=t) for c in columns]).mean()
            loss.backward()
            optimizers["built"].step()  # noqa: B023
            return loss.item()

        for step, index in step_indices(n, batch, 0, 0, steps):
            x = to_unit(torch.from_numpy(rows[index]))
            columns = torch.from_numpy(draw_columns(0, step, f, n_views, mask))
            cheap.load_state_dict(built.state_dict())  # the same weights, so that the losses can be compared
            losses = []
            for name, run in (("cheap", cheap_step), ("built", built_step)):
                start = time.perf_counter()
                losses.append(run(x, columns))
                seconds[name] += time.perf_counter() - start
            worst = max(worst, abs(losses[0] - losses[1]) / abs(losses[1]))
        ratio = seconds["built"] / seconds["cheap"]
        yield {"layers": layers, "columns": f, "steps": steps, **seconds, "ratio": ratio, "loss_difference": worst}


PEAK = """
import sys, time, numpy as np, torch
from pathlib import Path

def peak():  # megabytes; ru_maxrss would carry the parent's over
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) / 1024

def forget():
    Path("/proc/self/clear_refs").write_text("5")
    return peak()
"""
MEMORY = """
from tuplet.losses import dmati_loss
b = int(sys.argv[1])
g = torch.Generator().manual_seed(0)
u, v = (torch.randn(b, 128, generator=g).requires_grad_() for _ in range(2))
dmati_loss(u[:64], v[:64], temperature=0.5).backward()
before, start = forget(), time.perf_counter()
if sys.argv[2] == "ours":
    dmati_loss(u, v, temperature=0.5).backward()
else:
    w = torch.nn.functional.normalize(torch.cat([u, v]))
    logits = (w @ w.T / 0.5).fill_diagonal_(-torch.inf)
    target = torch.arange(2 * b).roll(b)
    torch.nn.functional.cross_entropy(logits, target).backward()
print(peak() - before, time.perf_counter() - start)
"""


def loss(quick: bool) -> Iterator[Row]:
    """Peak extra memory and seconds of the DMAT-i loss, forward and backward, against the batch size; d = 128."""
    for b in (256, 512) if quick else (512, 1024, 2048, 4096, 8192, 16384):
        for kind in ("ours", "plain") if b <= 4096 else ("ours",):
            done = subprocess.run(
                [sys.executable, "-c", PEAK + MEMORY, str(b), kind], capture_output=True, text=True, check=True
            )
            megabytes, seconds = map(float, done.stdout.split())
            yield {
                "batch": b,
                "kind": kind,
                "peak_extra_MB": megabytes,
                "seconds": seconds,
                "matrix_MB": 16 * b * b / 1e6,
            }


STEP_MEMORY = """
from tuplet.training.encoder import make_encoder
from tuplet.metrics import accuracy as accuracy_of
from tuplet.training.loop import TrainConfig, train
b, views = int(sys.argv[1]), int(sys.argv[2])
rows = np.ones((2 * b, 1000), np.float32)
train(make_encoder(1000, (8, 4)), rows[:64], TrainConfig(batch_size=32, max_steps=1))
before = forget()
train(make_encoder(1000, (256, 128)), rows, TrainConfig(batch_size=b, n_views=views, max_steps=2))
print(peak() - before)
"""


def memory(quick: bool) -> Iterator[Row]:
    """Peak memory of a training step against the batch size and the number of views, 1000 columns, 256-128."""
    for b in (128, 256) if quick else (512, 2048, 8192):
        for n_views in (1, 5):
            done = subprocess.run(
                [sys.executable, "-c", PEAK + STEP_MEMORY, str(b), str(n_views)],
                capture_output=True,
                text=True,
                check=True,
            )
            yield {"batch": b, "views": n_views, "peak_extra_MB": float(done.stdout)}


def quality(quick: bool) -> Iterator[Row]:
    """Cora with the defaults: seconds an epoch, accuracy, seconds to a mean of 72.0; and SelfDMAT from end to end."""
    from tuplet import DMATi, SelfDMAT, cluster_nodes

    graph = load_dataset("cora")
    seeds = range(1 if quick else 5)
    accuracy: dict[int, list[float]] = {}
    seconds: dict[int, list[float]] = {}
    final = []
    for seed in seeds:
        model = DMATi(seed=seed, max_steps=12 if quick else None)
        rows = model._rows(graph, None)
        config = model.train_config()
        encoder = make_encoder(rows.shape[1], model.layers, seed)
        n_steps, per_epoch, spent = config.n_steps(len(rows)), -(-len(rows) // config.batch_size), 0.0

        def measured(phase: str, done: float, encoder: Any = encoder, rows: Any = rows, seed: int = seed) -> None:
            nonlocal spent, began
            step = round(done * n_steps)  # noqa: B023
            if step % per_epoch and step != n_steps:  # noqa: B023
                return
            spent += time.perf_counter() - began
            value = cluster_nodes(encode(encoder, rows), graph, seed=seed).values["accuracy"]
            accuracy.setdefault(step, []).append(value)
            seconds.setdefault(step, []).append(spent)
            began = time.perf_counter()

        began = time.perf_counter()
        train(encoder, rows, config, seed=seed, progress=measured)
        final.append(accuracy[n_steps][-1])
        yield {"seed": seed, "seconds": spent, "seconds_an_epoch": spent * per_epoch / n_steps, "accuracy": final[-1]}
    means = {step: float(np.mean(values)) for step, values in accuracy.items()}
    reached = [step for step, value in means.items() if round(value, 1) >= 72]
    yield {
        "mean_accuracy": float(np.mean(final)),
        "deviation": float(np.std(final)),
        "first_step_with_mean_72": reached[0] if reached else None,
        "seconds_to_72": float(np.mean(seconds[reached[0]])) if reached else None,
        "mean_accuracy_by_step": {step: round(value, 1) for step, value in means.items()},
    }
    for seed in seeds:
        began = time.perf_counter()
        model = SelfDMAT(graph.n_classes, seed=seed).fit(graph.with_(y=None))
        spent = time.perf_counter() - began
        found = accuracy_of(graph.y, model.labels_)
        yield {"method": "SelfDMAT", "seed": seed, "seconds": spent, "accuracy": 100 * found}


def pace(history: Any) -> float:
    """Milliseconds a step between the first and the last row of a history: warm-up and recording left out."""
    first, last = history.rows[0], history.rows[-1]
    return 1000 * (last["seconds"] - first["seconds"]) / (last["step"] - first["step"])


def gpu_step(quick: bool) -> Iterator[Row]:
    """Step time, eager and recorded, at several batch sizes: 1000 columns, 256-128, 2 views; and their losses."""
    steps = 60 if quick else 3000
    for batch in (512,) if quick else (512, 4096, 16384):
        rows = torch.rand(max(batch * 4, 65536), 1000, device="cuda")
        wanted = max(40, steps * 512 // batch)
        losses, row = {}, {"batch": batch}
        for name, options in (("eager", {"capture": False}), ("recorded", {}), ("recorded_tf32", {"tf32": True})):
            config = TrainConfig(
                batch_size=batch, n_views=2, mask_fraction=0.3, max_steps=wanted, check_every=wanted // 4, **options
            )
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            history = train(make_encoder(1000, (256, 128)), rows, config, device="cuda")
            row[f"{name}_ms"] = pace(history)
            row[f"{name}_MB"] = (torch.cuda.max_memory_allocated() - before) / 1e6
            losses[name] = np.array(history.loss)
        row["recorded_loss_difference"] = float(np.abs(losses["recorded"] / losses["eager"] - 1).max())
        row["tf32_loss_difference"] = float(np.abs(losses["recorded_tf32"] / losses["eager"] - 1).max())
        row["loss"] = float(losses["eager"][-1])
        yield row


def gpu_host(quick: bool) -> Iterator[Row]:
    """The same step with rows in host memory, read ahead by a thread: batch 512 and 4096."""
    from tuplet.training import batches

    share, batches.RESIDENT_SHARE = batches.RESIDENT_SHARE, 0.0
    try:
        rows = np.random.default_rng(0).random((20_000 if quick else 1_000_000, 1000), dtype=np.float32)
        for batch in (512, 4096):
            config = TrainConfig(batch_size=batch, n_views=2, max_steps=40 if quick else 400, check_every=10)
            yield {"batch": batch, "ms": pace(train(make_encoder(1000, (256, 128)), rows, config, device="cuda"))}
    finally:
        batches.RESIDENT_SHARE = share


def gpu_epoch(quick: bool) -> Iterator[Row]:
    """One epoch over 10^7 x 1000 rows on the GPU (40 GB in float32, 20 GB in float16) at batch 4096."""
    n = 100_000 if quick else 10_000_000
    for kind in (torch.float32, torch.float16):
        rows = torch.empty((n, 1000), dtype=kind, device="cuda")
        for start in range(0, n, 500_000):
            rows[start : start + 500_000] = torch.rand(min(500_000, n - start), 1000, device="cuda").to(kind)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        config = TrainConfig(batch_size=4096, n_views=2, epochs=1, check_every=500)
        start_time = time.perf_counter()
        history = train(make_encoder(1000, (256, 128)), rows, config, device="cuda")
        seconds = time.perf_counter() - start_time
        peak = (torch.cuda.max_memory_allocated() - before) / 1e6
        yield {"rows": n, "type": str(kind), "seconds": seconds, "ms_a_step": pace(history), "extra_MB": peak}
        del rows
        torch.cuda.empty_cache()


def gpu_quality(quick: bool) -> Iterator[Row]:
    """Accuracy on two graphs with float32 and with tf32 products, five seeds each."""
    from tuplet import DMATi, cluster_nodes

    for name in ("cora", "acm"):
        try:
            graph = load_dataset(name)
        except ValueError as error:
            yield {"dataset": name, "left_out": str(error)}
            continue
        for tf32 in (False, True):
            scores = []
            for seed in range(1 if quick else 5):
                z = DMATi(seed=seed, tf32=tf32, device="cuda").fit_transform(graph)
                scores.append(cluster_nodes(z, graph, seed=seed).values["accuracy"])
            yield {
                "dataset": name,
                "tf32": tf32,
                "accuracy": float(np.mean(scores)),
                "deviation": float(np.std(scores)),
            }


CPU: list[Callable[[bool], Iterator[Row]]] = [views, loss, memory, quality]
GPU: list[Callable[[bool], Iterator[Row]]] = [gpu_step, gpu_epoch, gpu_host, gpu_quality]


def show(row: Row) -> str:
    return "  ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help=", ".join(f.__name__ for f in CPU + GPU))
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, help="append JSON rows to this file")
    options = parser.parse_args()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {device}")
    failed = 0
    for section in CPU + GPU:
        wanted = (
            section.__name__ in options.sections if options.sections else section in (GPU if options.gpu else CPU)
        )
        if not wanted:
            continue
        print(f"\n{section.__name__}: {section.__doc__}", flush=True)
        try:
            for row in section(options.quick):
                print("  " + show(row), flush=True)
                if options.out is not None:
                    facts = {
                        "bench": "training",
                        "section": section.__name__,
                        "device": device,
                        "quick": options.quick,
                    }
                    with options.out.open("a") as file:
                        file.write(json.dumps({**facts, **row}) + "\n")
        except Exception:
            failed += 1
            traceback.print_exc()
    print(f"\npeak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
