"""Argument checks: the value is in the message, and so is what to do."""

from __future__ import annotations

import numpy as np
import pytest

from tuplet._check import (
    InputError,
    MissingExtraError,
    check_choice,
    check_finite,
    check_int,
    check_number,
    check_out_path,
    need_extra,
    parse_bytes,
)
from tuplet._seed import stream, torch_stream


@pytest.mark.parametrize("bad", [0, -1, 1.5, "3", None])
def test_check_int_refuses(bad: object) -> None:
    with pytest.raises(InputError, match="epochs"):
        check_int("epochs", bad)


def test_check_int_takes_numpy_integers() -> None:
    assert check_int("k", np.int32(3)) == 3
    with pytest.raises(InputError, match="at most 5, got 6"):
        check_int("k", 6, maximum=5)


@pytest.mark.parametrize("bad", [0.0, 1.1, float("nan"), float("inf"), "x", None])
def test_check_number_refuses(bad: object) -> None:
    with pytest.raises(InputError, match="alpha"):
        check_number("alpha", bad, low=0, high=1, open_low=True)


def test_check_choice_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'citeseer'"):
        check_choice("dataset", "citesear", ["cora", "citeseer"])


def test_check_finite_finds_the_place_in_a_later_block() -> None:
    x = np.zeros((3 * 2**20, 4), dtype=np.float32)
    x[2_500_000, 2] = np.nan
    with pytest.raises(InputError, match=r"\(2500000, 2\)"):
        check_finite("x", x)


@pytest.mark.parametrize("bad", ["", "GB", "2XB", "-1GB", 0, "0"])
def test_parse_bytes_refuses(bad: object) -> None:
    with pytest.raises(InputError):
        parse_bytes(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "value"), [("1.5GiB", 3 * 2**29), ("512MB", 512 * 10**6), ("2 gb", 2 * 10**9)])
def test_parse_bytes(text: str, value: int) -> None:
    assert parse_bytes(text) == value


def test_out_path_needs_its_folder(tmp_path) -> None:
    assert check_out_path(tmp_path / "a.npy").name == "a.npy"
    with pytest.raises(InputError, match="does not exist"):
        check_out_path(tmp_path / "no" / "a.npy")


def test_a_missing_extra_names_the_pip_command() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'tuplet\[search\]'"):
        need_extra("no_such_module_here", "search", "Searching")


def test_streams_are_named_independent_and_repeatable() -> None:
    a, b = stream(0, "batches").random(1000), stream(0, "views").random(1000)
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.1
    np.testing.assert_array_equal(a, stream(0, "batches").random(1000))
    assert not np.array_equal(a, stream(1, "batches").random(1000))
    assert (
        torch_stream(3, "x").initial_seed()
        == torch_stream(3, "x").initial_seed()
        != torch_stream(4, "x").initial_seed()
    )
    with pytest.raises(InputError, match="seed"):
        stream(-1, "x")
