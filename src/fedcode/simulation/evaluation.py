"""The global model on the test set, in pieces that can be done anywhere and add up the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from fedcode.data import Dataset
from fedcode.simulation.training import Loss, autocast, usual_loss

PIECE = 1000  # test examples at once: fixed, so that sums are the same bit for bit whoever makes them


@dataclass(frozen=True)
class Score:
    """How a model does on some examples: sums, so that pieces add up."""

    examples: int
    right: int
    loss: float


def pieces(dataset: Dataset) -> list[tuple[int, int]]:
    """The test set as (start, stop).

    >>> from fedcode.data import digits
    >>> pieces(digits())
    [(0, 355)]
    """
    size = len(dataset.test_labels)
    return [(start, min(start + PIECE, size)) for start in range(0, size, PIECE)]


def score(
    model: nn.Module,
    dataset: Dataset,
    start: int,
    stop: int,
    *,
    loss: Loss | None = None,
    precision: str = "float32",
    step: nn.Module | None = None,
) -> Score:
    """The model on the test examples `start` to `stop`."""
    model.eval()
    of = loss or usual_loss(dataset)
    with torch.no_grad(), autocast(precision, dataset.test_inputs.device):
        inputs, labels = dataset.test(start, stop)
        output = (model if step is None else step)(inputs)
        right = int((output.argmax(1) == labels).sum()) if dataset.classes else 0
        return Score(stop - start, right, float(of(output, labels)) * (stop - start))


def mean(scores: Iterable[Score], classes: int) -> tuple[float | None, float | None]:
    """Accuracy (None where there are no classes) and mean loss; both None where there are no test examples.

    >>> mean([Score(4, 3, 2.0), Score(4, 4, 2.0)], classes=2)
    (0.875, 0.5)
    """
    found = list(scores)
    examples = sum(part.examples for part in found)
    if not examples:
        return None, None
    accuracy = sum(part.right for part in found) / examples if classes else None
    return accuracy, sum(part.loss for part in found) / examples
