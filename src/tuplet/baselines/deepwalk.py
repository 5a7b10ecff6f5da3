"""DeepWalk: truncated random walks as sentences, skip-gram as the model (Perozzi, Al-Rfou and Skiena 2014)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tuplet._check import check_int, need_extra
from tuplet._seed import seed_of, stream
from tuplet.baselines._input import tell
from tuplet.graph import Graph
from tuplet.models.contract import NodeEstimator, Progress


class DeepWalk(NodeEstimator):
    """Vectors from the edges alone: nodes that occur near each other on random walks come to lie together.

    `n_walks` walks of `walk_length` nodes start at every node; edge weights play no part. Skip-gram (gensim) with
    hierarchical softmax as in the paper when `negative` is 0, else with that many negative samples. One worker
    gives the same bits for the same seed; more are faster and do not. `device` is accepted for the common contract.
    """

    needs_features = False
    inductive = False
    dim_parameter = "dimensions"

    def __init__(
        self,
        dimensions: int = 128,
        *,
        n_walks: int = 10,
        walk_length: int = 80,
        window: int = 10,
        negative: int = 0,
        epochs: int = 1,
        lr: float = 0.025,
        workers: int = 1,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.dimensions = dimensions
        self.n_walks = n_walks
        self.walk_length = walk_length
        self.window = window
        self.negative = negative
        self.epochs = epochs
        self.lr = lr
        self.workers = workers
        self.seed = seed
        self.device = device

    def _fit(self, graph: Graph, y: Any, progress: Progress | None) -> None:
        for name in ("dimensions", "n_walks", "walk_length", "window", "epochs", "workers"):
            check_int(name, getattr(self, name))
        word2vec = need_extra("gensim.models.word2vec", "baselines", "DeepWalk").Word2Vec
        sentences = _sentences(graph, self.n_walks, self.walk_length, self.seed)
        tell(progress, "walk", 1, 1)
        model = word2vec(
            sentences,
            vector_size=self.dimensions,
            window=self.window,
            min_count=0,
            sg=1,
            hs=int(self.negative == 0),
            negative=self.negative,
            sample=0,
            epochs=self.epochs,
            alpha=self.lr,
            workers=self.workers,
            seed=seed_of(self.seed, "skip-gram") % 2**32,
        )
        order = [model.wv.key_to_index[node] for node in range(graph.n_nodes)]
        self.embedding_ = np.ascontiguousarray(model.wv.vectors[order], dtype=np.float32)
        tell(progress, "train", 1, 1)


def _sentences(graph: Graph, n_walks: int, length: int, seed: int) -> list[list[int]]:
    """The walks as lists of nodes, in random order (the learning rate falls along the way)."""
    from tuplet.kernels.walk import random_walks

    starts = np.tile(np.arange(graph.n_nodes), n_walks)
    stream(seed, "walk order").shuffle(starts)
    walks = random_walks(graph.indptr, graph.indices, starts, length, seed=seed_of(seed, "walks"))
    ends = (walks >= 0).sum(axis=1)
    return [walk[:end] for walk, end in zip(walks.tolist(), ends.tolist())]
