"""Column preparation: each column of a node table gets a role, and becomes features by it (docs/preparation.md)."""

from tuplet.io.preparation._preparation import Line, Preparation
from tuplet.io.preparation._roles import ROLES

__all__ = ["ROLES", "Line", "Preparation"]
