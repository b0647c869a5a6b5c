"""A method of your own: FedAvg whose clients send their weights back in half precision. See docs/own-method.md."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import fedcode
from fedcode.accumulate import add
from fedcode.base import Base
from fedcode.coding import decode_floats, encode_floats
from fedcode.ends import Broadcast, Incoming, Kept, Reply, Sections, Start, Sums, Turn, check, read_counters
from fedcode.errors import MessageError
from fedcode.layout import Layout
from fedcode.methods.fedavg import FedAvg
from fedcode.sections import decode_values, encode_counters
from fedcode.state import State
from fedcode.wire import Message, Section

HALVES = 128  # the numbers of sections from 128 on are free
MOST = 65504  # the largest float16


@fedcode.register
@dataclass(frozen=True, kw_only=True)
class Rounded(FedAvg):
    """FedAvg whose replies hold weights as float16.

    largest: what weights are clipped to before they are rounded.
    """

    name: ClassVar[str] = "rounded"
    lossless: ClassVar[frozenset[str]] = frozenset({"down"})  # what comes up is rounded

    largest: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(0 < self.largest <= MOST, f"largest must be above 0 and at most {MOST}: got {self.largest}")

    # ---- the server's end: it sees the settings

    def broadcast(self, turn: Turn) -> Broadcast:
        return Broadcast(Base.of(turn.model), asks={"largest": self.largest})

    def fold(self, sums: Sums, reply: Reply) -> None:
        message, layout, count = reply.message, sums.layout, sums.layout.weights
        # A reply may hold anything. All of it is read and checked, lengths too, before any of it is added.
        weights = decode_floats(message.section(HALVES), count, half=True)
        if not (np.abs(weights) <= np.float16(self.largest)).all():  # nor is NaN
            raise MessageError(f"{reply.client} was asked for weights up to {self.largest}, and sent others.")
        statistics = decode_values(message.section(Section.VALUES), layout.values - count)
        counters = read_counters(message, layout)
        add(sums.vector()[:count], weights, reply.examples)
        add(sums.vector()[count:], statistics, reply.examples)
        sums.count(counters)

    # ---- the client's end: all that it knows stands in the message

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        largest = incoming.asked("largest", 0, MOST)
        return {
            HALVES: encode_floats(trained.weights.clip(-largest, largest), half=True),
            Section.VALUES: encode_floats(trained.statistics),  # a variance must not be rounded to 0
            Section.COUNTERS: encode_counters(trained.counters),
        }, {}

    def paper_bits(self, message: Message, layout: Layout) -> int | None:
        return (16 if HALVES in message.sections else 32) * layout.weights


if __name__ == "__main__":
    for method in ("fedavg", "rounded"):
        run = fedcode.simulate(method, clients=4, rounds=3, epochs=1)
        best, megabytes = run.summary["accuracy"]["best"], run.summary["megabytes"]["up"]
        print(f"{method}: accuracy {best:.1%} for {megabytes:.2f} MB up")
