"""A cell: one training run of one method, all of its settings as data, and the name it is kept under."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedcode.errors import ArgumentError

SCALES = ("paper", "small")
SHARE = 5  # the small scale trains on one in so many training examples ...
SHORTER = 3  # ... and for one in so many rounds
DIGITS_ROUNDS = 30


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is trained, and on what. `fraction`: the share of the training examples, drawn by the seed.

    >>> cell = Cell(method="fedcode", dataset="cifar10", network="resnet20", rounds=60)
    >>> small = cell.at("small")
    >>> small.rounds, small.fraction
    (20, 0.2)
    """

    method: str
    settings: tuple[tuple[str, Any], ...] = ()
    dataset: str
    network: str
    rounds: int
    clients: int = 10
    participation: float = 1.0
    epochs: int = 4
    beta: float = 10.0
    seed: int = 0
    scale: str = "paper"
    fraction: float = 1.0
    lr: float = 1e-3
    batch: int = 128
    optimizer: str = "adam"
    precision: str = "float32"

    def at(self, scale: str) -> Cell:
        """The same at another scale: a fifth of the examples and a third of the rounds for "small"."""
        if scale not in SCALES:
            raise ArgumentError(f"the scale is one of {', '.join(SCALES)}: got {scale!r}.")
        if scale == "paper" or self.dataset == "digits":
            return replace(self, scale=scale)
        return replace(self, scale=scale, rounds=max(1, round(self.rounds / SHORTER)), fraction=1 / SHARE)

    def on(self, dataset: str) -> Cell:
        """The same on another data set, with its network; the digits take the demo's network and 30 rounds."""
        if dataset == "digits":
            # half of the paper's 60 rounds; what trains for fewer than these keeps its share
            rounds = max(1, min(DIGITS_ROUNDS, self.rounds // 2))
            return replace(self, dataset="digits", network="digits", rounds=rounds, fraction=1.0)
        network = "yamnet" if dataset == "speechcommands" else self.network
        return replace(self, dataset=dataset, network="resnet20" if network == "digits" else network)

    def with_settings(self, **settings: Any) -> Cell:
        """The same with other settings of its method."""
        merged = {**dict(self.settings), **settings}
        return replace(self, settings=tuple(sorted(merged.items())))

    @property
    def key(self) -> str:
        """A readable name and a digest of everything that decides the result."""
        text = json.dumps(asdict(self), sort_keys=True)
        digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        skew = "iid" if self.beta >= 1 else "noniid"
        return f"{self.scale}-{self.dataset}-{skew}-{self.method}-s{self.seed}-{digest}"
