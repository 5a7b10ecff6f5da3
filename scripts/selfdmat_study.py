"""The study behind SelfDMAT: one setting for all graphs, chosen without labels. Made for a GPU; runs on a CPU too.

    TUPLET_DATA=folder python scripts/selfdmat_study.py --minutes 8 --seeds 10 [--graphs cora,acm] [--only share]

Every line of the result (JSONL, to $OUT/selfdmat.jsonl or --out) is one setting on one graph: means and the
deviation over seeds. Labels are read by `scores` and nothing else. The first settings tell the way from the plain
filter to the method, then each part of it is varied alone; the run ends when its minutes are spent, and prints a
table. It shares no code with the package: it is the second opinion. docs/LOG.md has what was found.

The steps: columns weighted by log(1 + n / df), unit rows, PPR filter, unit rows; SVD; rows divided by a power of
their similarity to all rows (`balance`), the first singular value lowered to the second (`head`), unit rows;
K-Means; in each cluster the `share` of largest margin keeps its label; an encoder learns them by the DMAT loss from
rows of another filter (`near`); its vectors are clustered again. Many models train at once as batched products.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

GRAPHS = ("acm", "dblp", "cora", "citeseer", "pubmed", "amazon-photo", "coauthor-cs", "coauthor-phy")
PAPER = dict(zip(GRAPHS, (91.6, 80.3, 70.6, 67.5, 70.9, 76.5, 76.9, 89.3)))


@dataclass(frozen=True)
class Setting:
    """One variant of the pipeline. `steps` 0: no training. `width`: SVD dimensions as a multiple of k."""

    features: str = "idf"  # raw | idf | binidf | logidf
    far: float = 0.05  # alpha of the rows that are clustered first
    near: float = 0.2  # alpha of the rows that the encoder sees
    r: float = 0.5
    balance: float = 0.4
    head: str = "clip"  # none | clip2 | clip | drop | sqrt: what is done to the first singular value
    width: float = 2.0
    restarts: int = 20
    rows: str = "groups"  # groups: balanced columns; svd: the first 256 components; full: the filtered rows
    columns: int = 64
    share: float = 0.9
    steps: int = 60
    temperature: float = 0.5
    mask: float = 0.3
    lr: float = 1e-3
    layers: tuple[int, int] = (256, 64)
    rounds: int = 1
    models: int = 1  # models a seed, their vectors side by side


class Data:
    """One graph on the device, and what was computed of it so far."""

    def __init__(self, name: str, folder: Path, device: torch.device) -> None:
        z = np.load(folder / f"{name}.npz")
        self.name, self.device = name, device
        self.n = len(z["labels"])
        self.adj = sp.csr_matrix(
            (np.ones(len(z["adj_indices"]), np.float32), z["adj_indices"], z["adj_indptr"]), shape=(self.n, self.n)
        )
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


def spectrum(u: Tensor, s: Tensor, d: int, head: str, balance: float) -> Tensor:
    """Unit rows of the first d directions of the balanced rows, the first singular value treated as `head` says."""
    if balance:
        rows = u * s
        similar = rows @ rows.sum(0)
        similar = similar.clamp_min(0.01 * similar.median()) / similar.mean()
        rows = rows * similar.pow(-balance)[:, None]
        squares, turn = torch.linalg.eigh((rows.T @ rows).double())
        s = squares.flip(0).clamp_min(1e-12).sqrt().float()
        u = rows @ turn.flip(1).float() / s
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


def confident(labels: Tensor, margin: Tensor, k: int, share: float) -> Tensor:
    """Labels with -1 for all but the `share` of largest margin in each cluster; (n,) each."""
    out = torch.full_like(labels, -1)
    for c in range(k):
        members = (labels == c).nonzero().squeeze(1)
        if len(members):
            keep = max(2, round(share * len(members)))
            out[members[margin[members].argsort(descending=True)[:keep]]] = c
    return out


def fit_models(h: Tensor, labels: Tensor, s: Setting, seed: int) -> Tensor:
    """Unit vectors (m, n, d) of m encoders, trained at once on labels (m, n), -1 unknown, by the DMAT loss."""
    m, (n, f), device, layers = len(labels), h.shape, h.device, s.layers
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
        loss.mean(1).sum().backward()
        optimizer.step()
    with torch.no_grad():
        out = torch.empty(m, n, layers[-1], device=device)
        for block in torch.arange(n, device=device).split(4096):
            out[:, block] = encode(h[block].expand(m, -1, -1))
    return out


def encoder_rows(data: Data, s: Setting) -> Tensor:
    if s.rows == "full":
        return data.rows(s.features, s.near, s.r)
    u, values, _ = data.svd(s.features, s.near, s.r)
    if s.rows == "svd":
        return unit(u * values)
    return spectrum(u, values, s.columns, s.head, s.balance)


def run(data: Data, s: Setting, seeds: int) -> Tensor:
    """Clusters of all seeds: (seeds, n)."""
    seed = torch.arange(seeds)
    u, values, _ = data.svd(s.features, s.far, s.r)
    z = spectrum(u, values, max(2, round(s.width * data.k)), s.head, s.balance).expand(seeds, -1, -1)
    labels, margin = kmeans(z, data.k, s.restarts, seed)
    for turn in range(s.rounds if s.steps else 0):
        h = encoder_rows(data, s)
        target = torch.stack([confident(a, b, data.k, s.share) for a, b in zip(labels, margin)])
        vectors = []
        for chunk in target.repeat_interleave(s.models, 0).split(10 if data.device.type == "cuda" else 1):
            vectors.append(fit_models(h, chunk, s, 1000 * turn + len(vectors)))
        z = torch.cat(vectors).view(seeds, s.models, data.n, -1).permute(0, 2, 1, 3).flatten(2) / s.models**0.5
        labels, margin = kmeans(z, data.k, s.restarts, seed + 100 * (turn + 1))
    return labels


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


def settings() -> Iterator[tuple[str, Setting]]:
    """Names and settings: the way to the method, then each part of it alone."""
    final = Setting()
    plain = Setting(features="raw", far=0.1, balance=0, head="none", steps=0)
    yield "final", final
    yield "1 filter, SVD", plain
    yield "2 + idf", replace(plain, features="idf")
    yield "3 + far .05", replace(plain, features="idf", far=0.05)
    yield "4 + head", replace(plain, features="idf", far=0.05, head="clip")
    yield "5 + balance", replace(final, steps=0)
    yield "6 + DMAT, far rows", replace(final, near=0.05)
    yield "6 + DMAT, full rows", replace(final, rows="full")
    yield "6 + DMAT, svd rows", replace(final, rows="svd")
    yield "old: 30%, full far rows", replace(final, rows="full", near=0.05, share=0.3, balance=0, steps=100)
    varied = {
        "share": (0.3, 0.5, 0.7, 0.8, 1.0),
        "near": (0.1, 0.3, 0.5),
        "far": (0.02, 0.03, 0.07, 0.1),
        "balance": (0, 0.25, 0.5),
        "head": ("none", "clip2", "drop", "sqrt"),
        "steps": (20, 30, 120, 300),
        "columns": (16, 32, 128, 250),
        "width": (1.0, 1.5, 3.0),
        "temperature": (0.1, 0.25, 1.0),
        "mask": (0.1, 0.5),
        "lr": (3e-4, 3e-3),
        "rounds": (2, 3),
        "models": (4,),
        "features": ("raw", "binidf", "logidf"),
        "layers": ((256, 256), (512, 64), (256, 16)),
        "r": (0.0, 1.0),
    }
    for name, values in varied.items():
        for value in values:
            yield f"{name} {value}", replace(final, **{name: value})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument(
        "--only", default="", help="run settings whose name contains one of these, separated by commas"
    )
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder, names = Path(os.environ["TUPLET_DATA"]), args.graphs.split(",")
    begun, table = time.time(), {}
    warnings.filterwarnings("ignore", message="Sparse")
    torch.backends.cuda.matmul.allow_tf32 = True
    data = {name: Data(name, folder, device) for name in names}
    todo = [(n, s) for n, s in settings() if not args.only or any(o in n for o in args.only.split(","))]
    with (Path(args.out) / "selfdmat.jsonl").open("a") as file:
        for label, setting in todo:
            for name in names:
                if time.time() - begun > 60 * args.minutes:
                    break
                row = measure(data[name], setting, args.seeds)
                table.setdefault(label, {})[name] = row
                file.write(json.dumps({"setting": label, "graph": name, **row}) + "\n")
                file.flush()
    report(table, names)


def measure(data: Data, s: Setting, seeds: int) -> dict[str, float]:
    """The row of one setting on one graph."""
    begun = time.time()
    found = [scores(data.y, labels, data.k) for labels in run(data, s, seeds)]
    row = {key: float(np.mean([f[key] for f in found])) for key in found[0]}
    row["std"] = float(np.std([f["accuracy"] for f in found]))
    return row | {"seconds": round(time.time() - begun, 2)}


def report(table: dict[str, dict[str, dict[str, float]]], names: list[str]) -> None:
    print(f"{'setting':28s}" + " ".join(f"{n[:9]:>10s}" for n in names) + "   mean    nmi    ari  least over paper")
    whole = [(k, v) for k, v in table.items() if len(v) == len(names)]
    for label, rows in sorted(whole, key=lambda kv: -np.mean([r["accuracy"] for r in kv[1].values()])):
        cells = " ".join(f"{rows[n]['accuracy']:5.1f}~{rows[n]['std']:4.1f}" for n in names)
        means = [np.mean([r[key] for r in rows.values()]) for key in ("accuracy", "nmi", "ari")]
        gap = min(rows[n]["accuracy"] - PAPER[n] for n in names)
        print(f"{label:28s}{cells} " + " ".join(f"{m:6.2f}" for m in means) + f" {gap:6.1f}")


if __name__ == "__main__":
    main()
