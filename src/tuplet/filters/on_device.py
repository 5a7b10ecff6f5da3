"""A filter on a device for arrays that lie there, and in blocks of a width that is given, to be measured."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from tuplet.filters._gpu import DeviceFilter, csr_tensor, filter_through_device, full_memory_told
from tuplet.filters._graph_filter import GraphFilter
from tuplet.filters._operator import make_operator, make_plan
from tuplet.filters._read import make_reader
from tuplet.graph import Graph

__all__ = ["csr_tensor", "device_filter", "filter_in_blocks", "full_memory_told"]


def device_filter(spec: GraphFilter, graph: Graph, device: Any) -> DeviceFilter:
    """The exact filter of `spec` over `graph`, which lies on the torch device from now on."""
    op = make_operator(graph, direction=spec.direction, self_loops=spec.self_loops)
    return DeviceFilter(op, make_plan(spec.weights, spec.tol, spec.series, op.symmetric), spec.r, device)


def filter_in_blocks(spec: GraphFilter, graph: Graph, out: NDArray[Any], device: str, columns: int) -> None:
    """Fill `out` (n, f) with the filtered features, `columns` of them at a time, which `transform` would choose."""
    assert graph.x is not None
    op = make_operator(graph, direction=spec.direction, self_loops=spec.self_loops)
    plan = make_plan(spec.weights, spec.tol, spec.series, op.symmetric)
    read = make_reader(graph.x)
    filter_through_device(op, plan, spec.r, read, out, device, columns=columns, tick=lambda part: None)
