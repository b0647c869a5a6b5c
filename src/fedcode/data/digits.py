"""The 1,797 handwritten digits that come with scikit-learn: 8 x 8 pixels, real, always at hand."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from fedcode.data.dataset import Dataset
from fedcode.errors import require

TEST_EVERY = 5  # every fifth example of a class is a test example


def digits() -> Dataset:
    """1,442 training and 355 test digits, inputs (n, 1, 8, 8) float32 from 0 to 1.

    The split never changes and is stratified: every fifth example of each class, in the file's order, is a test
    example. scikit-learn's file is read without importing scikit-learn, which would take a second.

    >>> data = digits()
    >>> data.shape, data.examples, len(data.test_labels), data.classes
    ((1, 8, 8), 1442, 355, 10)

    Reference: Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998.
    """
    table = _table()
    inputs = (table[:, :64] / np.float32(16)).reshape(-1, 1, 8, 8)
    labels = table[:, 64].astype(np.int64)
    test = np.zeros(len(labels), bool)
    for label in range(10):
        test[np.flatnonzero(labels == label)[TEST_EVERY - 1 :: TEST_EVERY]] = True
    return Dataset(
        "digits",
        torch.from_numpy(inputs[~test]),
        torch.from_numpy(labels[~test]),
        torch.from_numpy(inputs[test]),
        torch.from_numpy(labels[test]),
        classes=10,
    )


def _table() -> np.ndarray:
    """One row a digit: 64 pixels from 0 to 16, then the label."""
    spec = find_spec("sklearn")
    file = Path(spec.origin).parent / "datasets/data/digits.csv.gz" if spec and spec.origin else None
    if file is not None and file.exists():
        text = gzip.decompress(file.read_bytes()).decode().replace("\n", ",").rstrip(",")
        return np.array(text.split(","), np.float32).reshape(-1, 65)
    # another release may keep it elsewhere
    pixels, labels = require("sklearn.datasets", "train").load_digits(return_X_y=True)
    return np.column_stack([pixels, labels]).astype(np.float32)
