"""FedProx: FedAvg whose clients are pulled towards the model that they were sent.

Source: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, algorithm 2.

local  minimise F_k(w) + (mu / 2) |w - w_start|^2 instead of F_k(w)
down, up, then   as FedAvg

Hyperparameters: mu 0.01; the paper tunes it among 0.001, 0.01, 0.1 and 1.
Faithful: the pull. Adapted: clients are weighted by examples, as in FedAvg, where the paper draws them with that
probability and takes the plain mean; how much work a client does (the paper's gamma) is the trainer's affair.
A trainer that cannot honour the pull must refuse: `task.asks["proximal"]` is mu, and the pull is towards
`task.start`. Statistics are not pulled.
Kept: as FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fedcode.ends import Broadcast, Turn, check
from fedcode.methods.fedavg import FedAvg


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    """mu; the server's optimiser."""

    name: ClassVar[str] = "fedprox"
    asks_of_training: ClassVar[frozenset[str]] = frozenset({"proximal"})

    mu: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 <= self.mu < float("inf"), f"mu must be 0 or more: got {self.mu}")

    def broadcast(self, turn: Turn) -> Broadcast:
        return replace(super().broadcast(turn), asks={"proximal": self.mu})
