"""The study behind SelfDMAT: one setting for all graphs, chosen without labels. Run it on a GPU; it also runs here.

    TUPLET_DATA=folder python scripts/selfdmat_study.py --minutes 8 --seeds 10 [--graphs cora,acm] [--quick]

Every line of the result (JSONL, to $OUT/selfdmat.jsonl or --out) is one setting on one graph: the mean and the
deviation over seeds. Labels are read by `scores`, `probe` and nothing else. Settings come in the order of how much
is expected of them, and the run ends when its minutes are spent; a table over the graphs is printed last.

The steps: columns weighted by log(1 + n / df), unit rows, PPR filter, unit rows; SVD, the first singular value
lowered to the second (`head`), unit rows; K-Means; in each cluster the rows of largest margin keep their label; an
encoder learns them by the DMAT loss; its vectors are clustered again. Many models train at once as batched products.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

GRAPHS = ("acm", "dblp", "cora", "citeseer", "pubmed", "amazon-photo", "coauthor-cs", "coauthor-phy")
PAPER = dict(zip(GRAPHS, (91.6, 80.3, 70.6, 67.5, 70.9, 76.5, 76.9, 89.3)))


@dataclass(frozen=True)
class Setting:
    """One variant of the pipeline. `steps` 0: no training. `width`: SVD dimensions as a multiple of k."""

    features: str = "idf"  # raw | idf | binidf | logidf
    alpha: float = 0.05
    r: float = 0.5
    head: str = "clip"  # none | clip2 | clip | drop | sqrt: what is done to the first singular value
    width: float = 2.0
    start: str = "kmeans"  # kmeans | multi (three alphas side by side)
    restarts: int = 20
    rows: str = "full"  # full: the filtered rows; svd: their first 256 components
    row_alpha: float = 0.0  # alpha of the rows that the encoder sees; 0: that of the start
    fraction: float = 0.3
    steps: int = 0
    temperature: float = 0.5
    mask: float = 0.3
    lr: float = 1e-3
    rounds: int = 1
    models: int = 1  # models a seed, their vectors side by side
    final: str = "self"  # self | parts: what the last K-Means sees
    weight: float = 0.5  # of the SVD part beside the self-labelled one


class Data:
    """One graph on the device, and what was computed of it so far."""

    def __init__(self, name: str, folder: Path, device: torch.device, drop: np.ndarray | None = None) -> None:
        z = np.load(folder / f"{name}.npz")
        self.name, self.device = name, device
        self.n = len(z["labels"])
        self.adj = sp.csr_matrix(
            (np.ones(len(z["adj_indices"]), np.float32), z["adj_indices"], z["adj_indptr"]), shape=(self.n, self.n)
        )
        if drop is not None:
            self.adj = without_edges(self.adj, drop)
        self.x = sp.csr_matrix((z["x_data"], z["x_indices"], z["x_indptr"]), shape=tuple(z["x_shape"]))
        self.y = torch.from_numpy(z["labels"].astype(np.int64)).to(device)
        self.k = int(self.y.max()) + 1
        self._rows: dict[tuple[str, float, float], Tensor] = {}
        self._svd: dict[tuple[str, float, float], tuple[Tensor, Tensor, Tensor]] = {}

    def rows(self, features: str, alpha: float, r: float) -> Tensor:
        """Filtered unit rows (n, f)."""
        key = (features, alpha, r)
        if key not in self._rows:
            if len(self._rows) >= 4:
                self._rows.pop(next(iter(self._rows)))
            x = torch.from_numpy(weighted(self.x, features).toarray()).to(self.device)
            self._rows[key] = unit(ppr(self.adj, x, alpha, r))
        return self._rows[key]

    def svd(self, features: str, alpha: float, r: float) -> tuple[Tensor, Tensor, Tensor]:
        key = (features, alpha, r)
        if key not in self._svd:
            self._svd[key] = truncated_svd(self.rows(*key), min(256, min(self.x.shape) - 1))
        return self._svd[key]


def weighted(x: sp.csr_matrix, kind: str) -> sp.csr_matrix:
    """Columns weighted by how rare they are, rows of unit length."""
    x = x.astype(np.float32).copy()
    if "bin" in kind:
        x.data[:] = 1
    if "log" in kind:
        x.data = np.log1p(x.data)
    if "idf" in kind:
        df = np.maximum(1, np.bincount(x.indices, minlength=x.shape[1]))
        x = x @ sp.diags(np.log1p(x.shape[0] / df).astype(np.float32))
    length = np.sqrt(np.asarray(x.multiply(x).sum(1)).ravel())
    return (sp.diags(1 / np.where(length == 0, 1, length)) @ x).astype(np.float32).tocsr()


def without_edges(adj: sp.csr_matrix, edges: np.ndarray) -> sp.csr_matrix:
    both = np.concatenate([edges, edges[:, ::-1]])
    gone = sp.csr_matrix((np.ones(len(both), np.float32), both.T), shape=adj.shape)
    left = adj - gone
    left.eliminate_zeros()
    return left.tocsr()


def unit(z: Tensor) -> Tensor:
    return torch.nn.functional.normalize(z, dim=-1)


def ppr(adj: sp.csr_matrix, x: Tensor, alpha: float, r: float) -> Tensor:
    """alpha sum of (1-alpha)^l T^l x, cut where 1% of the weight is left; T = D^(r-1) (A + I) D^-r."""
    loops = (adj + sp.eye(adj.shape[0], format="csr")).tocsr()
    d = np.asarray(loops.sum(1)).ravel()
    t = (sp.diags(d ** (r - 1)) @ loops @ sp.diags(d**-r)).tocsr().astype(np.float32)
    op = torch.sparse_csr_tensor(
        torch.from_numpy(t.indptr.astype(np.int32)),
        torch.from_numpy(t.indices.astype(np.int32)),
        torch.from_numpy(t.data),
        size=t.shape,
        device=x.device,
    )
    hops = int(np.ceil(np.log(0.01) / np.log(1 - alpha)))
    out = []
    for block in x.split(2048, dim=1):
        z = block
        for _ in range(hops):
            z = (1 - alpha) * (op @ z) + alpha * block
        out.append(z)
    return torch.cat(out, 1)


def truncated_svd(h: Tensor, d: int, iterations: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator(device=h.device).manual_seed(0)
    q = torch.randn(h.shape[1], d + 20, generator=g, device=h.device)
    for _ in range(iterations):
        q, _ = torch.linalg.qr(h @ q)
        q, _ = torch.linalg.qr(h.T @ q)
    u, s, v = torch.linalg.svd(h @ q, full_matrices=False)
    return u[:, :d], s[:d], q @ v.T[:, :d]


def spectrum(u: Tensor, s: Tensor, d: int, head: str) -> Tensor:
    """Unit rows of the first d components, the first singular value treated as `head` says."""
    s = s.clone()
    if head == "drop":
        return unit(u[:, 1 : d + 1] * s[1 : d + 1])
    if head == "sqrt":
        s = s.sqrt()
    elif head == "clip":
        s[0] = s[1]
    elif head == "clip2":
        s[0] = torch.minimum(s[0], 2 * s[1])
    return unit(u[:, :d] * s[:d])


def kmeans(z: Tensor, k: int, restarts: int, seeds: Tensor, iterations: int = 60) -> tuple[Tensor, Tensor]:
    """Labels (m, n) and margins (m, n) of the best of `restarts` for each of m matrices z (m, n, d)."""
    found = [_kmeans(z[i], k, restarts, int(seeds[i]), iterations) for i in range(len(z))]
    return torch.stack([f[0] for f in found]), torch.stack([f[1] for f in found])


def _kmeans(z: Tensor, k: int, restarts: int, seed: int, iterations: int) -> tuple[Tensor, Tensor]:
    n, d = z.shape
    g = torch.Generator(device=z.device).manual_seed(seed)
    square = (z * z).sum(1)
    centres = torch.empty(restarts, k, d, device=z.device)
    centres[:, 0] = z[torch.randint(n, (restarts,), generator=g, device=z.device)]
    nearest = torch.full((restarts, n), float("inf"), device=z.device)
    for j in range(1, k):
        last = centres[:, j - 1]
        nearest = torch.minimum(nearest, (square - 2 * last @ z.T + (last * last).sum(1, keepdim=True)).clamp_min(0))
        centres[:, j] = z[torch.multinomial(nearest + 1e-12, 1, generator=g).squeeze(1)]
    old = None
    for step in range(iterations):
        flat = centres.reshape(restarts * k, d)
        gap = ((flat * flat).sum(1) - 2 * z @ flat.T).view(n, restarts, k)
        value, label = gap.min(2)
        if step % 8 == 7 and old is not None and bool((old == label).all()):
            break
        old = label
        onehot = torch.zeros(n, restarts, k, device=z.device).scatter_(2, label.unsqueeze(2), 1.0).view(n, -1)
        count = onehot.sum(0)
        centres = torch.where(count[:, None] > 0, onehot.T @ z / count.clamp_min(1)[:, None], flat).view_as(centres)
    best = int((value.sum(0)).argmin())
    two = (gap[:, best] + square[:, None]).clamp_min(0).sqrt().topk(2, dim=1, largest=False).values
    return label[:, best], (two[:, 1] - two[:, 0]) / two[:, 1].clamp_min(1e-9)


def confident(labels: Tensor, margin: Tensor, k: int, fraction: float) -> Tensor:
    """Labels with -1 for all but the `fraction` of largest margin in each cluster; (n,) each."""
    out = torch.full_like(labels, -1)
    for c in range(k):
        members = (labels == c).nonzero().squeeze(1)
        if len(members):
            keep = max(2, round(fraction * len(members)))
            out[members[margin[members].argsort(descending=True)[:keep]]] = c
    return out


def fit_models(h: Tensor, labels: Tensor, s: Setting, seed: int, layers: tuple[int, int] = (256, 256)) -> Tensor:
    """Unit vectors (m, n, d) of m encoders, trained at once on labels (m, n), -1 unknown, by the DMAT loss."""
    m, (n, f), device = len(labels), h.shape, h.device
    g = torch.Generator(device=device).manual_seed(seed)

    def uniform(*shape: int, fan: int) -> Tensor:
        return ((torch.rand(*shape, generator=g, device=device) * 2 - 1) / fan**0.5).requires_grad_()

    sizes = ((f, layers[0]), layers)
    weights = [uniform(m, a, b, fan=a) for a, b in sizes]
    biases = [uniform(m, 1, b, fan=a) for a, b in sizes]

    def encode(x: Tensor) -> Tensor:
        return unit(torch.baddbmm(biases[1], torch.baddbmm(biases[0], x, weights[0]).relu(), weights[1]))

    optimizer = torch.optim.AdamW([*weights, *biases], lr=s.lr, weight_decay=0.02)
    known = (labels >= 0).float()
    b = min(512, int(known.sum(1).min()))
    off = torch.eye(2 * b, device=device, dtype=torch.bool)
    for _ in range(s.steps):
        index = torch.multinomial(known, b, generator=g)
        x, y = h[index], labels.gather(1, index)
        kept = (torch.rand(m, 1, f, generator=g, device=device) >= s.mask).float()
        z = torch.cat([encode(x), encode(x * kept)], 1)
        sim = (z @ z.transpose(1, 2) / s.temperature).masked_fill(off, float("-inf"))
        yy = torch.cat([y, y], 1)
        same = yy[:, :, None] == yy[:, None, :]
        loss = sim.logsumexp(2) - sim.masked_fill(~same, float("-inf")).logsumexp(2)
        optimizer.zero_grad(set_to_none=True)
        loss.mean((1, 2) if loss.dim() == 3 else 1).sum().backward()
        optimizer.step()
    with torch.no_grad():
        out = torch.empty(m, n, layers[-1], device=device)
        for block in torch.arange(n, device=device).split(4096):
            out[:, block] = encode(h[block].expand(m, -1, -1))
    return out


def start_vectors(data: Data, s: Setting) -> Tensor:
    d = max(2, round(s.width * data.k))
    alphas = (s.alpha,) if s.start == "kmeans" else (0.05, 0.1, 0.2)
    parts = [spectrum(*data.svd(s.features, a, s.r)[:2], d, s.head) for a in alphas]
    return torch.cat(parts, 1) / len(parts) ** 0.5


def background(data: Data, s: Setting, d: int = 256) -> Tensor:
    """The part that keeps what lies inside a class: centred components of the filtered rows, unit rows."""
    u, values, _ = data.svd(s.features, s.alpha, s.r)
    z = u[:, :d] * values[:d]
    return unit(z - z.mean(0))


def run(data: Data, s: Setting, seeds: int) -> tuple[Tensor, Tensor]:
    """Vectors of the first seed (n, d) and labels of all seeds (seeds, n)."""
    seed = torch.arange(seeds)
    z = start_vectors(data, s).expand(seeds, -1, -1)
    labels, margin = kmeans(z, data.k, s.restarts, seed)
    for turn in range(s.rounds if s.steps else 0):
        h = data.rows(s.features, s.row_alpha or s.alpha, s.r)
        if s.rows == "svd":
            u, values, _ = data.svd(s.features, s.row_alpha or s.alpha, s.r)
            h = unit(u * values)
        target = torch.stack([confident(a, b, data.k, s.fraction) for a, b in zip(labels, margin)])
        vectors = []
        for chunk in target.repeat_interleave(s.models, 0).split(10 if data.device.type == "cuda" else 1):
            vectors.append(fit_models(h, chunk, s, 1000 * turn + len(vectors)))
        z = torch.cat(vectors).view(seeds, s.models, data.n, -1).permute(0, 2, 1, 3).flatten(2) / s.models**0.5
        if s.final == "parts" and turn == s.rounds - 1:
            z = torch.cat([z, s.weight * background(data, s).expand(seeds, -1, -1)], 2)
        labels, margin = kmeans(z, data.k, s.restarts, seed + 100 * (turn + 1))
    return z[0], labels


def scores(y: Tensor, labels: Tensor, k: int) -> dict[str, float]:
    """Accuracy, NMI and ARI in percent."""
    w = torch.bincount(y * k + labels, minlength=k * k).view(k, k).double().cpu().numpy()
    i, j = linear_sum_assignment(-w)
    p, a, b = w / w.sum(), w.sum(1) / w.sum(), w.sum(0) / w.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        mutual = np.nansum(p * np.log(p / np.outer(a, b)))
        entropies = -np.nansum(a * np.log(a)) - np.nansum(b * np.log(b))
    pairs = [(c * (c - 1) / 2).sum() for c in (w, w.sum(0), w.sum(1), w.sum())]
    chance = pairs[1] * pairs[2] / pairs[3]
    ari = (pairs[0] - chance) / ((pairs[1] + pairs[2]) / 2 - chance)
    return {"accuracy": 100 * w[i, j].sum() / w.sum(), "nmi": 200 * mutual / entropies, "ari": 100 * ari}


def probe(z: Tensor, y: Tensor, k: int, splits: int) -> float:
    """Mean test accuracy of a linear classifier, 10/10/80, its weight decay chosen on validation."""
    z = z - z.mean(0)
    z = z / z.pow(2).sum(1).mean().sqrt()
    total = []
    for split in range(splits):
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(split)).to(z.device)
        tenth = len(y) // 10
        train, val, test = order[:tenth], order[tenth : 2 * tenth], order[2 * tenth :]
        best = (-1.0, 0.0)
        for c in (1.0, 10.0, 100.0, 1000.0):
            w = torch.zeros(z.shape[1] + 1, k, device=z.device, requires_grad=True)
            opt = torch.optim.LBFGS([w], max_iter=80, line_search_fn="strong_wolfe")

            def closure(w: Tensor = w, opt: torch.optim.LBFGS = opt, c: float = c) -> Tensor:
                opt.zero_grad()
                out = z[train] @ w[:-1] + w[-1]
                loss = torch.nn.functional.cross_entropy(out, y[train]) + w[:-1].pow(2).sum() / (2 * c * tenth)
                loss.backward()
                return loss

            opt.step(closure)
            guess = (z @ w[:-1] + w[-1]).argmax(1)
            best = max(best, (float((guess[val] == y[val]).float().mean()), float((guess[test] == y[test]).float().mean())))
        total.append(100 * best[1])
    return float(np.mean(total))


def links(name: str, folder: Path, device: torch.device, s: Setting, seed: int) -> dict[str, float]:
    """AUC and AP of z_i . z_j on 10% held-out edges; everything is computed on the graph without them."""
    full = Data(name, folder, device)
    rng = np.random.default_rng(seed)
    edges = np.column_stack(sp.triu(full.adj, 1).nonzero())
    edges = edges[rng.permutation(len(edges))]
    held, test = edges[: round(0.15 * len(edges))], edges[: round(0.1 * len(edges))]
    pairs = rng.integers(full.n, size=(3 * len(test), 2))
    free = (pairs[:, 0] != pairs[:, 1]) & (np.asarray(full.adj[pairs[:, 0], pairs[:, 1]]).ravel() == 0)
    pairs = np.concatenate([test, pairs[free][: len(test)]])
    z, _ = run(Data(name, folder, device, held), s, 1)
    z = unit(z)
    score = (z[pairs[:, 0]] * z[pairs[:, 1]]).sum(1).cpu().numpy()
    truth = np.arange(len(pairs)) < len(test)
    return {"auc": 100 * roc_auc_score(truth, score), "ap": 100 * average_precision_score(truth, score)}


def settings(quick: bool) -> Iterator[tuple[str, Setting]]:
    """Names and settings, most promising first."""
    base = Setting()
    yield "start", base
    trained = replace(base, steps=100)
    yield "self", trained
    yield "parts .5", replace(trained, final="parts")
    if quick:
        return
    yield "self svd rows", replace(trained, rows="svd")
    yield "rounds 2", replace(trained, rounds=2)
    yield "models 4", replace(trained, models=4)
    yield "models 4 rounds 2", replace(trained, models=4, rounds=2)
    yield "multi start", replace(base, start="multi")
    yield "multi self", replace(trained, start="multi")
    yield "multi models 4 rounds 2", replace(trained, start="multi", models=4, rounds=2)
    for head in ("clip2", "none", "sqrt", "drop"):
        yield f"start {head}", replace(base, head=head)
        yield f"self {head}", replace(trained, head=head)
    for alpha in (0.1, 0.2):
        yield f"start alpha {alpha}", replace(base, alpha=alpha)
        yield f"self rows alpha {alpha}", replace(trained, row_alpha=alpha)
    for width in (1.0, 1.5, 3.0):
        yield f"start width {width}", replace(base, width=width)
    for fraction in (0.15, 0.5, 0.8, 1.0):
        yield f"fraction {fraction}", replace(trained, fraction=fraction)
    for steps in (30, 60, 200, 400):
        yield f"steps {steps}", replace(trained, steps=steps)
    for t in (0.1, 0.25, 1.0):
        yield f"temperature {t}", replace(trained, temperature=t)
    for mask in (0.1, 0.6):
        yield f"mask {mask}", replace(trained, mask=mask)
    for weight in (0.25, 0.75, 1.0):
        yield f"parts {weight}", replace(trained, final="parts", weight=weight)
    for features in ("raw", "binidf", "logidf"):
        yield f"start {features}", replace(base, features=features)
        yield f"self {features}", replace(trained, features=features)
    for r in (0.0, 1.0):
        yield f"start r {r}", replace(base, r=r)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--only", default="", help="run settings whose name contains one of these, separated by commas")
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder, names = Path(os.environ["TUPLET_DATA"]), args.graphs.split(",")
    begun, table = time.time(), {}
    torch.backends.cuda.matmul.allow_tf32 = True
    data = {name: Data(name, folder, device) for name in names}
    todo = [(n, s) for n, s in settings(args.quick) if not args.only or any(o in n for o in args.only.split(","))]
    with (Path(args.out) / "selfdmat.jsonl").open("a") as file:
        for label, setting in todo:
            for name in names:
                if time.time() - begun > 60 * args.minutes:
                    break
                row = measure(data[name], label, setting, args.seeds, folder)
                table.setdefault(label, {})[name] = row
                file.write(json.dumps({"setting": label, "graph": name, **row}) + "\n")
                file.flush()
    report(table, names)


def measure(data: Data, label: str, s: Setting, seeds: int, folder: Path) -> dict[str, float]:
    """The row of one setting on one graph."""
    begun = time.time()
    z, labels = run(data, s, seeds)
    found = [scores(data.y, a, data.k) for a in labels]
    row = {key: float(np.mean([f[key] for f in found])) for key in found[0]}
    row["std"] = float(np.std([f["accuracy"] for f in found]))
    if label.startswith("parts"):
        row["probe"] = probe(z, data.y, data.k, 3)
        row |= links(data.name, folder, data.device, s, 0)
    return row | {"seconds": round(time.time() - begun, 2)}


def report(table: dict[str, dict[str, dict[str, float]]], names: list[str]) -> None:
    print(f"{'setting':28s}" + " ".join(f"{n[:9]:>10s}" for n in names) + "   mean    nmi    ari  worst-paper  probe  auc  ap")
    whole = [(k, v) for k, v in table.items() if len(v) == len(names)]
    for label, rows in sorted(whole, key=lambda kv: -np.mean([r["accuracy"] for r in kv[1].values()])):
        cells = " ".join(f"{rows[n]['accuracy']:5.1f}~{rows[n]['std']:4.1f}" for n in names)
        means = [np.mean([r.get(key, np.nan) for r in rows.values()]) for key in ("accuracy", "nmi", "ari", "probe", "auc", "ap")]
        gap = min(rows[n]["accuracy"] - PAPER[n] for n in names)
        print(f"{label:28s}{cells} {means[0]:6.2f} {means[1]:6.2f} {means[2]:6.2f} {gap:6.1f} {means[3]:6.1f} {means[4]:6.1f} {means[5]:6.1f}")


if __name__ == "__main__":
    main()
