"""Everything that is drawn at random in a run depends on its seed alone, so that methods meet the same draws.

Each purpose has a generator of its own: a method that asks one number more of its own moves nobody else's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from fedcode.data import Dataset, partition
from fedcode.data.partition import Indices
from fedcode.errors import ArgumentError
from fedcode.simulation.config import Config

Parts = Sequence[Indices]


def number(*what: object) -> int:
    """A 63-bit number that these words and numbers stand for, on every machine the same.

    >>> number("order", 0, 1, "client-0") == number("order", 0, 1, "client-0") != number("order", 0, 1, "client-1")
    True
    """
    digest = hashlib.blake2b(repr(what).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def names(clients: int) -> list[str]:
    """The clients' names.

    >>> names(2)
    ['client-0', 'client-1']
    """
    return [f"client-{index}" for index in range(clients)]


def index_of(name: str) -> int:
    """Which client a name is.

    >>> index_of("client-12")
    12
    """
    return int(name.rpartition("-")[2])


def parts(config: Config, data: Dataset) -> list[Indices]:
    """Who holds which training examples."""
    rng = np.random.default_rng(number("partition", config.seed))
    if config.partition == "equal":
        return partition.equal(np.zeros(data.examples), config.clients, rng)
    if not data.classes:
        raise ArgumentError(f"partition={config.partition!r} goes by classes, and these labels are none. Take 'equal'.")
    if config.partition == "shards":
        return partition.shards(data.labels, config.clients, rng)
    return partition.dirichlet(data.labels, config.clients, config.beta, rng, config.minimum)


def subset(config: Config, data: Dataset) -> Dataset:
    """The share of the training examples that the run uses."""
    if config.fraction == 1:
        return data
    return data.subset(float(config.fraction), np.random.default_rng(number("subset", config.seed)))


def participants(config: Config, round: int) -> list[str]:
    """Who takes part in a round, in the order of their numbers.

    >>> participants(Config(clients=4, participation=0.5), 1)
    ['client-0', 'client-2']
    """
    if config.per_round >= config.clients:
        return names(config.clients)
    rng = np.random.default_rng(number("participants", config.seed, round))
    chosen = rng.choice(config.clients, config.per_round, replace=False)
    return [f"client-{index}" for index in np.sort(chosen)]


def generator(purpose: str, seed: int, round: int, client: str) -> torch.Generator:
    """A generator on the CPU for one purpose of one client in one round: "order" or "augmentation"."""
    return torch.Generator().manual_seed(number(purpose, seed, round, client))


@contextmanager
def seeded(purpose: str, *what: object, device: torch.device | str = "cpu") -> Iterator[None]:
    """Torch's own generators seeded inside, and as they were afterwards: for initial weights and dropout."""
    device = torch.device(device)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        if device.type == "cpu":
            torch.default_generator.manual_seed(number(purpose, *what))  # manual_seed looks for devices for longer
        else:
            torch.manual_seed(number(purpose, *what))
        yield
