"""A federation that trains in milliseconds: points of three classes and a network with every kind of entry."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn

from fedcode.simulation import Config

EXAMPLES, TESTS, FEATURES, CLASSES = 120, 30, 8, 3


def points(examples: int = EXAMPLES, features: int = FEATURES, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """Training and test inputs and labels: each class lies around a point of its own."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((CLASSES, features))
    labels = np.arange(examples + TESTS) % CLASSES
    inputs = (centers[labels] + 0.5 * rng.standard_normal((len(labels), features))).astype(np.float32)
    return inputs[:examples], labels[:examples], inputs[examples:], labels[examples:]


class Network(nn.Module):
    """Two linear layers with normalisation between them: weights, statistics and a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(FEATURES, 16, bias=False)  # a bias would have no gradient but rounding
        self.norm = nn.BatchNorm1d(16)
        self.out = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.out(self.norm(self.hidden(x)).relu())
        return logits


def config(method: str = "fedavg", **settings: Any) -> Config:
    """Four clients, of whom two take part in each of three rounds."""
    usual = {"clients": 4, "participation": 0.5, "rounds": 3, "epochs": 1, "batch": 16, "lr": 0.01, "minimum": 5}
    return Config.of(usual | {"method": method, "dataset": "own", "network": "own", "workers": 1} | settings)
