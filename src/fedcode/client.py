"""The client's end: two pure functions and a memory of bytes.

    task = fedcode.receive(message, memory)
    trained = train(task.start)
    reply, memory = fedcode.reply(task, trained, examples=4956, client="client-3")

The message says all that a client must know. `memory` is new only when a reply was made, so a crash in between
loses nothing; memory that is damaged or of another training counts as none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcode.arrays import decode_arrays, encode_arrays
from fedcode.base import Base
from fedcode.ends import Incoming, Kept, Mask, Start
from fedcode.errors import ArgumentError, CannotUse, MessageError, WrongModelError
from fedcode.joined import join, split
from fedcode.layout import Layout
from fedcode.model_file import check_size, padding
from fedcode.reader import Buffer
from fedcode.state import State, match
from fedcode.wire import NOTHING, Message, MessageKind, Section

MOST_BASES = 2  # the one that a client's last message was coded against, and the newest


@dataclass(frozen=True)
class Memory:
    """What a client keeps: the base that its last message was coded against, the newest one, what the method keeps.

    federation is `NOTHING` where the weights were there before any training began. The newest base is the last.
    """

    federation: bytes
    method: str
    layout: Layout
    bases: Mapping[bytes, Base]
    kept: Kept = field(default_factory=dict)
    round: int = 0  # of the last reply

    @property
    def newest(self) -> Base | None:
        return list(self.bases.values())[-1] if self.bases else None

    def to_bytes(self) -> bytes:
        """The memory as bytes."""
        sections: dict[int, Buffer] = {
            Section.LAYOUT: self.layout.to_bytes(),
            Section.BASES: join(base.to_bytes() for base in self.bases.values()),
            Section.EXTRA: encode_arrays(self.kept),
        }
        sections |= padding(self.layout, sum(len(body) for body in sections.values()))
        return Message(
            MessageKind.MEMORY,
            self.method,
            round=self.round,
            federation=self.federation,
            layout=self.layout.fingerprint,
            sections=sections,
        ).to_bytes()

    @classmethod
    def from_bytes(cls, data: Buffer) -> Memory:
        """Read what `to_bytes` wrote; anything else is a MessageError."""
        message = Message.from_bytes(data)
        if message.kind != MessageKind.MEMORY:
            raise MessageError(f"a client's memory is expected, got a {message.kind.name.lower()} message.")
        layout = Layout.from_bytes(message.section(Section.LAYOUT))
        if layout.fingerprint != message.layout:
            raise MessageError("the memory's layout does not have the fingerprint that its header states.")
        check_size(layout, len(data))
        parts = split(message.section(Section.BASES))
        if len(parts) > MOST_BASES:
            raise MessageError(f"the memory holds {len(parts)} bases; a client keeps {MOST_BASES} at the most.")
        bases = [Base.from_bytes(part, layout) for part in parts]
        kept = decode_arrays(message.section(Section.EXTRA))
        by_name = {base.digest: base for base in bases}
        return cls(message.federation, message.method, layout, by_name, kept, message.round)


def memory_of(state: Any) -> bytes:
    """The first memory of a client that holds these weights before training begins: `known=True` at the server.

    >>> import fedcode
    >>> state = {"w": np.ones((4, 4), np.float32)}
    >>> server = fedcode.method("delta").server(state, known=True)
    >>> task = fedcode.receive(server.message_for("client-0"), memory_of(state))
    >>> task.start.arrays()["w"][0]
    array([1., 1., 1., 1.], dtype=float32)
    """
    from fedcode.state import flatten

    base = Base.of(flatten(state).check_finite())
    return Memory(NOTHING, "", base.layout, {base.digest: base}).to_bytes()


@dataclass(frozen=True)
class Task:
    """What a message asks of a client.

    start: the state to train from (`.load_into(module)`, `.arrays()`, `.tensors()`). asks: what local training must
    honour, as plain numbers (proximal: mu of the pull towards the start). mask: which of the vector's values may be
    other than zero, or None. evaluate: only to be evaluated; there is no reply.

    >>> import fedcode
    >>> server = fedcode.method("fedprox", mu=0.1).server({"w": np.ones(2, np.float32)})
    >>> task = fedcode.receive(server.message_for("client-0"))
    >>> task.method, task.round, task.start.arrays()["w"], task.asks, task.evaluate
    ('fedprox', 1, array([1., 1.], dtype=float32), {'proximal': 0.1}, False)
    """

    start: State
    asks: Mapping[str, float]
    mask: Mask | None
    round: int
    method: str
    evaluate: bool
    incoming: Incoming = field(repr=False)
    received: Start = field(repr=False)
    memory: Memory | None = field(repr=False)


def receive(message: Buffer, memory: Buffer | None = None) -> Task:
    """What the message asks for. Raises CannotUse, whose `.reply` is to be sent, where this client lacks its base.

    >>> import fedcode
    >>> server = fedcode.method("fedcode", clusters=2).server({"w": np.array([0.0, 0.1, 5.0, 5.1], np.float32)})
    >>> fedcode.receive(server.message_for("client-0")).start.arrays()["w"]
    array([0.05, 0.05, 5.05, 5.05], dtype=float32)
    """
    from fedcode.methods import client_of

    said = Message.from_bytes(message)
    if said.kind not in (MessageKind.BROADCAST, MessageKind.EVALUATE):
        raise MessageError(f"a message to train from is expected, got a {said.kind.name.lower()} message.")
    client = client_of(said.method)
    own = _remembered(memory, said)
    layout = _layout(said, own, len(message))
    held = None
    if said.base != NOTHING:
        held = None if own is None else own.bases.get(said.base)
        if held is None:
            raise _cannot_use(said, own, "is coded against a base that this client does not hold")
    incoming = Incoming(said, layout, held, own.kept if own is not None and own.method == said.method else {})
    evaluate = said.kind == MessageKind.EVALUATE
    if held is not None and not said.sections and (evaluate or said.gives == said.base):
        start = Start(held.state, held)
    elif evaluate:
        from fedcode.base_message import read_base

        start = Start(read_base(said, layout, held).state, None)
    else:
        start = client.receive(incoming)
        if said.gives != NOTHING and (start.base is None or start.base.digest != said.gives):
            raise _cannot_use(said, None, "does not decode to the base whose digest it states")
    honour = {name: value for name, value in said.asks.items() if name in client.asks_of_training}
    return Task(start.state, honour, start.mask, said.round, said.method, evaluate, incoming, start, own)


def reply(task: Task, trained: Any, *, examples: int, client: str) -> tuple[bytes, bytes]:
    """The reply to send, and the memory to keep in place of the old one.

    trained: the state after training, in any form that `fedcode.flatten` takes. examples: how many it was trained
    on. client: this client's name, from which and the message's seed all randomness comes. A mask that training did
    not obey is applied again.

    >>> import fedcode
    >>> server = fedcode.method("fedavg").server({"w": np.zeros(2, np.float32)})
    >>> task = fedcode.receive(server.message_for("client-0"))
    >>> trained = {name: value + 1 for name, value in task.start.arrays().items()}
    >>> reply, memory = fedcode.reply(task, trained, examples=4956, client="client-0")
    >>> server.accept("client-0", reply)
    True
    """
    from fedcode.methods import client_of

    if task.evaluate:
        raise ArgumentError("this task is only to be evaluated: it takes no reply.")
    if examples < 1:
        raise ArgumentError(f"a reply needs at least 1 example that it was trained on: got {examples}.")
    said = task.incoming.message
    state = match(trained, task.start.layout).check_finite()
    if task.mask is not None:
        state = State(state.layout, np.where(task.mask, state.vector, np.float32(0)), state.counters)
    name = int.from_bytes(hashlib.blake2b(client.encode(), digest_size=8).digest(), "little")
    rng = np.random.default_rng([said.seed, said.round, name])
    method = client_of(said.method)
    sections, kept = method.answer(task.incoming, task.received, state, rng)
    base = task.received.base or task.incoming.held
    memory = _memory(task, kept) if method.keeps_bases or kept else None
    newest = memory.newest if memory is not None else None
    message = Message(
        MessageKind.REPLY,
        said.method,
        round=said.round,
        federation=said.federation,
        layout=said.layout,
        base=NOTHING if base is None or said.gives == said.base == NOTHING else base.digest,
        gives=NOTHING if newest is None else newest.digest,
        accepted=said.accepted,
        seed=said.seed,
        examples=examples,
        sections=sections,
    )
    return message.to_bytes(), b"" if memory is None else memory.to_bytes()


def _remembered(memory: Buffer | None, said: Message) -> Memory | None:
    """The client's memory, or None where there is none of this training that can be read."""
    if not memory:
        return None
    try:
        own = Memory.from_bytes(memory)
    except MessageError:
        return None  # as if it had been lost: the server sends what is needed
    if own.federation not in (NOTHING, said.federation) or own.layout.fingerprint != said.layout:
        return None
    return own


def _layout(said: Message, own: Memory | None, size: int) -> Layout:
    if Section.LAYOUT in said.sections:
        layout = Layout.from_bytes(said.section(Section.LAYOUT))
        if layout.fingerprint != said.layout:
            raise WrongModelError("the message's layout does not have the fingerprint that its header states.")
        check_size(layout, size)
        return layout
    if own is None:
        raise _cannot_use(said, None, "goes on from what was sent before, and this client has no memory of it")
    return own.layout


def _cannot_use(said: Message, own: Memory | None, why: str) -> CannotUse:
    newest = own.newest if own is not None else None
    answer = Message(
        MessageKind.CANNOT_USE,
        said.method,
        round=said.round,
        federation=said.federation,
        layout=said.layout,
        gives=NOTHING if newest is None else newest.digest,
    )
    return CannotUse(
        f"the message of round {said.round} {why}. Send the reply of this error; the next message repairs it.",
        answer.to_bytes(),
    )


def _memory(task: Task, kept: Kept) -> Memory:
    """The base that this message was coded against and the newest one; two at the most."""
    bases: dict[bytes, Base] = {}
    newest = task.received.base or (task.memory.newest if task.memory is not None else None)
    for base in (task.incoming.held, newest):
        if base is not None:
            bases.pop(base.digest, None)
            bases[base.digest] = base
    said = task.incoming.message
    return Memory(said.federation, said.method, task.start.layout, bases, kept, said.round)
