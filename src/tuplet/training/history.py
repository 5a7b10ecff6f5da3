"""What training saw, row by row."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tuplet._html import curve, table


@dataclass
class History:
    """What training saw. Each of `rows` is a dict: step, epoch, mean loss since the last row, seconds, criteria.

    `stopped` is "fixed" (the planned length) or "auto" (a criterion); models of version 0.1 may have "interrupted",
    which is an error today. `best_step` is the step whose weights were kept when a criterion chose them, else None.

    >>> history = History(rows=[{"step": 6, "epoch": 1.0, "loss": 3.5, "seconds": 0.1}])
    >>> history
    History(6 steps, 1.0 epochs, loss 3.5000, 0.1 s, stopped: fixed)
    >>> history["loss"]
    [3.5]
    """

    rows: list[dict[str, float]] = field(default_factory=list)
    stopped: str = "fixed"
    best_step: int | None = None

    def __getitem__(self, name: str) -> list[float]:
        return [row[name] for row in self.rows if name in row]

    @property
    def loss(self) -> list[float]:
        """Mean loss of each row."""
        return self["loss"]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended training, of a model that version 0.1 saved."""
        return self.stopped == "interrupted"

    def to_dict(self) -> dict[str, Any]:
        """Plain types, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> History:
        """The history that `to_dict` wrote."""
        if not isinstance(values.get("rows", []), list):
            raise TypeError("the rows of the history are no list")
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})

    def __repr__(self) -> str:
        if not self.rows:
            return f"History(0 steps, stopped: {self.stopped})"
        last = self.rows[-1]
        return (
            f"History({last['step']} steps, {last['epoch']:.1f} epochs, loss {last['loss']:.4f}, "
            f"{last['seconds']:.1f} s, stopped: {self.stopped})"
        )

    def _repr_html_(self) -> str:
        if not self.rows:
            return table(repr(self), [])
        line = curve(self["step"], self.loss, name="loss", axis="step", mark=self.best_step)
        return table(repr(self), []) + line
