"""Ray Core schedules the tasks, starts again what was killed, and moves a few bytes. This file alone knows it.

A task asks for as many CPUs as the smallest node has: one task a node where machines are alike, since narrow tasks
side by side take each other's cache. Tasks travel by name, so that a node runs its own tuplet; one of another version
is refused before any work.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import socket
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tuplet
from tuplet._check import InputError, need_extra
from tuplet._threads import cores

if TYPE_CHECKING:
    from tuplet.engines._engine import Task, Tick

log = logging.getLogger("tuplet")
REACH_S = 5.0  # to open a connection to the head
ANSWER_S = 300.0  # for every node to start a worker and answer
RETRIES = 8  # of a task whose worker or node was killed
JOINS = 3  # tries to join a head that answers
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # by default Ray's workers run at nice 15
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
}


class RayEngine:
    """A connection to a cluster: "ray" for the one of this machine, else of one started here, or "ray://host:port"."""

    def __init__(self, name: str) -> None:
        for key, value in _SETTINGS.items():
            os.environ.setdefault(key, value)
        logging.getLogger("ray").setLevel(logging.ERROR)  # what matters comes as an error
        self.ray, self.folder = need_extra("ray", "cluster", f"engine {name!r}"), ""
        if self.ray.is_initialized():
            raise InputError("This process is connected to a Ray cluster already. Call ray.shutdown() first.")
        try:
            self._init(name)
            self.nodes = self._probe()
        except BaseException:
            self.close()
            raise
        sizes = [int(node["cpus"]) for node in self.nodes]
        self.cpus = min(sizes)
        self.places = sum(size // self.cpus for size in sizes)
        log.info("%s: %d nodes, tasks of %d threads", name, len(sizes), self.cpus)

    def map(self, task: Task, items: Iterable[Any], tick: Tick | None = None) -> list[Any]:
        """`task(item)` of every item, in order; a task whose worker or node was killed runs again elsewhere."""
        call = self._remote(_call, num_cpus=self.cpus, max_retries=RETRIES, scheduling_strategy="SPREAD")
        name = _name(task)
        todo = {call.remote(tuplet.__version__, name, item, self.cpus): i for i, item in enumerate(items)}
        results: list[Any] = [None] * len(todo)
        waiting = list(todo)
        try:
            while waiting:
                done, waiting = self.ray.wait(waiting, num_returns=1, timeout=2.0)
                for one in done:
                    results[todo[one]] = self._result(one)
                if done and tick is not None:
                    tick(1 - len(waiting) / len(todo))
                if not done and not self._alive():
                    raise InputError("No node of the cluster is left. Start nodes, and run it again: it goes on.")
        finally:
            for one in waiting:
                self.ray.cancel(one, force=True)
        return results

    def everywhere(self, task: Task, item: Any) -> list[Any]:
        """`task(item)` once on each node."""
        words = (tuplet.__version__, _name(task), item, self.cpus)

        def call() -> Any:
            from tuplet.engines._ray import _call

            return _call(*words)

        found = [result for _, result in self._everywhere(call, self.nodes)]
        for result in found:
            if isinstance(result, _Failed):
                raise result.error()
        return found

    def check_sees(self, paths: Sequence[Path]) -> None:
        """Raise, naming the node, where one of the nodes does not see one of the files."""
        wanted = [str(path) for path in paths]

        def missing() -> list[str]:
            import os

            return [path for path in wanted if not os.path.exists(path)]  # noqa: PTH110

        for node, absent in self._everywhere(missing, self.nodes):
            if absent:
                raise InputError(
                    f"Node {node['name']} does not see {absent[0]}. Put the graph and the output on storage that "
                    "all nodes share, under the same path."
                )

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self.ray.shutdown()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _init(self, name: str) -> None:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
        address = name if name != "ray" else os.environ.get("RAY_ADDRESS", "auto")
        if address not in ("auto", "local"):
            _check_reachable(address)
        if address == "auto" and _is_gone(known := _known_here()):
            log.warning("the Ray cluster at %s, which is known here, does not answer: one is started", known)
            address = "local"
        try:
            if address != "local":
                self._join(address, quiet)
                return
        except ConnectionError as error:
            if address != "auto":
                raise InputError(_not_joined(address, error)) from None
        except (ImportError, RuntimeError, ValueError, self.ray.exceptions.RayError) as error:
            raise InputError(_not_joined(address, error)) from None
        self.folder = tempfile.mkdtemp(prefix="tr-")  # short: Ray's sockets lie below, and their names are limited
        try:
            self.ray.init(
                address="local", num_cpus=cores(), include_dashboard=False, _temp_dir=self.folder,
                object_store_memory=2**27, **quiet,
            )  # fmt: skip
        except OSError as error:
            raise InputError(
                f"A Ray cluster cannot be started here ({_short(error)}). Ray has files in {self.folder}, a token "
                "in HOME/.ray: set TMPDIR and HOME to folders with room, or RAY_AUTH_MODE=disabled for no token."
            ) from None

    def _join(self, address: str, how: Mapping[str, Any]) -> None:
        """Ray's client ends after 30 s when a busy head has not started its server by then."""
        for left in reversed(range(JOINS)):
            try:
                with warnings.catch_warnings(action="ignore"):  # of Ray's client, beside its error
                    self.ray.init(address=address, **how)
                return
            except ConnectionAbortedError as error:
                if not left:
                    raise
                log.warning("%s is busy, trying again: %s", address, _short(error))
                self.ray.shutdown()

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]

    def _probe(self) -> list[dict[str, Any]]:
        """Every node that has CPUs: its name, size and tuplet, which must be this one's version."""
        nodes = [
            {"id": node["NodeID"], "cpus": node["Resources"]["CPU"],
             "name": f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})"}
            for node in self._alive()
        ]  # fmt: skip
        if not nodes:
            raise InputError("The Ray cluster has no node with CPUs. Start nodes with `ray start --address=HEAD`.")

        def facts() -> tuple[str, int]:
            import os

            try:
                import tuplet as own

                return own.__version__, os.nice(0)
            except ImportError:
                return "", os.nice(0)

        for node, (version, nice) in self._everywhere(facts, nodes):
            if version != tuplet.__version__:
                raise InputError(_other_version(node["name"], version))
            if nice > os.nice(0):
                log.warning("workers of %s run at nice %d: start Ray with RAY_worker_niceness=0", node["name"], nice)
        return nodes

    def _everywhere(self, function: Callable[[], Any], nodes: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
        """(node, function()) of each node that lives. A closure travels as code, and needs no tuplet there."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asked = [
            self._remote(
                function, num_cpus=0, max_retries=2,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["id"], soft=False),
            ).remote()
            for node in nodes
        ]  # fmt: skip
        _, late = self.ray.wait(asked, num_returns=len(asked), timeout=ANSWER_S)
        if late:
            names = [node["name"] for node, one in zip(nodes, asked) if one in late]
            raise InputError(f"Node {names[0]} does not answer within {ANSWER_S:.0f} s. Look at its Ray log.")
        found = []
        for node, one in zip(nodes, asked):
            try:
                found.append((node, self.ray.get(one)))
            except (self.ray.exceptions.TaskUnschedulableError, self.ray.exceptions.NodeDiedError):
                log.warning("node %s is gone", node["name"])
        return found

    def _remote(self, function: Callable[..., Any], **options: Any) -> Any:
        return self.ray.remote(function).options(**options)

    def _result(self, one: Any) -> Any:
        """The result of a finished task, or its error as ours."""
        errors = self.ray.exceptions
        try:
            result = self.ray.get(one)
        except errors.OutOfMemoryError:
            raise MemoryError("a node's memory was full. Give memory=, or nodes with more.") from None
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.TaskUnschedulableError) as error:
            raise InputError(
                f"A task was killed {RETRIES + 1} times ({_short(error)}). Look at the nodes, and run it again."
            ) from None
        except errors.RayTaskError as error:
            raise InputError(f"A node cannot run a task ({_short(error.cause or error)}).") from None
        if isinstance(result, _Failed):
            raise result.error()
        return result


class _Failed:
    """An error of a task: what kind, its words, and where."""

    def __init__(self, kind: str, text: str, node: str) -> None:
        self.kind, self.text, self.node = kind, text, node

    def error(self) -> Exception:
        """The error to raise at the driver."""
        if self.kind == "InputError":
            return InputError(f"On node {self.node}: {self.text}")
        if self.kind == "MemoryError":
            return MemoryError(f"on node {self.node} {self.text}")
        return RuntimeError(f"{self.kind} on node {self.node}: {self.text}")


def _call(version: str, name: str, item: Any, threads: int) -> Any:
    """Run the task of that name on this node."""
    if version != tuplet.__version__:
        return _Failed("InputError", _other_version(socket.gethostname(), tuplet.__version__, version), _here())
    os.environ["TUPLET_NUM_THREADS"] = str(threads)
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)(item)
    except Exception as error:
        return _Failed(type(error).__name__, str(error), _here())


def _name(task: Task) -> str:
    return f"{task.__module__}:{task.__qualname__}"


def _here() -> str:
    import ray

    return f"{socket.gethostname()} ({ray.get_runtime_context().get_node_id()[:8]})"


def _other_version(node: str, theirs: str, ours: str = tuplet.__version__) -> str:
    have = f"tuplet {theirs}" if theirs else "no tuplet"
    return f"Node {node} has {have}, this driver tuplet {ours}. Install the same version on all nodes."


def _check_reachable(address: str) -> None:
    """Raise within seconds where nobody listens; Ray itself waits for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=REACH_S).close()
    except (OSError, ValueError) as error:
        raise InputError(
            f"The Ray head {address} cannot be reached ({error}). Check host and port (10001 by default), and that "
            "`ray start --head` runs there."
        ) from None


def _known_here() -> str:
    """The cluster that Ray would join here, known by processes or a file of the last one; "" where there is none."""
    try:
        from ray._private.services import get_ray_address_from_environment

        return str(get_ray_address_from_environment("auto", None))
    except (ImportError, TypeError, OSError):  # of a Ray that keeps it elsewhere; a ConnectionError: none is known
        return ""


def _is_gone(address: str) -> bool:
    """Whether nobody listens at a known address, such as that of a container or of before a crash."""
    try:
        _check_reachable(address)
    except InputError:
        return ":" in address
    return False


def _not_joined(address: str, error: BaseException) -> str:
    """What to say; a head that wants a token lets Ray's client wait without a word, and none is sent unasked."""
    wants = "" if "RAY_AUTH_MODE" in os.environ else (
        " If the head was started with a token, set RAY_AUTH_MODE=token here, and RAY_AUTH_TOKEN to what "
        "`ray get-auth-token` prints there."
    )  # fmt: skip
    return f"The Ray cluster at {address} cannot be joined ({_short(error)}).{wants}"


def _short(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1][:300] if lines else ''}"
