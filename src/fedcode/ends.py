"""What a method is: a handful of functions that `Server`, `receive` and `reply` call; it never does any I/O.

A method is a frozen dataclass of settings. Its server's functions see the settings; its client's functions are
static, because all that a client may know stands in the message:

    server   broadcast(turn) -> Broadcast          the model of this round as everybody will decode it
             sections(broadcast, held)             its bytes for those who hold `held` (None: nothing)
             fold(sums, reply)                     one reply into the running sums
             finish(turn, sums) -> State           the new global model
    client   receive(incoming) -> Start            what to train from
             answer(incoming, start, trained, rng) what to send back, and what to keep

Whatever a method must remember are named arrays (`kept`), on either side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from fedcode.base import Base
from fedcode.base_message import Sections as Sections
from fedcode.base_message import read_base, write_base
from fedcode.errors import ArgumentError, MessageError, RefusedError
from fedcode.layout import Layout
from fedcode.reader import Buffer
from fedcode.sections import decode_counters
from fedcode.state import Counters, State
from fedcode.wire import NOTHING, Message, Section

Kept = dict[str, npt.NDArray[Any]]

# the types of settings and how they are called; and the one setting that is called otherwise than its field
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "str": ((str,), "a word"),
}
SHOWN = {"server_optimizer": "server"}  # as a field, `server` would hide the function of that name
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Turn:
    """One round, as the server's functions see it. `kept` is the method's own memory and may be changed."""

    number: int  # from 1
    model: State  # the global model when the round began
    last: Base | None  # what was broadcast in the round before
    kept: Kept
    rng: np.random.Generator


@dataclass(frozen=True)
class Broadcast:
    """What is broadcast in one round.

    base: what everybody holds who is sent the whole. asks: what is asked back. given: whether those who hold a model
    already are given this base too. source: the model that `base` is a coarser copy of, for what is coded anew for
    every base that receivers hold. change: the sections that make `base` of the base whose digest is `follows`, for
    those who hold that one.
    """

    base: Base
    asks: Mapping[str, float] = field(default_factory=dict)
    given: bool = True
    source: State | None = None
    follows: bytes = NOTHING
    change: Sections = field(default_factory=dict)


@dataclass(frozen=True)
class Incoming:
    """A message to a client, with what this client holds."""

    message: Message
    layout: Layout
    held: Base | None  # the base that the message is coded against
    kept: Kept

    @property
    def asks(self) -> Mapping[str, float]:
        return self.message.asks

    def asked(self, name: str, least: float, most: float, default: float | None = None) -> float:
        """What is asked under this name, if it lies in these bounds; `default` where nothing is, if there is one."""
        value = self.asks.get(name, default)
        if value is None or not least <= value <= most:
            raise MessageError(f"the message asks for {name} of {value}; from {least} to {most} can be done.")
        return value


@dataclass(frozen=True)
class Start:
    """What a client trains from. `base`: the base that the message gave, if it gave one.

    `mask`: which of the vector's values may be other than zero; None where all may.
    """

    state: State
    base: Base | None
    mask: Mask | None = None


@dataclass(frozen=True)
class Reply:
    """A client's message to the server, its header already checked."""

    message: Message
    base: Base | None  # what it is coded against
    broadcast: Broadcast
    turn: Turn
    client: str

    @property
    def examples(self) -> int:
        return self.message.examples

    def fresh_base(self) -> Base:
        """The base that a change is of: this round's, or the reply is refused."""
        if self.base is None or self.base.digest != self.broadcast.base.digest:
            raise RefusedError(f"the change that {self.client} sent is not from this round's model.")
        return self.base


class Sums:
    """Running sums over the replies of a round, in float64; they do not grow with the number of clients."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.replies = 0
        self.examples = 0
        self.counters: Counters | None = None
        self.vectors: dict[str, npt.NDArray[np.float64]] = {}
        self.codebooks: list[npt.NDArray[np.float32]] = []

    def vector(self, name: str = "vector", size: int | None = None) -> npt.NDArray[np.float64]:
        """The sum of this name, as long as the model's vector unless `size` says otherwise; zeros at first."""
        if name not in self.vectors:
            self.vectors[name] = np.zeros(self.layout.values if size is None else size)
        return self.vectors[name]

    def mean(self, name: str = "vector", size: int | None = None) -> npt.NDArray[np.float64]:
        """The sum of this name over the number of examples."""
        return self.vector(name, size) / self.examples

    def count(self, counters: Counters | None) -> None:
        """Counters merge by their maximum."""
        if counters is not None:
            self.counters = counters if self.counters is None else np.maximum(self.counters, counters)


@dataclass(frozen=True, kw_only=True)
class Method:
    """The settings and functions of one method; the registry is `fedcode.methods`.

    >>> import fedcode
    >>> method = fedcode.method("fedcode", clusters=16)
    >>> isinstance(method, fedcode.Method), method.name, method.clusters, method.replaced(clusters=8).clusters
    (True, 'fedcode', 16, 8)
    """

    name: ClassVar[str]
    # whether later messages are coded against what clients hold: then clients keep bases in their memory
    keeps_bases: ClassVar[bool] = True
    # the directions, out of "down" and "up", in which what arrives is what was sent, bit for bit
    lossless: ClassVar[frozenset[str]] = frozenset()
    # what a trainer must honour or refuse: names out of "proximal", "mask"
    asks_of_training: ClassVar[frozenset[str]] = frozenset()

    @property
    def acknowledges(self) -> bool:
        """Whether a message says which of its receiver's replies counted last: whoever keeps a residual needs it.

        Where nobody does, receivers that differ in this alone are sent the same bytes.
        """
        return False

    def __post_init__(self) -> None:
        """Check the settings, here that each is of its type; every class that has some calls its parent's too.

        >>> import fedcode
        >>> fedcode.method("fedcode", clusters="64")
        Traceback (most recent call last):
        fedcode.errors.ArgumentError: clusters must be a whole number: got '64'.
        """
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.generic):
                value = value.item()
                object.__setattr__(self, each.name, value)
            kind = each.type if isinstance(each.type, str) else each.type.__name__
            if kind in _KINDS:
                types, called = _KINDS[kind]
                fits = isinstance(value, types) and isinstance(value, bool) == (kind == "bool")
                check(fits, f"{SHOWN.get(each.name, each.name)} must be {called}: got {value!r}")

    def settings(self) -> dict[str, Any]:
        """The settings by name.

        >>> import fedcode
        >>> fedcode.method("fedavg").settings()["server"]
        'none'
        """
        return {SHOWN.get(name, name): value for name, value in dataclasses.asdict(self).items()}

    def server(self, state: Any, seed: int = 0, **options: Any) -> Any:
        """The server's end for this model: a `fedcode.Server`."""
        from fedcode.server import Server

        return Server(self, state, seed=seed, **options)

    def restore(self, data: Buffer) -> Any:
        """The server's end that `Server.to_bytes` wrote."""
        from fedcode.server import Server

        return Server.from_bytes(self, data)

    # ---- server

    def open(self, model: State) -> Kept:
        """What the method keeps before the first round."""
        return {}

    def restored(self, kept: Kept, layout: Layout) -> Kept:
        """What the method kept, out of a checkpoint; MessageError where it cannot be that."""
        return kept

    def broadcast(self, turn: Turn) -> Broadcast:
        raise NotImplementedError

    def first(self, turn: Turn, base: Base) -> Broadcast:
        """The first broadcast where clients hold the initial weights: these, and what is asked back."""
        usual = self.broadcast(turn)
        return dataclasses.replace(usual, base=base, source=None, follows=NOTHING, change={}, given=True)

    def sections(self, broadcast: Broadcast, held: Base | None) -> Sections:
        """The broadcast for those who hold `held`."""
        if held is not None and held.digest == broadcast.follows:
            return broadcast.change
        return write_base(broadcast.base, held)

    def fold(self, sums: Sums, reply: Reply) -> None:
        """Add one reply; whatever is wrong with it must be found before anything is added."""
        raise NotImplementedError

    def finish(self, turn: Turn, sums: Sums) -> State:
        """The new global model. Called only where there was a reply."""
        raise NotImplementedError

    # ---- client

    @staticmethod
    def receive(incoming: Incoming) -> Start:
        """What to train from."""
        base = read_base(incoming.message, incoming.layout, incoming.held)
        return Start(base.state, base)

    @staticmethod
    def answer(incoming: Incoming, start: Start, trained: State, rng: np.random.Generator) -> tuple[Sections, Kept]:
        """The sections of the reply, and what the client keeps."""
        raise NotImplementedError

    # ---- both

    def paper_bits(self, message: Message, layout: Layout) -> int | None:
        """What the method's paper counts for one message in bits; None where it gives no count."""
        return None

    def replaced(self, **settings: Any) -> Self:
        """The same method with other settings."""
        return dataclasses.replace(self, **settings)


def check(condition: bool, what: str) -> None:
    """ArgumentError unless the condition holds: for settings.

    >>> check(True, "clusters must be 2 or more: got 64")
    """
    if not condition:
        raise ArgumentError(f"{what}.")


def read_counters(message: Message, layout: Layout) -> Counters | None:
    """The counters of a message, or None where it carries none."""
    if Section.COUNTERS not in message.sections:
        return None
    return decode_counters(message.section(Section.COUNTERS), layout.counters)
