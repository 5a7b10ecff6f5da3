"""The losses against double loops over the definition, in float64, with their gradients."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tuplet._threads import one_pool
from tuplet.losses import _log_sums as losses_blockwise
from tuplet.losses import contrastive_loss, dmat_loss, dmati_loss, dmt_loss, to_unit, tuplet_loss, unbiased_loss
from tuplet.losses._log_sums import cross_log_sums, self_log_sums

quick = settings(max_examples=25, deadline=None)


def draw(seed: int, b: int, d: int, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(b, d, generator=g, dtype=torch.float64).requires_grad_() for _ in range(2))
    return u, v, torch.randint(0, classes, (b,), generator=g)


def h(x: Tensor, y: Tensor, t: float) -> Tensor:
    return torch.exp((x @ y) / (x.norm() * y.norm()) / t)


def dmt_by_loops(z: Tensor, y: Tensor, t: float) -> Tensor:
    terms = []
    for i in range(len(z)):
        same = sum(h(z[i], z[j], t) for j in range(len(z)) if y[j] == y[i])
        other = sum(h(z[i], z[j], t) for j in range(len(z)) if y[j] != y[i])
        terms.append(-torch.log(same / (same + other)))
    return torch.stack(terms).mean()


def dmat_by_loops(u: Tensor, v: Tensor, y: Tensor, t: float) -> Tensor:
    w, labels, terms = torch.cat([u, v]), torch.cat([y, y]), []
    for i in range(len(w)):
        others = [j for j in range(len(w)) if j != i]
        same = sum(h(w[i], w[j], t) for j in others if labels[j] == labels[i])
        terms.append(-torch.log(same / sum(h(w[i], w[j], t) for j in others)))
    return torch.stack(terms).mean()


def dmati_by_loops(u: Tensor, v: Tensor, t: float) -> Tensor:
    w, b, terms = torch.cat([u, v]), len(u), []
    for i in range(2 * b):
        total = sum(h(w[i], w[j], t) for j in range(2 * b) if j != i)
        terms.append(-torch.log(h(w[i], w[(i + b) % (2 * b)], t) / total))
    return torch.stack(terms).mean()


def assert_same(a: Tensor, b: Tensor, *inputs: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    mine, theirs = (torch.autograd.grad(loss, inputs, retain_graph=True) for loss in (a, b))
    torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-9)


cases = given(
    seed=st.integers(0, 999),
    b=st.integers(2, 9),
    d=st.integers(1, 5),
    classes=st.integers(1, 12),  # more classes than rows: classes with one member
    t=st.sampled_from([0.03, 0.2, 1.0, 4.0]),
)


@quick
@cases
def test_dmt_loss_equals_the_double_loop(seed: int, b: int, d: int, classes: int, t: float) -> None:
    z, _, y = draw(seed, b, d, classes)
    assert_same(dmt_loss(z, y, temperature=t), dmt_by_loops(z, y, t), z)


@quick
@cases
def test_dmat_loss_equals_the_double_loop(seed: int, b: int, d: int, classes: int, t: float) -> None:
    u, v, y = draw(seed, b, d, classes)
    assert_same(dmat_loss(u, v, y, temperature=t), dmat_by_loops(u, v, y, t), u, v)


@quick
@cases
def test_dmati_loss_equals_the_double_loop(seed: int, b: int, d: int, classes: int, t: float) -> None:
    u, v, _ = draw(seed, b, d, classes)
    assert_same(dmati_loss(u, v, temperature=t), dmati_by_loops(u, v, t), u, v)


@quick
@given(seed=st.integers(0, 999), b=st.integers(1, 6), q=st.integers(1, 5), t=st.sampled_from([0.05, 0.5, 2.0]))
def test_tuplet_and_contrastive_losses_equal_their_loops(seed: int, b: int, q: int, t: float) -> None:
    g = torch.Generator().manual_seed(seed)
    x, plus = (torch.randn(b, 3, generator=g, dtype=torch.float64).requires_grad_() for _ in range(2))
    minus = torch.randn(b, q, 3, generator=g, dtype=torch.float64)
    ratio = [[h(x[i], minus[i, j], t) / h(x[i], plus[i], t) for j in range(q)] for i in range(b)]
    tuplet = torch.stack([torch.log(1 + sum(row)) for row in ratio]).mean()
    wide = torch.stack([torch.log(1 + 7 * sum(row) / q) for row in ratio]).mean()
    assert_same(tuplet_loss(x, plus, minus, temperature=t), tuplet, x, plus)
    assert_same(unbiased_loss(x, plus, minus, temperature=t), tuplet, x, plus)
    assert_same(unbiased_loss(x, plus, minus, n_negatives=7, temperature=t), wide, x, plus)
    assert_same(contrastive_loss(x, plus, minus, n_negatives=7, temperature=t), wide, x, plus)


def test_gradients_pass_the_finite_difference_check() -> None:
    u, v, y = draw(0, 5, 3, 2)
    for t in (0.04, 0.5):
        assert torch.autograd.gradcheck(lambda a, t=t: dmt_loss(a, y, temperature=t), (u,))
        assert torch.autograd.gradcheck(lambda a, b, t=t: dmat_loss(a, b, y, temperature=t), (u, v))
        assert torch.autograd.gradcheck(lambda a, b, t=t: dmati_loss(a, b, temperature=t), (u, v))


@pytest.mark.parametrize("t", [0.04, 0.5])
@pytest.mark.parametrize("tile", [1, 4, 7])
def test_tiles_give_what_the_whole_matrix_gives(monkeypatch: pytest.MonkeyPatch, tile: int, t: float) -> None:
    u, v, y = draw(1, 15, 4, 3)
    whole = [dmt_loss(u, y, temperature=t), dmat_loss(u, v, y, temperature=t), dmati_loss(u, v, temperature=t)]
    monkeypatch.setattr(losses_blockwise, "DIRECT_LIMIT", 3)
    monkeypatch.setattr(losses_blockwise, "TILE", {"cpu": tile})
    tiled = [dmt_loss(u, y, temperature=t), dmat_loss(u, v, y, temperature=t), dmati_loss(u, v, temperature=t)]
    assert_same(tiled[0], whole[0], u)
    for a, b in zip(tiled[1:], whole[1:]):
        assert_same(a, b, u, v)


@pytest.mark.parametrize("tile", [None, 7])
def test_the_kernels_of_classes_have_the_bits_of_torchs_passes(
    monkeypatch: pytest.MonkeyPatch, tile: int | None
) -> None:
    u, v, y = (x.detach().float() if x.is_floating_point() else x for x in draw(10, 40, 5, 3))
    u.requires_grad_(), v.requires_grad_()
    if tile:
        monkeypatch.setattr(losses_blockwise, "DIRECT_LIMIT", 3)
        monkeypatch.setattr(losses_blockwise, "TILE", {"cpu": tile})

    def bits() -> list[Any]:
        loss = dmat_loss(u, v, y, temperature=0.5)
        return [part.detach().numpy().tobytes() for part in (loss, *torch.autograd.grad(loss, (u, v)))]

    by_kernel = bits()
    monkeypatch.setattr(losses_blockwise, "_by_kernel", lambda *_: False)
    assert bits() == by_kernel


@pytest.mark.parametrize("threads", [1, 3])
def test_pieces_of_a_tile_give_its_bits(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Where the libraries' pools are held, rows of the products are dealt to the threads of the one pool."""
    u, v, y = (part.float().detach() if i < 2 else part for i, part in enumerate(draw(3, 300, 32, 4)))

    def losses_and_gradients() -> list[Tensor]:
        found = []
        for loss in (
            lambda a, b: dmat_loss(a, b, y, temperature=0.5),
            lambda a, b: dmati_loss(a, b, temperature=0.5),
        ):
            a, b = u.clone().requires_grad_(), v.clone().requires_grad_()
            value = loss(a, b)
            value.backward()
            found += [value.detach(), a.grad, b.grad]
        return found

    with one_pool():
        monkeypatch.setattr(losses_blockwise, "PIECE", 10**6)
        whole = losses_and_gradients()
        monkeypatch.setattr(losses_blockwise, "PIECE", 64)
        monkeypatch.setattr("tuplet._threads.cores", lambda: threads)
        pieces: list[slice] = []
        deal = losses_blockwise.over
        monkeypatch.setattr(losses_blockwise, "over", lambda work, todo: [pieces.extend(todo), deal(work, todo)])
        cut = losses_and_gradients()
    assert pieces[:5] == [slice(i, min(i + 64, 300)) for i in range(0, 300, 64)]
    assert all(torch.equal(a, b) for a, b in zip(cut, whole))


def test_nothing_overflows_at_a_very_low_temperature() -> None:
    u, v, y = (x.detach().float() if x.is_floating_point() else x for x in draw(2, 8, 3, 2))
    u.requires_grad_()
    for t in (1e-3, 1e-2, 0.049, 0.05):
        for loss in (
            dmt_loss(u, y, temperature=t),
            dmat_loss(u, v, y, temperature=t),
            dmati_loss(u, v, temperature=t),
        ):
            (grad,) = torch.autograd.grad(loss, u)
            assert loss.isfinite() and grad.isfinite().all()


def test_low_temperature_in_float32_equals_float64() -> None:
    u, v, y = draw(3, 9, 4, 3)
    for t in (0.01, 0.06):
        for loss in (
            lambda a, b, t=t: dmat_loss(a, b, y, temperature=t),
            lambda a, b, t=t: dmati_loss(a, b, temperature=t),
        ):
            assert math.isclose(float(loss(u.float(), v.float()).detach()), float(loss(u, v).detach()), rel_tol=1e-4)


@pytest.mark.parametrize("zeros", ["u", "v", "both", "one row"])
def test_zero_vectors_give_no_nan(zeros: str) -> None:
    u, v, y = (x.detach() for x in draw(4, 6, 3, 2))
    u = u * 0 if zeros in ("u", "both") else u
    v = v * 0 if zeros in ("v", "both") else v
    if zeros == "one row":
        u[2] = v[2] = 0
    u.requires_grad_()
    v.requires_grad_()
    for loss in (
        dmt_loss(u, y, temperature=0.5),
        dmat_loss(u, v, y, temperature=0.5),
        dmati_loss(u, v, temperature=0.5),
    ):
        grads = torch.autograd.grad(loss, (u, v), allow_unused=True)
        assert loss.isfinite() and all(g is None or (g.isfinite().all() and g.abs().max() < 100) for g in grads)


def test_one_class_makes_dmt_and_dmat_zero() -> None:
    u, v, _ = draw(5, 6, 3, 1)
    y = torch.zeros(6, dtype=torch.long)
    assert dmt_loss(u, y, temperature=0.5).abs() < 1e-12 and dmat_loss(u, v, y, temperature=0.5).abs() < 1e-12


def test_dmat_with_all_labels_different_is_dmati() -> None:
    u, v, _ = draw(6, 7, 3, 1)
    assert_same(dmat_loss(u, v, torch.arange(7), temperature=0.3), dmati_loss(u, v, temperature=0.3), u, v)


def test_the_tuplet_losses_never_exceed_the_unbiased_one() -> None:
    """Lemma 1: more recognised positives in a tuple of the same size lower the loss."""
    u, v, y = draw(7, 8, 3, 2)
    assert dmat_loss(u, v, y, temperature=0.5) <= dmati_loss(u, v, temperature=0.5)


def test_scaling_the_input_changes_nothing() -> None:
    u, v, _ = draw(8, 5, 3, 1)
    torch.testing.assert_close(dmati_loss(7 * u, v / 9, temperature=0.5), dmati_loss(u, v, temperature=0.5))


def test_sums_of_rows_without_terms_are_minus_infinity() -> None:
    w = to_unit(torch.randn(3, 2))
    labels = torch.tensor([0, 1, 1])
    _, same = self_log_sums(w, 0.5, labels, without_self=True)
    assert same is not None and same[0] == -torch.inf and same[1:].isfinite().all()


def test_cross_sums_equal_the_dense_ones() -> None:
    u, v, y = (x.detach() for x in draw(9, 11, 4, 3))
    logits = u @ v.T / 0.7
    everything, same = cross_log_sums(u, v, 0.7, y, tile=4)
    torch.testing.assert_close(everything, torch.stack([logits.logsumexp(1), logits.logsumexp(0)]))
    masked = logits.masked_fill(y[:, None] != y[None], -torch.inf)
    torch.testing.assert_close(same, torch.stack([masked.logsumexp(1), masked.logsumexp(0)]))


PEAK = """
import torch
from pathlib import Path
from tuplet.losses import dmati_loss

def peak():  # megabytes; ru_maxrss would carry the parent's over
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) / 1024

g = torch.Generator().manual_seed(0)
u, v = (torch.randn(16384, 128, generator=g).requires_grad_() for _ in range(2))
dmati_loss(u[:64], v[:64], temperature=0.5).backward()
Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
before = peak()
dmati_loss(u, v, temperature=0.5).backward()
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads peak memory from /proc")
def test_a_large_batch_stays_within_its_memory() -> None:
    """b = 16,384: the similarity matrix of 2b rows would take 4.3 GB; tiles take under 512 MB."""
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert 20 < float(done.stdout) < 512
