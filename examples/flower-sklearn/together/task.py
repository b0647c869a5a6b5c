"""The model, the data and the training: scikit-learn and numpy, no torch."""

import numpy as np
from flwr.app import Array, ArrayRecord
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

CLASSES, PIXELS = 10, 64


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test digits, in an order that never changes."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    pixels, labels, test = pixels[order] / 16, labels[order], len(labels) // 5
    return pixels[test:], labels[test:], pixels[:test], labels[:test]


def first() -> ArrayRecord:
    """The model before training: all zero."""
    return record(np.zeros((CLASSES, PIXELS)), np.zeros(CLASSES))


def record(weights: np.ndarray, bias: np.ndarray) -> ArrayRecord:
    """The model as Flower carries it."""
    return ArrayRecord({"weights": Array(weights.astype(np.float32)), "bias": Array(bias.astype(np.float32))})


def train(arrays: ArrayRecord, partition_id: int, num_partitions: int) -> tuple[ArrayRecord, int]:
    """The model after training on a node's digits, and how many these are."""
    pixels, labels, _, _ = digits()
    mine = slice(partition_id, None, num_partitions)
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.01, max_iter=5, tol=None, random_state=0)
    weights, bias = (arrays[name].numpy().astype(float) for name in ("weights", "bias"))
    model.fit(pixels[mine], labels[mine], coef_init=weights, intercept_init=bias)
    return record(model.coef_, model.intercept_), len(labels[mine])


def accuracy(arrays: ArrayRecord) -> float:
    """The share of the test digits that the model gets right."""
    _, _, pixels, labels = digits()
    scores = pixels @ arrays["weights"].numpy().T + arrays["bias"].numpy()
    return float(np.mean(scores.argmax(1) == labels))
