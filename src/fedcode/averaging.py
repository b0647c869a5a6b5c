"""What methods that average have in common: the server's optimiser, which takes the mean change as a gradient.

Reference: Hsu et al., Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification, 2019 (momentum); Reddi et al., Adaptive Federated Optimization, ICLR 2021 (Adam).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.arrays import expect
from fedcode.ends import Kept, Method, Turn, check
from fedcode.layout import Layout
from fedcode.state import State

OPTIMISERS = ("none", "momentum", "nesterov", "adam")
_SECOND = 0.99  # Adam's decay of the squares, and what is added to their root: Reddi et al., section 5
_TAU = 1e-3
LARGEST = 1e37  # no weight grows beyond it, whatever comes in: the difference of two is still a float32


@dataclass(frozen=True, kw_only=True)
class Averaging(Method):
    """Settings of the server's optimiser. `server` is its name among the settings; "none" takes the mean itself.

    server_lr: 1 is plain averaging; Adam wants some 0.01. server_momentum: 0.5 was worth two points to FedAvg and
    delta alike on a small model in few rounds; 0.9 is the published value for long runs.
    """

    server_optimizer: str = field(default="none", metadata={"choices": OPTIMISERS})
    server_lr: float = 1.0
    server_momentum: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            self.server_optimizer in OPTIMISERS,
            f"server must be one of {', '.join(OPTIMISERS)}: got {self.server_optimizer!r}",
        )
        check(0 < self.server_lr < float("inf"), f"server_lr must be above 0: got {self.server_lr}")
        check(0 <= self.server_momentum < 1, f"server_momentum must be from 0 to below 1: got {self.server_momentum}")

    def restored(self, kept: Kept, layout: Layout) -> Kept:
        for name in ("optimiser.speed", "optimiser.square"):
            expect(kept, name, np.float64, layout.weights, missing=True)
        return super().restored(kept, layout)

    def moved(self, turn: Turn, mean: npt.NDArray[np.float64]) -> State:
        """The model after the optimiser's step towards `mean`: weights by its rule, statistics as they are there."""
        model, weights = turn.model, turn.model.layout.weights
        mean = mean.clip(-LARGEST, LARGEST)
        vector = mean.astype(np.float32)
        if self.server_optimizer != "none" or self.server_lr != 1:
            before = model.weights.astype(np.float64)
            step = self._step(turn.kept, mean[:weights] - before)
            vector[:weights] = (before + self.server_lr * step).clip(-LARGEST, LARGEST)
        return State(model.layout, vector, model.counters)

    def _step(self, kept: Kept, change: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        if self.server_optimizer == "none":
            return change
        speed = kept.get("optimiser.speed", np.float64(0))
        if self.server_optimizer == "adam":
            square = kept.get("optimiser.square", np.float64(0))
            speed = self.server_momentum * speed + (1 - self.server_momentum) * change
            square = _SECOND * square + (1 - _SECOND) * change**2
            kept["optimiser.speed"], kept["optimiser.square"] = speed, square
            root: npt.NDArray[np.float64] = np.sqrt(square) + _TAU
            return speed / root
        speed = self.server_momentum * speed + change
        kept["optimiser.speed"] = speed
        return speed if self.server_optimizer == "momentum" else change + self.server_momentum * speed
