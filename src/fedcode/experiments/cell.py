"""A cell: one training run of one method, all that decides its result as data, and the name it is kept under."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedcode.errors import ArgumentError
from fedcode.methods import method

SCALES = ("paper", "small")
SHARE = 5  # the small scale trains on one in so many training examples ...
SHORTER = 3  # ... and for one in so many rounds
DIGITS = "digits"  # the demo's data set, its network, and what the scale is called there
DIGITS_ROUNDS = 30

TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "speechcommands": "Speech Commands", DIGITS: "digits"}
NETWORKS = {"cifar10": "resnet20", "cifar100": "resnet20", "speechcommands": "yamnet", DIGITS: DIGITS}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is trained, and on what. fraction: the share of the training examples, drawn by the seed.

    How it is computed (device, workers, precision) is no part of a cell: the record of a run says it.

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

    def at(self, scale: str) -> Cell:
        """The same at another scale: a fifth of the examples and a third of the rounds for "small"."""
        if scale not in SCALES:
            raise ArgumentError(f"the scale is one of {', '.join(SCALES)}: got {scale!r}.")
        if self.dataset == DIGITS or scale == "paper":
            return self
        return replace(self, scale=scale, rounds=max(1, round(self.rounds / SHORTER)), fraction=1 / SHARE)

    def on(self, dataset: str) -> Cell:
        """The same on another data set, with a network for it; the digits have 30 rounds and a scale of their own.

        >>> cell = Cell(method="fedavg", dataset="cifar10", network="resnet20", rounds=60).on("digits")
        >>> cell.network, cell.rounds, cell.scale
        ('digits', 30, 'digits')
        """
        if dataset not in NETWORKS:
            raise ArgumentError(f"the data set is one of {', '.join(NETWORKS)}: got {dataset!r}.")
        if dataset == self.dataset:
            return self
        if dataset == DIGITS:
            # half of the paper's 60 rounds; what trains for fewer than these keeps its share
            rounds = max(1, min(DIGITS_ROUNDS, self.rounds // 2))
            return replace(self, dataset=DIGITS, network=DIGITS, scale=DIGITS, rounds=rounds)
        images = "speechcommands" not in (dataset, self.dataset)
        return replace(self, dataset=dataset, network=self.network if images else NETWORKS[dataset])

    @property
    def title(self) -> str:
        """The data set as people write it."""
        return TITLES[self.dataset]

    @property
    def classes(self) -> int:
        """How many classes the data set has."""
        return {"cifar100": 100, "speechcommands": 12}.get(self.dataset, 10)

    @property
    def clients_per_round(self) -> int:
        """M: how many clients take part in a round."""
        return max(1, round(self.participation * self.clients))

    @property
    def key(self) -> str:
        """A readable name and a digest of everything that decides the result, the method's defaults included.

        >>> Cell(method="fedavg", dataset="cifar10", network="resnet20", rounds=60).key[:-8]
        'paper-cifar10-iid-fedavg-s0-'
        """
        text = json.dumps(self.document(), sort_keys=True)
        digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        skew = "iid" if self.beta >= 10 else "noniid"
        scale = "" if self.scale == self.dataset else f"{self.scale}-"
        return f"{scale}{self.dataset}-{skew}-{self.method}-s{self.seed}-{digest}"

    def document(self) -> dict[str, Any]:
        """As JSON has it, the method's defaults written out."""
        return asdict(self) | {"settings": method(self.method, **dict(self.settings)).settings()}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Cell:
        """What `document` gave, its method's defaults written out.

        >>> cell = Cell(method="fedavg", dataset="cifar10", network="resnet20", rounds=60)
        >>> Cell.of(cell.document()).key == cell.key
        True
        """
        return cls(**{**document, "settings": tuple(sorted(document["settings"].items()))})
