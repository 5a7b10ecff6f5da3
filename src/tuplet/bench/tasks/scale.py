"""One rung of the scale ladder: R-MAT graph, random features, filter, training, vectors, K-Means, each timed.

A rung is a dataset name such as "rmat-1e6". Large rungs live on disk in a work folder (`TUPLET_WORK`, else a
temporary one): every finished phase is noted there with its seconds and peak, and a run that was killed goes on
with the next phase. Small rungs stay in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tuplet._check import InputError
from tuplet._memory import reset_peak
from tuplet.bench.fitting import Bench, filters_then_trains, parameters, train_config
from tuplet.bench.meter import Meter, time_limit
from tuplet.bench.recipes import estimator_settings
from tuplet.bench.rmat import fill_random, nodes_of
from tuplet.bench.spec import Job, load_spec
from tuplet.bench.tasks.work_folder import DiskPeak, WorkFolder
from tuplet.graph import Graph
from tuplet.models.new_nodes import filter_of
from tuplet.models.registry import make_estimator

# What the ladder itself needs to know; a method's own settings are those of the spec, else of its constructor.
DEFAULTS: Mapping[str, Any] = {
    "edges_per_node": 20,
    "n_features": 1000,
    "dtype": "float32",  # of the features, the filtered rows and the vectors; the products are float32
    "store": "auto",  # "memory", "disk", "results" (inputs in memory, rows and vectors on disk), or by size
    "clusters": 10,  # 0: no K-Means
}
ENCODER = "encoder.safetensors"
PHASES = ("generate", "filter", "train", "embed", "kmeans")


def scale_jobs(spec: str | Path, *, max_nodes: int, only: Sequence[str] = (), seeds: int | None = None) -> list[Job]:
    """The jobs of a spec of the ladder with at most `max_nodes` nodes, small rungs first."""
    jobs = [job for job in load_spec(spec).jobs(only=only, seeds=seeds) if nodes_of(job.dataset) <= max_nodes]
    if not jobs:
        raise InputError(f"{spec} has no rung of at most {max_nodes} nodes. Raise max_nodes.")
    return sorted(jobs, key=lambda job: nodes_of(job.dataset))


def rung(job: Job, bench: Bench, meter: Meter) -> dict[str, Any]:
    """Measure one rung: phase by phase where the method can be taken apart, else `fit` as one phase."""
    bench.forget()
    _warm_up(bench.device)
    settings = {**DEFAULTS, **{k: v for k, v in job.settings.items() if k != "evaluate"}}
    place = WorkFolder.choose(job, settings, streamed=filters_then_trains(job.method))
    try:
        ladder = Rung(job, settings, place, bench.device)
        phases = PHASES if filters_then_trains(job.method) else ("generate", "fit", "kmeans")
        for name in phases if settings["clusters"] else phases[:-1]:
            with time_limit(None if name == "generate" else job.limit_s):
                ladder.phase(name, meter)
        peaks = {kind: ladder.peak(kind) for kind in ("peak_mb", "gpu_mb") if ladder.peak(kind)}
        return {"metrics": ladder.facts(), "series": {"phases": ladder.notes}, **peaks}
    finally:
        place.leave()


def _warm_up(device: str) -> None:
    """Load and compile what every phase uses, so that small rungs do not pay for it."""
    from tuplet.graph.synth import rmat
    from tuplet.models.dmat import DMATi
    from tuplet.rows.kmeans import kmeans

    graph = rmat(300, 5)
    x = np.empty((300, 8), np.float32)
    fill_random(x, 0)
    model = DMATi((8, 8), max_steps=2, batch_size=64, n_views=2, device=device).fit(graph.with_(x=x))
    kmeans(model.embedding_, 2, n_init=1)


class Rung:
    """The arrays of one rung and the phases that make them; `notes` holds what each cost."""

    def __init__(self, job: Job, settings: Mapping[str, Any], place: WorkFolder, device: str) -> None:
        self.job, self.settings, self.place, self.device = job, settings, place, device
        self.model = self._estimator()
        self.n, self.notes = nodes_of(job.dataset), self._saved_notes()
        self.graph: Graph | None = None
        self.rows: Any = None
        self.vectors: Any = None
        self.encoder: Any = None
        self.clusters: Any = None

    def phase(self, name: str, meter: Meter) -> None:
        """Run the phase, or take its results from the work folder; either way its seconds go to the meter."""
        again: Callable[[], None] = getattr(self, f"_open_{name}")
        if name in self.notes:
            again()
        else:
            reset_peak()
            with meter.phase(name), DiskPeak(self.place.folder) as disk:
                getattr(self, f"_{name}")()
            self.notes[name] = {
                "seconds": round(meter.seconds.pop(name), 4),
                "peak_mb": meter.peak_mb,
                "gpu_mb": meter.gpu_mb,
                "disk_mb": round(disk.bytes / 1e6, 3),
            }
            self._save_notes()
        meter.add(name, self.notes[name]["seconds"])

    def facts(self) -> dict[str, float]:
        """Sizes and peaks over all phases."""
        graph = self.graph
        total = sum(note["seconds"] for phase, note in self.notes.items() if phase != "generate")
        if self.place.folder is not None:
            (self.place.folder / "done").touch()
        peaks = {kind: self.peak(kind) for kind in ("peak_mb", "disk_mb")}
        return {"nodes": self.n, "stored_edges": graph.n_stored if graph else 0, "total_seconds": total, **peaks}

    def peak(self, kind: str) -> float:
        """The largest `kind` of all phases; each is measured from its own start."""
        return max(note[kind] for note in self.notes.values())

    # Each phase has two methods: make it, and open what an earlier run has made.

    def _generate(self) -> None:
        from tuplet.graph.synth import rmat

        graph = rmat(self.n, self.settings["edges_per_node"], seed=self.job.seed)
        x = self.place.array("x", (self.n, self.settings["n_features"]), self.settings["dtype"])
        fill_random(x, self.job.seed)
        self.graph = graph.with_(x=x)
        if self.place.folder is not None and self.place.inputs:
            np.save(self.place.folder / "indptr.npy", graph.indptr)
            np.save(self.place.folder / "indices.npy", graph.indices)
            self._open_generate()

    def _open_generate(self) -> None:
        assert self.place.folder is not None
        indptr, indices = (
            np.load(self.place.folder / f"{part}.npy", mmap_mode="r") for part in ("indptr", "indices")
        )
        file = self.place.folder / "x.npy"  # gone once they are filtered
        x = np.load(file, mmap_mode="r") if file.exists() else None
        self.graph = Graph(indptr=np.asarray(indptr), indices=indices, x=x)

    def _filter(self) -> None:
        graph_filter = replace(filter_of(self.model), device=self.device)
        where = {"out": self.place.path("rows.npy"), "memory": self.model.memory}
        self.rows = graph_filter.transform(self._graph(), dtype=self.settings["dtype"], **where)
        self.graph = self._graph().with_(x=None)

    def _open_filter(self) -> None:
        self.rows = np.load(self.place.path("rows.npy") or "", mmap_mode="r")

    def _train(self) -> None:
        from tuplet.training.checkpoint import write_state
        from tuplet.training.encoder import new_encoder
        from tuplet.training.loop import train

        if self.place.folder is not None:  # not before the filter's end is noted: a killed run would miss them
            (self.place.folder / "x.npy").unlink(missing_ok=True)
        self.encoder = new_encoder(self.rows, self.model.layers, self.job.seed, unit_rows=self.model.unit_rows)
        folder = self.place.path("checkpoint")
        train(
            self.encoder,
            self.rows,
            train_config(self.model),
            seed=self.job.seed,
            device=self.device,
            checkpoint=folder,
            resume=folder is not None and folder.exists(),
        )
        if self.place.folder is not None:
            write_state(self.place.folder / ENCODER, self.encoder.state_dict(), {})

    def _open_train(self) -> None:
        from tuplet.training.checkpoint import read_state, restore
        from tuplet.training.encoder import new_encoder

        assert self.place.folder is not None
        self.encoder = new_encoder(self.rows, self.model.layers, self.job.seed, unit_rows=self.model.unit_rows)
        restore(self.encoder, read_state(self.place.folder / ENCODER)[0], str(self.place.folder / ENCODER))

    def _embed(self) -> None:
        from tuplet.training.encoder import encode, layer_sizes

        out = self.place.array("vectors", (self.n, layer_sizes(self.encoder)[-1]), self.settings["dtype"])
        self.vectors = encode(self.encoder, self.rows, unit_rows=self.model.unit_rows, out=out)

    def _open_embed(self) -> None:
        self.vectors = np.load(self.place.path("vectors.npy") or "", mmap_mode="r")

    def _kmeans(self) -> None:
        from tuplet.rows.kmeans import kmeans

        if self.clusters is None:  # else the method has assigned them itself
            kmeans(self.vectors, self.settings["clusters"], seed=self.job.seed, n_init=1)

    def _open_kmeans(self) -> None:
        pass

    def _fit(self) -> None:
        model = self.model.fit(self._graph())
        self.vectors, self.clusters = model.embedding_, getattr(model, "labels_", None)

    def _open_fit(self) -> None:
        self._fit()

    def _graph(self) -> Graph:
        assert self.graph is not None
        return self.graph

    def _estimator(self) -> Any:
        """The unfitted estimator; settings that it does not take are the ladder's."""
        given = {"device": self.device, "seed": self.job.seed}
        given |= {"n_clusters": self.settings["clusters"]} if self.settings["clusters"] else {}
        given |= estimator_settings(self.job.settings)
        known = parameters(self.job.method)
        return make_estimator(self.job.method, **{k: v for k, v in given.items() if k in known})

    def _saved_notes(self) -> dict[str, dict[str, float]]:
        file = self.place.path("phases.json")
        return json.loads(file.read_text()) if file is not None and file.is_file() else {}

    def _save_notes(self) -> None:
        file = self.place.path("phases.json")
        if file is not None:
            part = file.with_suffix(".part")
            part.write_text(json.dumps(self.notes))
            part.replace(file)
