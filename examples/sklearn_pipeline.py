"""
scikit-learn: pipeline and cross-validation
===========================================

DMATi inside scikit-learn: a pipeline from graph to classifier, and settings compared by cross-validation.

Run: ``python examples/sklearn_pipeline.py``
"""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import tuplet


def main() -> None:
    graph = tuplet.load_dataset("cora")
    rng = np.random.default_rng(0)
    known = rng.permutation(graph.n_nodes)[:270]  # 10% of the labels

    embed = make_pipeline(tuplet.DMATi(seed=0), Normalizer())
    z = embed.fit_transform(graph)
    probe = LogisticRegression(C=10, max_iter=200).fit(z[known], graph.y[known])
    others = np.setdiff1d(np.arange(graph.n_nodes), known)
    print(f"accuracy on the other nodes: {probe.score(z[others], graph.y[others]):.3f}")

    for temperature in (0.5, 1.0):
        z = clone(embed).set_params(dmati__temperature=temperature).fit_transform(graph)
        scores = cross_val_score(LogisticRegression(C=10, max_iter=200), z[known], graph.y[known], cv=3)
        print(f"temperature {temperature}: {scores.mean():.3f} in cross-validation on the known labels")


if __name__ == "__main__":
    main()

# sphinx_gallery_thumbnail_path = 'images/no-labels.png'
