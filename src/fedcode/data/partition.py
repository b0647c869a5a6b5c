"""Who holds which training examples: index arrays, one a client, that share nothing and leave nothing out.

    equal      equal parts at random
    dirichlet  class k is split among the clients by p_k ~ Dir(beta): the paper's appendix
    shards     examples in the order of their class, cut into pieces that are dealt to the clients

Indices ascend within a client. All randomness comes from the generator that is passed in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedcode.errors import ArgumentError, DataError

Indices = np.ndarray[Any, np.dtype[np.int64]]

MINIMUM = 10  # examples a client: below it, the paper's authors draw again
ATTEMPTS = 1000
_FORMAT = "fedcode partition 1"


def equal(labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[Indices]:
    """Parts of equal size (within one), drawn at random.

    >>> [len(part) for part in equal(np.zeros(10), 3, np.random.default_rng(0))]
    [4, 3, 3]
    """
    _check(labels, clients, minimum=1)
    return [np.sort(part) for part in np.array_split(rng.permutation(len(labels)), clients)]


def dirichlet(
    labels: np.ndarray, clients: int, beta: float, rng: np.random.Generator, minimum: int = MINIMUM
) -> list[Indices]:
    """For each class k draw p_k ~ Dir(beta) over the clients and give client j the share p_kj of its examples.

    Both the classes and the number of examples differ between clients; beta = 10 is the paper's IID, 0.1 its
    non-IID. Drawn again, as a whole, until each client has `minimum` examples.

    >>> labels = np.arange(1000) % 10
    >>> parts = dirichlet(labels, 5, 0.1, np.random.default_rng(0))
    >>> sum(len(part) for part in parts), min(len(part) for part in parts) >= 10
    (1000, True)
    """
    _check(labels, clients, minimum)
    if not beta > 0 or not np.isfinite(beta):
        raise ArgumentError(f"beta must be a positive number, got {beta}.")
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    best = 0
    for _ in range(ATTEMPTS):
        cuts = [_cuts(len(of_class), clients, beta, rng) for of_class in members]
        sizes = [np.diff(cut, prepend=0, append=len(of_class)) for cut, of_class in zip(cuts, members, strict=True)]
        least = int(np.sum(sizes, axis=0).min())
        if least >= minimum:
            break
        best = max(best, least)
    else:
        raise ArgumentError(
            f"no split of {len(labels)} examples over {clients} clients with beta={beta} gave each at least "
            f"{minimum}: of {ATTEMPTS} draws the best left one with {best}. "
            "Take fewer clients, a larger beta, or a smaller minimum."
        )
    shuffled = (rng.permutation(of_class) for of_class in members)
    pieces = [np.split(of_class, cut) for of_class, cut in zip(shuffled, cuts, strict=True)]
    return [np.sort(np.concatenate(of_client)) for of_client in zip(*pieces, strict=True)]


def shards(labels: np.ndarray, clients: int, rng: np.random.Generator, per_client: int = 2) -> list[Indices]:
    """Sort by class, cut into `per_client` pieces a client, deal them at random: most clients hold few classes.

    Reference: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, 2017,
    section 3.

    >>> labels = np.arange(100) % 10
    >>> parts = shards(labels, 5, np.random.default_rng(0))
    >>> [len(np.unique(labels[part])) for part in parts]
    [2, 2, 2, 2, 2]
    """
    if per_client < 1:
        raise ArgumentError(f"per_client must be at least 1, got {per_client}.")
    _check(labels, clients, minimum=per_client)
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    pieces = np.array_split(order, clients * per_client)
    dealt = rng.permutation(len(pieces)).reshape(clients, per_client)
    return [np.sort(np.concatenate([pieces[i] for i in hand])) for hand in dealt]


def concentration(labels: np.ndarray, parts: Sequence[Indices]) -> float:
    """C_p: the share of all classes that a client holds an example of, averaged over the clients.

    >>> concentration(np.array([0, 1, 2, 3]), [np.array([0, 1, 2, 3]), np.array([2])])
    0.625
    """
    classes = len(np.unique(labels))
    if not classes or not parts:
        raise ArgumentError("the class concentration of no examples or no clients is not defined.")
    return float(np.mean([len(np.unique(labels[part])) / classes for part in parts]))


def save(path: str | os.PathLike[str], parts: Sequence[Indices]) -> None:
    """Write a partition as JSON: a format name, how many examples it divides, a list of indices a client."""
    text = json.dumps(
        {
            "format": _FORMAT,
            "examples": sum(len(part) for part in parts),
            "clients": [part.tolist() for part in parts],
        },
        separators=(",", ":"),
    )
    Path(path).write_text(text + "\n", encoding="utf-8")


def load(path: str | os.PathLike[str], examples: int | None = None) -> list[Indices]:
    """Read what `save` wrote; with `examples`, check that it divides a set of that size."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"the partition {path} cannot be read: {error}") from error
    try:
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}, expected {_FORMAT!r}")
        parts = [np.array(part, np.int64).reshape(-1) for part in content["clients"]]
        held = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
        if len(held) != content["examples"] or (held != np.arange(len(held))).any():
            raise ValueError(f"its clients do not hold each of {content['examples']} examples once")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path} is no valid partition: {error!r}.") from error
    if examples is not None and len(held) != examples:
        raise DataError(
            f"the partition {path} divides {len(held)} examples, the data set has {examples}. "
            "Use the one that was drawn for this set."
        )
    return parts


def _cuts(size: int, clients: int, beta: float, rng: np.random.Generator) -> Indices:
    """Where to cut a class of `size` examples, so that client j receives its share."""
    shares = rng.dirichlet(np.full(clients, beta))
    return np.minimum((np.cumsum(shares)[:-1] * size).astype(np.int64), size)


def _check(labels: np.ndarray, clients: int, minimum: int) -> None:
    if labels.ndim != 1:
        raise ArgumentError(f"labels must be one-dimensional, got shape {labels.shape}.")
    if clients < 1:
        raise ArgumentError(f"there must be at least 1 client, got {clients}.")
    if minimum < 0 or clients * minimum > len(labels):
        raise ArgumentError(
            f"{clients} clients with at least {minimum} examples each need {clients * minimum}, "
            f"the set has {len(labels)}. Take fewer clients or a smaller minimum."
        )
