"""Many small models trained at once as batched matrix products, and their batched evaluation.

A stack holds m perceptrons, each with its own temperature, learning rate, mask fraction, batches and masks. On a GPU
32 of them cost little more than one. Batches that the models share would be cheaper, but ten seeds of a setting would
not be ten runs: their scores would move together, by a point and more. What the library does in one model (losses,
optimizers, masks of whole columns, K-Means, scores) stands here again in stacked form; tests hold the two together.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor


@dataclass(frozen=True)
class Model:
    """The settings of one model of a stack. `l2` > 0: Adam with that much weight decay in the gradient, not AdamW."""

    temperature: float
    mask_fraction: float
    lr: float
    l2: float = 0.0
    seed: int = 0


def filter_rows(indptr, indices, x: Tensor, alpha: float, r: float = 0.5, tol: float = 1e-4) -> Tensor:
    """Personalised PageRank rows with self loops, (n, f), by Horner's form: z <- (1 - alpha) M z + alpha x."""
    n, device = len(indptr) - 1, x.device
    degrees = torch.as_tensor(np.diff(indptr) + 1, dtype=torch.float32, device=device)[:, None]
    parts = (torch.as_tensor(np.asarray(indptr)), torch.as_tensor(np.asarray(indices, dtype=np.int64)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse matrices a beta
        adj = torch.sparse_csr_tensor(*parts, torch.ones(len(indices)), size=(n, n)).to(device)
    start = x / degrees**r
    z = alpha * start
    for _ in range(int(np.ceil(np.log(tol) / np.log1p(-alpha)))):
        z = (1 - alpha) / degrees * (adj @ z + z) + alpha * start
    return z * degrees**r


def unit(z: Tensor) -> Tensor:
    """Rows of unit length; zero rows stay zero."""
    return torch.nn.functional.normalize(z, dim=-1)


class Stack:
    """m perceptrons f -> h -> .. -> d with the state of their AdamW or Adam."""

    def __init__(self, models: Sequence[Model], f: int, layers: Sequence[int], weight_decay: float, device: str):
        self.models, self.device, self.count = list(models), device, 0
        sizes = [f, *layers]
        self.t, self.lr, self.l2 = (self._column(name) for name in ("temperature", "lr", "l2"))
        self.decay = weight_decay * (self.l2 == 0)
        self.weights = []
        for before, after in pairwise(sizes):
            self.weights.append(self._uniform((before, after), before))
            self.weights.append(self._uniform((1, after), before))
        self.moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in self.weights]

    def _column(self, name: str) -> Tensor:
        values = [getattr(model, name) for model in self.models]
        return torch.tensor(values, dtype=torch.float32, device=self.device)[:, None, None]

    def _uniform(self, shape: tuple[int, int], fan_in: int) -> Tensor:
        """Each model's own seed: equal seeds give equal starts, whatever the other settings."""
        parts = []
        for model in self.models:
            rng = torch.Generator().manual_seed(1000 * model.seed + len(self.weights))
            parts.append((torch.rand(shape, generator=rng) * 2 - 1) / fan_in**0.5)
        return torch.stack(parts).to(self.device).requires_grad_()

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """Vectors (m, b, d) of x (m, b, f), or of x (b, f) by every model; `keep` (m, f) is 0 for masked columns."""
        first = self.weights[0] if keep is None else self.weights[0] * keep[:, :, None]
        z = torch.matmul(x, first) + self.weights[1]
        for w, b in zip(self.weights[2::2], self.weights[3::2]):
            z = torch.baddbmm(b, torch.relu(z), w)
        return z

    @torch.no_grad()
    def embed(self, rows: Tensor, block: int = 4096) -> Tensor:
        """Vectors (m, n, d) of all rows (n, f)."""
        return torch.cat([self.forward(rows[i : i + block]) for i in range(0, len(rows), block)], dim=1)

    def masks(self, rng: torch.Generator) -> Tensor:
        """(m, f): 0 at a random share of the columns, each model its own share and its own draw."""
        m, f, _ = self.weights[0].shape
        ranks = torch.rand((m, f), generator=rng, device=self.device).argsort(1).argsort(1)
        masked = torch.tensor([min(round(m.mask_fraction * f), f - 1) for m in self.models], device=self.device)
        return (ranks >= masked[:, None]).float()

    def step(self, loss: Tensor) -> None:
        """One step of AdamW or Adam for the sum of the models' losses, each with its own learning rate."""
        grads = torch.autograd.grad(loss.sum(), self.weights)
        self.count += 1
        with torch.no_grad():
            for w, g, (first, second) in zip(self.weights, grads, self.moments):
                g = g + self.l2 * w
                first.lerp_(g, 0.1)
                second.lerp_(g * g, 0.001)
                size = (second / (1 - 0.999**self.count)).sqrt_().add_(1e-8)
                w.sub_(self.lr * (self.decay * w + first / (1 - 0.9**self.count) / size))


def losses(stack: Stack, x: Tensor, y: Tensor | None, kind: str, views: int, rng: torch.Generator) -> Tensor:
    """One loss a model (m,): the mean over the views of DMAT-i or DMAT, or DMT without views."""
    u = unit(stack.forward(x))
    if kind == "dmt":
        return _loss(u, stack.t, y, keep_self=True)
    total = 0.0
    for _ in range(views):
        v = unit(stack.forward(x, stack.masks(rng)))
        labels = None if kind == "dmati" else torch.cat([y, y], dim=-1)
        total = total + _loss(torch.cat([u, v], dim=1), stack.t, labels, keep_self=False)
    return total / views


def _loss(z: Tensor, t: Tensor, y: Tensor | None, keep_self: bool) -> Tensor:
    b = z.shape[1]
    s = torch.bmm(z, z.transpose(1, 2)) / t
    eye = torch.eye(b, dtype=torch.bool, device=z.device)
    if not keep_self:
        s = s.masked_fill(eye, -torch.inf)
    if y is None:
        near = s.diagonal(b // 2, 1, 2)
        near = torch.cat([near, near], dim=1)
    else:
        near = s.masked_fill(y[..., :, None] != y[..., None, :], -torch.inf).logsumexp(2)
    return (s.logsumexp(2) - near).mean(1)


def train(
    stack: Stack,
    rows: Tensor,
    stops: Sequence[int],
    *,
    kind: str = "dmati",
    y: Tensor | None = None,
    views: int = 2,
    batch: int = 512,
    seed: int = 0,
) -> Iterator[int]:
    """Train on `rows` (n, f), and yield each number of steps in `stops` when it is reached."""
    rng = torch.Generator(device=stack.device).manual_seed(seed)
    n, m, place = len(rows), len(stack.models), len(rows)
    for step in range(1, max(stops) + 1):
        if place > n - 2:  # a last batch of one row is skipped, as in the library
            order, place = torch.rand((m, n), generator=rng, device=stack.device).argsort(1), 0
        part = order[:, place : place + batch]
        place += batch
        stack.step(losses(stack, rows[part], None if y is None else y[part], kind, views, rng))
        if step in stops:
            yield step


@torch.no_grad()
def kmeans(z: Tensor, k: int, *, restarts: int = 10, steps: int = 30, seed: int = 0) -> Tensor:
    """Clusters (m, n) of each z[i] (n, d): Lloyd from k-means++ starts, the best of some restarts."""
    m, n, _ = z.shape
    rng = torch.Generator(device=z.device).manual_seed(seed)
    squares = (z * z).sum(2)
    best = torch.full((m,), torch.inf, device=z.device)
    labels = torch.zeros(m, n, dtype=torch.long, device=z.device)
    for _ in range(restarts):
        centres = _plus_plus(z, squares, k, rng)
        for _ in range(steps):
            distance = _distances(z, squares, centres)
            member = torch.nn.functional.one_hot(distance.argmin(2), k).to(z.dtype)
            sizes = member.sum(1)[:, :, None]
            centres = torch.where(sizes > 0, torch.bmm(member.transpose(1, 2), z) / sizes.clamp(min=1), centres)
        near, found = _distances(z, squares, centres).min(2)
        inertia = near.sum(1)
        better = inertia < best
        labels[better], best[better] = found[better], inertia[better]
    return labels


def _distances(z: Tensor, squares: Tensor, centres: Tensor) -> Tensor:
    cross = torch.bmm(z, centres.transpose(1, 2))
    return (squares[:, :, None] - 2 * cross + (centres * centres).sum(2)[:, None]).clamp_(min=0)


def _plus_plus(z: Tensor, squares: Tensor, k: int, rng: torch.Generator) -> Tensor:
    m, n, _ = z.shape
    every = torch.arange(m, device=z.device)
    picked = [torch.randint(n, (m,), generator=rng, device=z.device)]
    near = torch.full((m, n), torch.inf, device=z.device)
    for _ in range(k - 1):
        last = z[every, picked[-1]][:, None]
        near = torch.minimum(near, _distances(z, squares, last)[:, :, 0])
        picked.append(torch.multinomial(near + 1e-12, 1, generator=rng)[:, 0])
    return torch.stack([z[every, p] for p in picked], dim=1)


def cluster_scores(labels: Tensor, y: Tensor, classes: int) -> list[dict[str, float]]:
    """accuracy, nmi, ari, f1 in percent for each row of `labels` (m, n)."""
    k = int(labels.max()) + 1
    pairs = y * k + labels + (torch.arange(len(labels), device=y.device) * classes * k)[:, None]
    counts = torch.bincount(pairs.flatten(), minlength=len(labels) * classes * k)
    return [_table_scores(table) for table in counts.view(-1, classes, k).cpu().numpy().astype(float)]


def _table_scores(table: np.ndarray) -> dict[str, float]:
    n, a, b = table.sum(), table.sum(1), table.sum(0)
    rows, columns = linear_sum_assignment(-table)
    right = table[rows, columns]
    f1 = np.zeros(len(a))
    f1[rows] = 2 * right / np.maximum(a[rows] + b[columns], 1)
    p, pa, pb = table[table > 0] / n, a[a > 0] / n, b[b > 0] / n
    outer = np.outer(a, b)[table > 0] / n**2
    entropy = -(pa @ np.log(pa)) - (pb @ np.log(pb))
    pairs, pairs_a, pairs_b = ((v * (v - 1) / 2).sum() for v in (table, a, b))
    expected = pairs_a * pairs_b / (n * (n - 1) / 2)
    values = {
        "accuracy": right.sum() / n,
        "nmi": 2 * (p @ np.log(p / outer)) / max(entropy, 1e-12),
        "ari": (pairs - expected) / max((pairs_a + pairs_b) / 2 - expected, 1e-12),
        "f1": f1.mean(),
    }
    return {name: round(100 * float(value), 3) for name, value in values.items()}


@torch.no_grad()
def probe_scores(z: Tensor, y: Tensor, classes: int, split, strengths=(1e-4, 1e-3, 1e-2, 1e-1, 1.0)):
    """(validation, test) accuracy in percent, each (m,), of a ridge classifier whose strength validation chose."""
    train, val, test = (torch.as_tensor(part, device=z.device) for part in (split.train, split.val, split.test))
    z = z / z[:, train].norm(dim=2).mean(1)[:, None, None]
    z = torch.cat([z, torch.ones_like(z[:, :, :1])], dim=2)
    x, target = z[:, train], torch.nn.functional.one_hot(y[train], classes).to(z.dtype) - 1 / classes
    gram, cross = torch.bmm(x.transpose(1, 2), x), x.transpose(1, 2) @ target
    best, result = torch.full((len(z),), -1.0, device=z.device), torch.zeros(len(z), device=z.device)
    eye = torch.eye(z.shape[2], device=z.device)
    for strength in strengths:
        w = torch.linalg.solve(gram + strength * len(train) / 100 * eye, cross)
        on_val, on_test = (
            100 * (torch.bmm(z[:, part], w).argmax(2) == y[part]).float().mean(1) for part in (val, test)
        )
        better = on_val > best
        best[better], result[better] = on_val[better], on_test[better]
    return best, result


@torch.no_grad()
def link_scores(z: Tensor, split, rows: str) -> dict[str, Tensor]:
    """val_auc, val_ap, auc, ap in percent, each (m,); rows "unit" or "centred unit"."""
    z = unit(z - z.mean(1, keepdim=True) if rows == "centred unit" else z)
    found = {}
    for prefix, edges, others in (
        ("val_", split.val, split.val_non_edges),
        ("", split.test, split.test_non_edges),
    ):
        scores = []
        for pairs in (edges, others):
            u, v = (torch.as_tensor(pairs[:, side], device=z.device) for side in (0, 1))
            scores.append((z[:, u] * z[:, v]).sum(2))
        found[f"{prefix}auc"], found[f"{prefix}ap"] = _auc_ap(*scores)
    return found


def _auc_ap(edges: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    truth = torch.cat([torch.ones_like(edges), torch.zeros_like(others)], dim=1)
    order = torch.cat([edges, others], dim=1).argsort(dim=1, descending=True, stable=True)
    truth = truth.gather(1, order)
    p, q = edges.shape[1], others.shape[1]
    hits = truth.cumsum(1)
    places = torch.arange(1, p + q + 1, device=edges.device)
    auc = (hits * (1 - truth)).sum(1) / (p * q)
    ap = (hits / places * truth).sum(1) / p
    return 100 * auc, 100 * ap
