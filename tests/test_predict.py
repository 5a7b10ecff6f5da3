"""predict_nodes: unlabelled nodes get the class of their surroundings, labelled ones keep theirs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import anywhere
from tuplet import InputError
from tuplet.evaluation.predict import predict_nodes


def blobs(n: int = 300, k: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    return (4 * np.eye(k)[y] + rng.normal(size=(n, k))).astype(np.float32), y


def test_unlabelled_nodes_get_their_class_and_a_probability_that_means_something() -> None:
    z, truth = blobs()
    hidden = np.random.default_rng(1).random(len(truth)) < 0.7
    found = predict_nodes(z, y=np.where(hidden, -1, truth))
    right = found.classes[hidden] == truth[hidden]
    assert right.mean() > 0.95 and np.array_equal(found.known, ~hidden)
    assert found.probability[hidden][right].mean() > found.probability[hidden][~right].mean() + 0.1
    assert found.accuracy is not None and abs(found.accuracy / 100 - right.mean()) < 0.1


def test_labelled_nodes_keep_their_label_even_where_the_classifier_disagrees() -> None:
    z, y = blobs()
    wrong = y.copy()
    wrong[0] = (y[0] + 1) % 3
    found = predict_nodes(z, y=np.where(anywhere(300, 100), wrong, -1))
    assert found.classes[0] == wrong[0] and found.probability[0] == 1.0


def test_class_numbers_may_have_gaps_and_a_memory_map_will_do(tmp_path) -> None:
    z, y = blobs()
    np.save(tmp_path / "z.npy", z)
    labels = np.where(anywhere(300, 150), np.array([5, 0, 9])[y], -1)
    found = predict_nodes(np.load(tmp_path / "z.npy", mmap_mode="r"), y=labels)
    assert set(found.classes) == {0, 5, 9}
    assert np.mean(found.classes == np.array([5, 0, 9])[y]) > 0.95


def test_few_labels_still_work_and_one_class_does_not() -> None:
    z, y = blobs()
    few = np.full(300, -1)
    few[[np.flatnonzero(y == c)[0] for c in range(3)]] = [0, 1, 2]
    found = predict_nodes(z, y=few)
    assert found.accuracy is None and np.mean(found.classes == y) > 0.7
    with pytest.raises(InputError, match="1 classes"):
        predict_nodes(z, y=np.where(y == 0, 0, -1))
