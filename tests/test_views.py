"""Views: cheap ones equal built ones, in loss and gradient; masks are what they should be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tuplet.losses import (
    dmat_anchor,
    dmat_loss,
    dmat_pair,
    dmat_stack,
    dmati_anchor,
    dmati_loss,
    dmati_pair,
    dmati_stack,
    to_unit,
)
from tuplet.training.encoder import make_encoder
from tuplet.training.views import draw_views, mask_columns, n_masked, stacked_backward, views_backward


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.6, 0.95])
@pytest.mark.parametrize("layers", [(5,), (8, 5), (8, 6, 5)])
@pytest.mark.parametrize("loss", ["dmati", "dmat"])
def test_cheap_views_give_the_loss_and_gradients_of_built_ones(
    fraction: float, layers: tuple[int, ...], loss: str
) -> None:
    g = torch.Generator().manual_seed(0)
    x, y = to_unit(torch.rand(16, 30, generator=g)), torch.randint(0, 3, (16,), generator=g)
    encoder = make_encoder(30, layers, seed=1)
    drawn, kept = draw_views(0, 4, 30, 3, fraction)
    columns = torch.from_numpy(drawn)
    if loss == "dmati":
        stack = lambda u, v: dmati_stack(u, v, 0.5)  # noqa: E731
        terms, pair = (lambda u: dmati_anchor(u, 0.5)), (lambda a, v: dmati_pair(a, v, 0.5))
        total = sum(dmati_loss(encoder(x), encoder(mask_columns(x, m, kept=kept)), temperature=0.5) for m in columns)
    else:
        stack = lambda u, v: dmat_stack(u, v, y, 0.5)  # noqa: E731
        terms, pair = (lambda u: dmat_anchor(u, y, 0.5)), (lambda a, v: dmat_pair(a, v, y, 0.5))
        total = sum(
            dmat_loss(encoder(x), encoder(mask_columns(x, m, kept=kept)), y, temperature=0.5) for m in columns
        )
    (total / 3).backward()
    built = [p.grad.clone() for p in encoder.parameters()]
    encoder.zero_grad()
    cheap = views_backward(encoder, x, columns, terms, pair, kept=kept)
    torch.testing.assert_close(cheap, total.detach() / 3, rtol=1e-5, atol=1e-6)
    for parameter, expected in zip(encoder.parameters(), built):
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-6)
    if fraction > 0:
        encoder.zero_grad()
        together = stacked_backward(encoder, x, columns, stack, kept=kept)
        torch.testing.assert_close(together, total.detach() / 3, rtol=1e-5, atol=1e-6)
        for parameter, expected in zip(encoder.parameters(), built):
            torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-6)


def test_gradients_are_added_to_those_already_there() -> None:
    x, encoder = torch.rand(6, 10), make_encoder(10, (4, 3))
    columns = torch.from_numpy(draw_views(0, 0, 10, 2, 0.3).columns)

    def run() -> None:
        views_backward(
            encoder, x, columns, lambda u: dmati_anchor(u, 1.0), lambda a, v: dmati_pair(a, v, 1.0), kept=False
        )

    run()
    once = [p.grad.clone() for p in encoder.parameters()]
    run()
    for parameter, grad in zip(encoder.parameters(), once):
        torch.testing.assert_close(parameter.grad, 2 * grad)


def test_columns_are_distinct_sorted_and_of_the_right_number() -> None:
    columns, kept = draw_views(3, 7, 100, 4, 0.3)
    assert columns.shape == (4, 30) and (np.diff(columns, axis=1) > 0).all() and not kept
    columns, kept = draw_views(3, 7, 100, 4, 0.8)
    assert columns.shape == (4, 20) and kept  # the kept ones are fewer
    columns, kept = draw_views(3, 7, 100, 4, 0.0)
    assert columns.shape == (4, 0) and not kept


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.5, 0.51, 0.9])
def test_a_view_masks_the_asked_share_of_the_columns(fraction: float) -> None:
    columns, kept = draw_views(1, 2, 100, 3, fraction)
    for picked in columns:
        view = mask_columns(torch.ones(2, 100), torch.from_numpy(picked), kept=kept)
        assert int((view == 0).all(0).sum()) == round(100 * fraction)


def test_columns_are_a_function_of_seed_and_step() -> None:
    again = draw_views(3, 7, 100, 4, 0.3).columns
    assert np.array_equal(again, draw_views(3, 7, 100, 4, 0.3).columns)
    assert not np.array_equal(again, draw_views(3, 8, 100, 4, 0.3).columns)
    assert not np.array_equal(again, draw_views(4, 7, 100, 4, 0.3).columns)
    assert not np.array_equal(again[0], again[1])


def test_every_column_is_masked_equally_often() -> None:
    counts = np.bincount(
        np.concatenate([draw_views(0, s, 20, 2, 0.25).columns.ravel() for s in range(2000)]), minlength=20
    )
    assert abs(counts / 4000 - 0.25).max() < 0.03  # standard deviation .007


def test_at_least_one_column_is_left() -> None:
    assert n_masked(3, 0.99) == 2 and n_masked(1, 0.5) == 0


def test_masked_columns_are_zero_and_the_rest_untouched() -> None:
    x = torch.rand(3, 5)
    view = mask_columns(x, torch.tensor([1, 4]), kept=False)
    assert (view[:, [1, 4]] == 0).all() and (view[:, [0, 2, 3]] == x[:, [0, 2, 3]]).all()
    assert torch.equal(mask_columns(x, torch.tensor([0, 2, 3]), kept=True), view)
