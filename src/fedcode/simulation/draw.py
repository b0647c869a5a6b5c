"""The draw of a run: who holds what, the first weights, who takes part when. Methods are compared on the same one.

As files, another program can run on it:

    partition.json        indices of the training examples, client by client
    initial.safetensors   the first weights
    trace.json            the clients of every round
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedcode import safetensors_file
from fedcode.data import partition
from fedcode.data.partition import Indices
from fedcode.errors import DataError
from fedcode.files import new_file
from fedcode.rundir import PARTITION, write_model
from fedcode.simulation import draws
from fedcode.simulation.config import Config
from fedcode.simulation.given import Given, first_model
from fedcode.state import State, flatten, match

INITIAL, TRACE = "initial.safetensors", "trace.json"
_FORMAT = "fedcode trace 1"


@dataclass(frozen=True, eq=False)
class Draw:
    """Who holds what, the first weights, and the clients of each round; beyond `trace` the seed says them.

    brought: whether the first weights were read from a file.
    """

    config: Config
    parts: Sequence[Indices]
    first: State
    trace: Sequence[Sequence[str]] = ()
    brought: bool = False

    @classmethod
    def of(cls, config: Config, found: Given) -> Draw:
        """What the seed draws."""
        return cls(config, draws.parts(config, found.dataset), flatten(first_model(config, found)))

    def participants(self, round: int) -> list[str]:
        """Who takes part in a round (from 1)."""
        return list(self.trace[round - 1]) if round <= len(self.trace) else draws.participants(self.config, round)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the draw as files."""
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
            rounds = [self.participants(number) for number in range(1, self.config.rounds + 1)]
            replace(self, trace=rounds, brought=True).keep(place)
        except OSError as error:
            raise DataError(f"{place} cannot be written: {error.strerror}. Choose another directory.") from error

    def keep(self, place: Path) -> None:
        """Write to a run's directory what the run goes on with: of the last two what was brought, no more."""
        partition.save(place / PARTITION, self.parts)
        if self.brought:
            with new_file(place / INITIAL, force=True) as file:
                write_model(file, self.first)
        if self.trace:
            with new_file(place / TRACE, force=True) as file:
                file.write(json.dumps({"format": _FORMAT, "rounds": self.trace}).encode() + b"\n")

    def read(self, folder: str | os.PathLike[str]) -> Draw:
        """The same with whatever of the three files lies in the folder in the place of what the seed drew."""
        place, found = Path(folder), self
        if not place.is_dir():
            raise DataError(f"there is no directory {place} to read a draw from.")
        if (place / PARTITION).exists():
            parts = partition.load(place / PARTITION, sum(len(part) for part in self.parts))
            if len(parts) != self.config.clients:
                raise DataError(f"{place / PARTITION} is for {len(parts)} clients, the run has {self.config.clients}.")
            found = replace(found, parts=parts)
        if (place / INITIAL).exists():
            arrays = {tensor.name: _whole(tensor) for tensor in safetensors_file.read(place / INITIAL).tensors}
            found = replace(found, first=match(arrays, self.first.layout), brought=True)
        if (place / TRACE).exists():
            found = replace(found, trace=_trace(place / TRACE, self.config.clients))
        return found


def _whole(tensor: safetensors_file.Tensor) -> object:
    import numpy as np

    pieces = list(tensor.pieces())
    return np.concatenate(pieces).reshape(tensor.shape)


def _trace(path: Path, clients: int) -> list[list[str]]:
    known = set(draws.names(clients))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}, expected {_FORMAT!r}")
        rounds = [[str(name) for name in round] for round in content["rounds"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no valid trace: {error}.") from error
    for number, of_round in enumerate(rounds, 1):
        if not of_round or len(set(of_round)) < len(of_round) or not known.issuperset(of_round):
            raise DataError(f"{path}: round {number} must name some of {clients} clients, each once.")
    return [sorted(of_round, key=draws.index_of) for of_round in rounds]
