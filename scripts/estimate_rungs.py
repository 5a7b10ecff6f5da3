"""The cost model against the committed rungs of the scale ladder (DMAT-i on the 2-core machine), and for clusters.

The rungs of the GPU box are compared with the constants that were measured there (cluster/estimate-gpu.jsonl).

python scripts/estimate_rungs.py                         with the constants of the code
python scripts/estimate_rungs.py --calibrate -o est.jsonl    with this machine's, measured first
python scripts/estimate_rungs.py --constants C.json --rows R.jsonl -o est.jsonl    the rungs of a file, with those of
    `tuplet estimate .. --calibrate --json > C.json`, measured on the same machine before them
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from tuplet.bench.calibration import calibrate
from tuplet.bench.estimate import Machine, estimate
from tuplet.bench.gpu_cost import Gpu
from tuplet.bench.workload import Workload
from tuplet.filters import GraphFilter
from tuplet.filters.weights import ppr

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
ROWS, GPU = BENCHMARKS / "results" / "scale.jsonl", BENCHMARKS / "cluster" / "estimate-gpu.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--constants", type=Path)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()
    if args.constants:
        machine = machine_of(json.loads(args.constants.read_text())["machine"])
    else:
        machine = calibrate() if args.calibrate else Machine()
    print(json.dumps(asdict(machine)))
    found = []
    print("| rung | stage | measured s | estimated s | ratio |\n|---|---|---|---|---|")
    rows = rungs("2 cores") if args.rows is None else rungs("", args.rows)
    lines = [line for row in rows for line in compare(row, machine)]
    for line in [*lines, *(gpu_lines() if args.rows is None else [])]:
        found.append(line)
        print(f"| {line['rung']} | {line['stage']} | {line['measured']:.3g} | {line['estimated']:.3g} | "
              f"{line['ratio']:.2f} |")  # fmt: skip
    if args.rows is None:
        print_clusters(machine)
    if args.out:
        about = {"bench": "estimate", "calibrated": args.calibrate or args.constants is not None}
        rows = [{**about, "constants": asdict(machine)}, *({**about, **line} for line in found)]
        args.out.write_text("".join(json.dumps(row) + "\n" for row in rows))


def machine_of(values: dict) -> Machine:
    """The machine of those constants."""
    gpu = None if values["gpu"] is None else Gpu(**values["gpu"])
    return Machine(**{**values, "hop_ns": tuple(values["hop_ns"]), "gpu": gpu})


def print_clusters(machine: Machine) -> None:
    """Seconds of all stages on machines of 32 cores, 256 GB and 6.25 GB/s (half of 100 Gbit)."""
    large = machine.with_cores(32, 256 * 10**9, 6.25e9)
    print("\n| graph | machines | filter s | memory GB | network GB | train s | embed s | how |\n|" + "---|" * 8)
    for work, name in (
        (Workload(10**7, 4 * 10**8, 1000, layers=(64,)), "10^7 x 1000, 4*10^8 edges"),
        (Workload(10**9, 2 * 10**10, 128, layers=(64,)), "10^9 x 128, 2*10^10"),
        (Workload(10**9, 2 * 10**10, 1000, layers=(64,)), "10^9 x 1000, 2*10^10"),
        (Workload(2 * 10**9, 10**11, 128, layers=(64,)), "2*10^9 x 128, 10^11"),
    ):
        for count in (1, 8, 100):
            made = estimate(work, large, count)
            first, *rest = made.stages
            cells = [f"{first.seconds:.0f}", f"{first.memory / 1e9:.0f}", f"{first.network / 1e9:.0f}"]
            cells += [f"{stage.seconds:.0f}" for stage in rest]
            others = "".join(f"; by {way} {value:.0f} s" for way, value in made.others.items())
            print(f"| {name} | {count} | {' | '.join(cells)} | {made.advice}{others} |")


def rungs(machine: str, path: Path = ROWS) -> list[dict]:
    """The rows of DMAT-i whose machine has that word."""
    rows = map(json.loads, path.read_text().splitlines())
    return [row for row in rows if row["method"] == "DMAT-i" and machine in row["machine"] and "error" not in row]


def gpu_lines() -> list[dict]:
    """The rungs of the GPU box, by the constants that `tuplet estimate --calibrate` measured there."""
    machine = machine_of(json.loads(GPU.read_text().splitlines()[0])["constants"])
    return [{**line, "rung": f"{line['rung']}, H200"} for row in rungs("H200") for line in compare(row, machine)]


def workload(row: dict) -> Workload:
    """What that rung did."""
    settings, n = row["settings"], row["metrics"]["nodes"]
    products = GraphFilter(ppr(settings.get("alpha", 0.1)), tol=settings["tol"]).products()
    steps = settings["epochs"] * -(-n // settings["batch_size"])
    size, mask = 2 if settings.get("dtype") == "float16" else 4, settings.get("mask_fraction", 0.3)
    return Workload(n, row["metrics"]["stored_edges"], settings["n_features"], products, tuple(settings["layers"]),
                    settings["batch_size"], settings["n_views"], mask, steps, size)  # fmt: skip


def compare(row: dict, machine: Machine) -> list[dict]:
    """Measured and estimated seconds of each stage of a rung, and of all."""
    stages = {stage.name: stage.seconds for stage in estimate(workload(row), machine).stages}
    stages["all"] = sum(stages.values())
    measured = {**row["seconds"], "all": sum(row["seconds"][name] for name in ("filter", "train", "embed"))}
    return [
        {"rung": row["dataset"], "stage": name, "measured": measured[name], "estimated": round(value, 3),
         "ratio": round(value / measured[name], 3)}
        for name, value in stages.items()
    ]  # fmt: skip


if __name__ == "__main__":
    main()
