"""The cost model: more machines are never slower by much, what does not fit is told, numbers follow the sizes."""

from __future__ import annotations

import json
import runpy
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Run
from tuplet.bench import gpu_cost
from tuplet.bench.calibration import _convert_ns, calibrate
from tuplet.bench.estimate import Machine, convert_stage, estimate, workload_of
from tuplet.bench.gpu_cost import Gpu
from tuplet.bench.workload import Workload
from tuplet.filters import GraphFilter
from tuplet.filters.on_device import filter_in_blocks
from tuplet.filters.partition import runs
from tuplet.filters.row_parts import halo_rows
from tuplet.graph.synth import rmat
from tuplet.io.folder import save_graph

ROOT = Path(__file__).parents[1]
LARGE = Workload(n=10**9, stored=2 * 10**10, f=128)
BIG = Machine().with_cores(32, 256 * 10**9)


def test_twice_the_edges_take_twice_the_products() -> None:
    one, two = (estimate(Workload(10**6, stored, 100)).stages[0].seconds for stored in (10**8, 2 * 10**8))
    moved = Machine().moving(4 * 10**6 * 100 * 3, 2 * 4 * 10**8)
    assert two - moved == pytest.approx(2 * (one - moved))


def test_more_machines_take_less_time_until_tasks_have_16_columns() -> None:
    seconds = [estimate(LARGE, BIG, machines).stages[0].seconds for machines in (1, 2, 4, 8, 100)]
    assert seconds[:4] == sorted(seconds[:4], reverse=True)
    assert seconds[4] <= seconds[3] * 1.01


def test_edges_that_do_not_fit_one_machine_are_shared_by_rows_or_told() -> None:
    huge = Workload(n=2 * 10**9, stored=10**11, f=128)
    for machines, word in ((1, "machines would do"), (100, "100 groups of rows")):
        found = estimate(huge, BIG, machines)
        assert found.fits == (machines == 100) and word in found.advice and not found.others
    small = estimate(huge, Machine(), 1)
    assert not small.fits and "More than 256" in small.advice
    assert estimate(LARGE, BIG, 8).fits


def test_a_network_decides_between_columns_and_rows() -> None:
    """100 machines have 8 tasks of 16 columns; by rows all of them work, and exchange much."""
    slow, fast = (BIG.with_cores(32, BIG.memory, rate) for rate in (1e8, 1e11))
    assert "by columns" in estimate(LARGE, slow, 100).advice and "rows" in estimate(LARGE, slow, 100).others
    assert "groups of rows" in estimate(LARGE, fast, 100).advice and "columns" in estimate(LARGE, fast, 100).others


def test_a_slow_network_makes_one_worker_the_fastest() -> None:
    slow, fast = (estimate(LARGE, Machine(memory=BIG.memory, network=rate), 8) for rate in (1e6, 1e11))
    assert slow.advice.endswith("training by 1 worker") and slow.stages[1].network == 0
    assert fast.advice.endswith("training by 8 workers") and fast.stages[1].network > 0


@pytest.mark.parametrize("groups", [2, 3])
def test_the_halo_is_that_of_the_groups(groups: int) -> None:
    """Counted naively: the rows beyond a group's own that its edges name."""
    graph = rmat(300, 4, seed=2)
    bounds = runs(graph, groups).bounds
    counts = []
    for low, high in pairwise(bounds):
        named = set(graph.indices[graph.indptr[low] : graph.indptr[high]].tolist())
        counts.append(len(named - set(range(low, high))))
    assert halo_rows(graph, groups) == max(counts)
    x = np.ones((300, 20), np.float32)
    assert workload_of(graph.with_(x=x), groups).halo_rows(groups) == max(counts)
    assert max(counts) <= Workload(300, graph.n_stored, 20).halo_rows(groups) * 1.2  # as random edges would have it


def test_the_calibrated_constants_are_within_a_factor_of_one_and_a_half_of_the_ladder() -> None:
    """The committed rows of scripts/estimate_rungs.py --calibrate, 10^5 to 10^7 nodes."""
    rows = [json.loads(line) for line in (ROOT / "benchmarks/cluster/estimate.jsonl").read_text().splitlines()]
    ratios = [row["ratio"] for row in rows if row.get("rung") in ("rmat-1e5", "rmat-1e6", "rmat-1e7")]
    assert len(ratios) == 12 and 1 / 1.5 < min(ratios) <= max(ratios) < 1.5


def test_the_constants_of_the_gpu_box_are_within_a_factor_of_one_and_a_half_of_its_rung_of_10_to_the_8() -> None:
    """The committed constants and the committed rung, as scripts/estimate_rungs.py compares them."""
    lines = runpy.run_path(str(ROOT / "scripts/estimate_rungs.py"))["gpu_lines"]()
    ratios = {line["stage"]: line["ratio"] for line in lines if line["rung"] == "rmat-1e8, H200"}
    assert set(ratios) == {"filter", "train", "embed", "all"}
    assert 1 / 1.5 < min(ratios.values()) <= max(ratios.values()) < 1.5


GPU = Gpu(memory=140 * 10**9, hop_ns=0.003, edge_ns=2, wide_ns=0.2, narrow_ns=0.6, step_s=0.001, row_ns=100,
          gflops=2e4, shuffle_ns=50, load=5e9, stream=3e9)  # fmt: skip


def test_a_gpu_gives_the_seconds_of_a_machine_that_is_alone() -> None:
    """Counted by hand: 10^8 nodes in blocks of 32 columns; a graph without room there stays with the CPU."""
    work = Workload(10**8, 2 * 10**9, 128, products=7, layers=(256, 64), batch=4096, steps=1000, bytes_a_value=2)
    plain, with_gpu = Machine(memory=10**11), replace(Machine(memory=10**11), gpu=GPU)
    found = [stage.seconds for stage in estimate(work, with_gpu).stages]
    step = 0.001 + 4096 * 150e-9 + work.flops(4096, training=True) / 2e13
    assert found[0] == pytest.approx(7 * 2e9 * 128 * 0.003e-9 + 2e9 * 2e-9 + 1.28e10 * 0.6e-9)
    assert found[1] == pytest.approx(1000 * step + 25.6e9 / 5e9)
    assert found[2] == pytest.approx(38.4e9 / 3e9 + work.flops(10**8, training=False) / 2e13)
    small = replace(with_gpu, gpu=replace(GPU, memory=10**9))
    assert estimate(work, small).stages[0] == estimate(work, plain).stages[0]
    assert estimate(work, with_gpu, 2) == estimate(work, plain, 2)


def test_a_gpu_is_measured_by_runs_that_a_cpu_can_stand_in_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_cost, "_BATCHES", (16, 64))
    found = gpu_cost.measured_gpu("cpu", n=512, steps=3)
    assert min(found.stream, found.gflops, found.shuffle_ns) > 0
    assert found.narrow_ns >= found.wide_ns >= 0 and min(found.hop_ns, found.edge_ns) >= 0


@pytest.mark.parametrize("columns", [1, 7, 20])
def test_blocks_of_a_given_width_are_those_of_the_filter(columns: int) -> None:
    x = np.random.default_rng(0).random((200, 20), dtype=np.float32)
    graph, spec, out = rmat(200, 5, seed=0).with_(x=x), GraphFilter(), np.empty((200, 20), np.float32)
    filter_in_blocks(spec, graph, out, "cpu", columns)
    np.testing.assert_allclose(out, spec.transform(graph), rtol=2e-5)


def test_constants_come_back_from_what_the_verb_prints() -> None:
    script = runpy.run_path(str(ROOT / "scripts/estimate_rungs.py"))
    for machine in (Machine(), replace(Machine(), gpu=GPU)):
        assert script["machine_of"](json.loads(json.dumps(asdict(machine)))) == machine


def test_costs_that_were_put_in_are_found_again() -> None:
    counts = [[1, 10, 100], [1, 20, 300], [1, 40, 200], [1, 80, 900]]
    seconds = [5 + 0.1 * b + 0.02 * c for _, b, c in counts]
    assert gpu_cost._parts(counts, seconds) == pytest.approx([5, 0.1, 0.02])


def test_the_memory_of_training_does_not_grow_with_the_graph() -> None:
    small, large = (estimate(Workload(n, 20 * n, 100)).stages[1].memory for n in (10**4, 10**8))
    assert small == large


def test_only_several_workers_need_a_network() -> None:
    assert all(stage.network == 0 for stage in estimate(LARGE, BIG, 1).stages)
    assert all(stage.network > 0 for stage in estimate(LARGE, BIG, 2).stages if stage.name != "train")


def test_narrow_blocks_take_longer_for_a_column() -> None:
    ratios = [BIG.hop_time(10**6, width) / BIG.hop_time(10**6) for width in (1, 4, 8, 16, 64, 128)]
    assert ratios == sorted(ratios, reverse=True) and ratios[-2:] == [1, 1] and ratios[0] > 10


def test_the_verb_prints_a_table_or_json(run: Run, tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((200, 20), dtype=np.float32)
    save_graph(rmat(200, 5, seed=0).with_(x=x), tmp_path / "g")
    code, out, _ = run("estimate", str(tmp_path / "g"), "--machines", "4")
    assert code == 0 and "filter by" in out and "the filter would take" in out and "train" in out
    code, out, _ = run("estimate", str(tmp_path / "g"), "--machines", "4", "--network", "100GB", "--json")
    assert code == 0 and json.loads(out)["machine"]["network"] == 100e9
    assert run("estimate", str(tmp_path / "g"), "--network", "fast")[0] == 1
    code, out, _ = run("estimate", str(tmp_path / "g"), "--json")
    assert code == 0 and set(json.loads(out)["stages"]) == {"convert", "filter", "train", "embed"}


@pytest.mark.slow
def test_calibration_measures_positive_rates() -> None:
    found = calibrate()
    assert min(found.hop_ns) > 0 and min(found.train_gflops, found.embed_gflops, found.disk) > 0
    assert (found.ids_ns, found.sort_ns) != (Machine().ids_ns, Machine().sort_ns)


def test_convert_is_measured_and_its_constants_are_what_the_stage_costs() -> None:
    """A core here takes between 10 ns and 100 us for a listed edge; the stage is those of all edges."""
    ids, sort = _convert_ns(20_000, 2_000)
    assert 0 < ids < 1e5 and 0 < sort < 1e5
    work, machine = Workload(10**6, 2 * 10**7, 8), replace(Machine(), ids_ns=ids, sort_ns=sort, disk=1e12)
    assert convert_stage(work, machine).seconds == pytest.approx((ids + sort) * 10**7 * 1e-9)
    two = convert_stage(work, machine, 2).seconds - convert_stage(Workload(2, 0, 8), machine, 2).seconds
    assert two == pytest.approx((ids + sort / 2) * 10**7 * 1e-9)


def test_sizes_stand_for_a_graph_that_is_not_there_yet(run: Run) -> None:
    """10^9 edges by 8 machines: converted sooner than by one, ids by the driver alone; 20 bytes an entry on disk."""
    found = {}
    for machines in (1, 8):
        words = ["estimate", "nodes=1e8, edges=1e9,columns=128", "--machines", str(machines), "--memory", "256GB"]
        code, out, _ = run(*words, "--json")
        assert code == 0
        found[machines] = json.loads(out)["stages"]["convert"]
    assert 100 < found[8]["seconds"] < found[1]["seconds"] < 10 * found[8]["seconds"]
    assert found[1]["disk"] == 20 * 2e9 + 8e8 and found[1]["network"] == 0 < found[8]["network"]
    assert "convert" in run("estimate", "nodes=1e3,edges=1e4,columns=8")[1]
    sizes = "nodes=1e3,edges=1e4,columns=8"
    for words, word in (
        (["nodes=1e8,edges=1.2.3,columns=8"], "no sizes"),
        (["nodes=1,edges=5,columns=8"], "nodes"),
        (["nodes=1e9,edges=1e10"], "no sizes. Write nodes="),
        (["nodes=-5,edges=10,columns=1"], "no sizes"),
        ([sizes, "--machines", "1001"], "at most 1000, got 1001"),
        (["cora", "--machines", "2709"], "at most 2708, got 2709"),
        ([sizes, "--network", "0"], "network must be at least 1"),
        ([sizes, "--network", "fast"], "network 'fast' is not a size"),
    ):
        code, _, err = run("estimate", *words)
        assert code == 1 and word in err and err.count("\n") == 1, err
