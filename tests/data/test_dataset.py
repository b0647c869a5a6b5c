from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedcode import data
from fedcode.data import Dataset
from fedcode.data.dataset import Standardise
from fedcode.errors import ArgumentError


def small(**changes: object) -> Dataset:
    inputs = torch.arange(24, dtype=torch.uint8).view(6, 1, 2, 2)
    labels = torch.tensor([0, 1, 0, 1, 0, 1])
    return replace(Dataset("small", inputs, labels, inputs[:2], labels[:2], 2), **changes)  # type: ignore[arg-type]


def test_digits_are_scikit_learns_own() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    pixels, labels = datasets.load_digits(return_X_y=True)
    digits = data.digits()
    assert digits.shape == (1, 8, 8)
    assert len(digits.train_labels) + len(digits.test_labels) == len(labels) == 1797
    theirs = sorted((*row.tolist(), int(label)) for row, label in zip(pixels, labels, strict=True))
    inputs = torch.cat([digits.train_inputs, digits.test_inputs]).flatten(1) * 16
    own = torch.cat([digits.train_labels, digits.test_labels])
    assert theirs == sorted((*row.tolist(), int(label)) for row, label in zip(inputs, own, strict=True))


def test_digits_split_is_stratified_and_without_overlap() -> None:
    digits = data.digits()
    train, test = np.bincount(digits.labels), np.bincount(digits.test_labels.numpy())
    assert np.array_equal(test, (train + test) // 5)


def test_a_subset_is_drawn_by_its_generator() -> None:
    digits = data.digits()
    fifth = digits.subset(0.2, np.random.default_rng(3))
    assert fifth.examples == round(0.2 * digits.examples)
    assert torch.equal(fifth.test_inputs, digits.test_inputs)
    assert torch.equal(fifth.train_inputs, digits.subset(0.2, np.random.default_rng(3)).train_inputs)
    assert not torch.equal(fifth.train_inputs, digits.subset(0.2, np.random.default_rng(4)).train_inputs)
    assert digits.subset(7, np.random.default_rng(0)).examples == 7
    for size in (0, 0.0, 5000, 1.5, -1):
        with pytest.raises(ArgumentError, match="cannot be drawn"):
            digits.subset(size, np.random.default_rng(0))


def test_batches_are_augmented_then_prepared() -> None:
    heard: list[str] = []

    def augment(batch: torch.Tensor, _: torch.Generator) -> torch.Tensor:
        heard.append("augment")
        return batch + 1

    def prepare(batch: torch.Tensor) -> torch.Tensor:
        heard.append("prepare")
        return batch.float() * 2

    pair = small(augment=augment, prepare=prepare)
    plain, labels = pair.train([1, 2])
    assert (int(plain[0, 0, 0, 0]), labels.tolist(), heard) == (8, [1, 0], ["prepare"])
    varied, _ = pair.train(np.array([1]), torch.Generator())
    assert varied[0, 0, 0, 0] == 10
    assert heard == ["prepare", "augment", "prepare"]
    assert pair.test(1)[0].shape == (1, 1, 2, 2)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"train_labels": torch.zeros(5).long()}, "6 training inputs and 5 labels"),
        ({"test_labels": torch.zeros(3).long()}, "2 test inputs and 3 labels"),
        ({"train_labels": torch.full((6,), 2)}, "must be 0 to 1, got 2 to 2"),
        ({"test_labels": torch.full((2,), -1)}, "got -1 to -1"),
        ({"test_inputs": torch.zeros(2, 4)}, "give both one shape"),
    ],
)
def test_sets_that_contradict_themselves(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        small(**change)


def test_labels_that_are_no_classes() -> None:
    assert small(classes=0, train_labels=torch.randn(6)).classes == 0


def test_standardise_agrees_with_the_formula() -> None:
    batch = torch.randint(0, 256, (4, 3, 5, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    mean, deviation = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)
    got = Standardise(mean, deviation)(batch).numpy()
    expected = (batch.numpy() / 255.0 - np.reshape(mean, (3, 1, 1))) / np.reshape(deviation, (3, 1, 1))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
