"""A small model and rounds of a method between a server and clients in one process, for the tests of methods.

Local training is a fixed function of what it starts from, of the client and of the round: a step towards that
client's own goal with some noise, so that what comes of a round depends on what was sent for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import fedcode
from fedcode.server import Server
from fedcode.state import flatten
from fedcode.wire import Message

Arrays = dict[str, npt.NDArray[Any]]
Floats = npt.NDArray[np.float64]

MATRICES = ("conv.weight", "fc.weight")
VECTORS = ("bn.weight", "bn.bias", "fc.bias")
TRAINED = (*MATRICES, *VECTORS)  # in the order of the flat vector
STATISTICS = ("bn.running_mean", "bn.running_var")
COUNTER = "bn.num_batches_tracked"
WEIGHTS = 4 * 3 * 3 * 3 + 6 * 16 + 4 + 4 + 6

EXAMPLES = {"client-0": 30, "client-1": 7, "client-2": 63}
CLIENTS = tuple(EXAMPLES)


def model(seed: int = 0) -> Arrays:
    """A convolution, its normalisation and a linear layer: 218 weights, 8 statistics, one counter."""
    rng = np.random.default_rng(seed)
    return {
        "conv.weight": rng.normal(0, 0.2, (4, 3, 3, 3)).astype(np.float32),
        "bn.weight": rng.uniform(0.5, 1.5, 4).astype(np.float32),
        "bn.bias": rng.normal(0, 0.1, 4).astype(np.float32),
        "bn.running_mean": rng.normal(0, 0.3, 4).astype(np.float32),
        "bn.running_var": rng.uniform(0.2, 2, 4).astype(np.float32),
        "bn.num_batches_tracked": np.array(0),
        "fc.weight": rng.normal(0, 0.3, (6, 16)).astype(np.float32),
        "fc.bias": rng.normal(0, 0.1, 6).astype(np.float32),
    }


def train(start: Mapping[str, npt.NDArray[Any]], client: str, round: int) -> Arrays:
    """What local training makes of `start`."""
    rng = np.random.default_rng([zlib.crc32(client.encode()), round])
    goal = model(zlib.crc32(client.encode()))
    after: Arrays = {}
    for name, value in start.items():
        if name == COUNTER:
            after[name] = value + 4 + len(client) + round
            continue
        step = 0.2 * (goal[name].astype(np.float64) - value) + rng.normal(0, 0.01, value.shape)
        moved = value + step
        after[name] = (np.abs(moved) + 1e-3 if name.endswith("var") else moved).astype(np.float32)
    return after


@dataclass
class Exchange:
    """What went to and fro between the server and one client in a round."""

    message: Message
    start: Arrays
    trained: Arrays
    reply: Message
    reply_bytes: bytes
    task: fedcode.Task


@dataclass
class Ends:
    """A method's server and the memories of its clients."""

    server: Server
    memories: dict[str, bytes] = field(default_factory=dict)
    training: Callable[[Mapping[str, npt.NDArray[Any]], str, int], Arrays] = train

    @classmethod
    def of(cls, name: str, state: Any = None, seed: int = 3, **settings: Any) -> Ends:
        return cls(fedcode.method(name, **settings).server(model() if state is None else state, seed=seed))

    def exchange(self, client: str) -> Exchange:
        """This round's message, local training and the reply; the server has not seen it yet."""
        data = self.server.message_for(client)
        task = fedcode.receive(data, self.memories.get(client))
        start = task.start.arrays()
        trained = self.training(start, client, self.server.round)
        reply, self.memories[client] = fedcode.reply(task, trained, examples=EXAMPLES.get(client, 11), client=client)
        return Exchange(Message.from_bytes(data), start, trained, Message.from_bytes(reply), reply, task)

    def round(self, clients: Iterable[str] = CLIENTS) -> dict[str, Exchange]:
        """One round with these clients."""
        exchanges = {client: self.exchange(client) for client in clients}
        for client, found in exchanges.items():
            assert self.server.accept(client, found.reply_bytes)
        self.server.finish_round()
        return exchanges

    @property
    def state(self) -> Arrays:
        return self.server.state


def row(state: Mapping[str, npt.NDArray[Any]], names: Iterable[str] = TRAINED) -> Floats:
    """Some entries as one row of doubles, the weights unless told otherwise."""
    return np.concatenate([np.asarray(state[name], np.float64).reshape(-1) for name in names])


def placed(values: npt.NDArray[Any], like: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """A row of weights back as entries by name."""
    found: Arrays = {}
    at = 0
    for name in TRAINED:
        found[name] = values[at : at + like[name].size].reshape(like[name].shape)
        at += like[name].size
    return found


def sent_row(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A row as its receiver has it: float32."""
    return np.asarray(values, np.float64).astype(np.float32).astype(np.float64)


def assert_same(found: Mapping[str, npt.NDArray[Any]], expected: Mapping[str, npt.NDArray[Any]]) -> None:
    """Number by number, but for the rounding of float32."""
    assert set(found) == set(expected)
    for name, value in expected.items():
        if name == COUNTER:
            assert found[name] == value, name
        else:
            np.testing.assert_allclose(found[name], value, rtol=2e-6, atol=2e-7, err_msg=name)


def layout_of(state: Arrays) -> Any:
    """The layout of a state."""
    return flatten(state).layout
