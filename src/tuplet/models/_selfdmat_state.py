"""What a saved SelfDMAT holds: two spectra, the encoder, the turn; and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tuplet._check import check_number
from tuplet.models._spectrum import Spectrum
from tuplet.models._state import filled_encoder
from tuplet.training.encoder import layer_sizes
from tuplet.training.history import History

if TYPE_CHECKING:
    from tuplet.models.selfdmat import SelfDMAT

_SPECTRA = ("far", "near")


def state_of(model: SelfDMAT) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plain values and arrays of a fitted model."""
    arrays: dict[str, Any] = {"rarity": model.rarity_, "turn": model.turn_}
    numbers: dict[str, float] = {}
    for name, spectrum in zip(_SPECTRA, (model.far_, model.near_)):
        for part in fields(Spectrum):
            value = getattr(spectrum, part.name)
            (numbers if isinstance(value, float) else arrays)[f"{name}.{part.name}"] = value
    arrays |= {f"encoder.{name}": value for name, value in model.encoder_.state_dict().items()}
    values = {
        "layers": layer_sizes(model.encoder_),
        "n_clusters": model.n_clusters_,
        "numbers": numbers,
        "history": model.history_.to_dict(),
    }
    return values, arrays


def fill_from(model: SelfDMAT, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Fill `model` from what `state_of` gave; a ValueError or KeyError where it is damaged."""
    encoder = {name.removeprefix("encoder."): t for name, t in arrays.items() if name.startswith("encoder.")}
    model.encoder_ = filled_encoder(values["layers"], encoder)
    numbers = {name: check_number(name, value) for name, value in values["numbers"].items()}
    known = {name: t.numpy() for name, t in arrays.items()} | numbers
    for name in _SPECTRA:
        if f"{name}.spread" not in known:  # files of 0.1 lower no column, those of early 0.2 by factors
            factors = known.pop(f"{name}.widen", np.ones(len(known[f"{name}.centre"]), np.float32))
            known |= {f"{name}.spread": 1 / factors, f"{name}.level": float(1 / factors.max())}
    model.far_, model.near_ = (
        Spectrum(**{part.name: known[f"{name}.{part.name}"] for part in fields(Spectrum)}) for name in _SPECTRA
    )
    model.rarity_, model.turn_ = known["rarity"], known["turn"]
    model.n_features_in_, model.n_clusters_ = len(model.rarity_), int(values["n_clusters"])
    _check_sizes(model)
    model.history_ = History.from_dict(values["history"])


def _check_sizes(model: SelfDMAT) -> None:
    """Raise unless the arrays of a saved model fit each other."""
    for spectrum in (model.far_, model.near_):
        f, d = spectrum.right.shape
        if (
            f != model.n_features_in_
            or spectrum.turn.shape != (d, d)
            or {spectrum.centre.shape, spectrum.mass.shape, spectrum.spread.shape} != {(d,)}
        ):
            raise ValueError("spectra of the wrong shape")
    sizes, turn = layer_sizes(model.encoder_), model.turn_.shape
    if len(model.part_weights) != 3:
        raise ValueError(f"{len(model.part_weights)} part_weights")
    turned = turn == (0, 0) or (turn[0] == model._parts().width and turn[1] > 0)
    if model.n_clusters_ < 1 or sizes[0] > model.near_.turn.shape[1] or not turned:
        raise ValueError("an encoder or a turn of the wrong shape")
