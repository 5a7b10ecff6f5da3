"""Where tasks run: on this machine, or on the nodes of a Ray cluster. Nothing of Ray is seen outside this package."""

from tuplet.engines._engine import Engine, Tick, check_engine, connected

__all__ = ["Engine", "Tick", "check_engine", "connected"]
