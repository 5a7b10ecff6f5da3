"""The training curve: what vectors keep of it, and how a page shows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuplet._html import curve

_ENDS = {"fixed": "as many as were planned", "auto": "ended by the criterion of the method"}  # History.stopped
POINTS = 200  # of a curve that vectors keep; of more, evenly chosen ones


def training_record(estimator: Any) -> dict[str, Any] | None:
    """Steps and losses of the estimator's training and how it ended, None without any; plain types.

    It holds no times: two equal runs write equal files.
    """
    history = getattr(estimator, "history_", None)
    if history is None or not history.rows:
        return None
    steps, losses = history["step"], history["loss"]
    kept = np.unique(np.linspace(0, len(steps) - 1, POINTS).round().astype(int)).tolist()
    return {
        "step": [int(steps[i]) for i in kept],
        "loss": [float(losses[i]) for i in kept],
        "stopped": history.stopped,
        "best_step": history.best_step,
    }


def training_facts(record: Any) -> dict[str, str] | None:
    """What a page shows of a `training_record`: a picture made of numbers alone, and a line of text."""
    try:
        steps = [int(step) for step in record["step"]]
        losses = [float(loss) for loss in record["loss"]]
        best = None if record["best_step"] is None else int(record["best_step"])
    except (KeyError, TypeError, ValueError):
        return None  # vectors without training, or of another version
    if not steps or len(steps) != len(losses) or not np.isfinite(losses).all():
        return None
    end = _ENDS.get(record["stopped"], f"it stopped: {record['stopped']}")
    kept = "" if best is None else f"; the weights of step {best:,} were kept"
    text = f"{steps[-1]:,} steps, {end}; loss {losses[0]:.4g} at first, {losses[-1]:.4g} at last{kept}."
    return {"svg": curve(steps, losses, name="loss", axis="step", mark=best), "text": text}
