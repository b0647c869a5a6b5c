"""The server's end: the global model, who holds what, and replies folded in as they come. It does no I/O.

    server = fedcode.method("fedcode", clusters=64).server(state)
    message = server.message_for("client-3")
    server.accept("client-3", reply)
    server.finish_round()

The server believes only replies: what a client holds is what its last accepted reply said.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedcode.arrays import decode_arrays, encode_arrays
from fedcode.base import Base
from fedcode.base_message import write_base
from fedcode.encoded import Encoded
from fedcode.ends import Broadcast, Kept, Method, Reply, Sums, Turn
from fedcode.errors import ArgumentError, FedcodeError, MessageError, RefusedError, WrongModelError
from fedcode.joined import join, split
from fedcode.layout import Layout
from fedcode.model_file import check_size, padding
from fedcode.reader import Buffer
from fedcode.sections import decode_counters, decode_values, encode_counters
from fedcode.standing import Client as Client
from fedcode.standing import Standing
from fedcode.state import State, Vector, flatten
from fedcode.wire import NOTHING, Message, MessageKind, Section

RING_BYTES = 1 << 30
MAX_EXAMPLES = 10**9  # no client has more: a weight above it is a mistake or an attack


@dataclass
class RoundReport:
    """What came of a round. `refused` counts by the name of the error.

    >>> RoundReport(3, replies=0, examples=0, refused={"MessageError": 2}).empty
    True
    """

    number: int
    replies: int
    examples: int
    refused: dict[str, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether no valid reply came: then the model is as it was."""
        return self.replies == 0


class Server:
    """The server's end of a method; made by `method.server(state)`.

    known: clients hold `state` beforehand, so the first message need not carry it. federation: eight bytes that
    name this training; drawn at random unless given. ring_bytes: how much memory bases may take that clients may
    still be coded against; a client whose base has left is sent the whole model. What was encoded in a round is kept
    for who stands alike, up to half as many bytes. max_examples: a reply that claims
    more is refused.

    >>> import numpy as np, fedcode
    >>> server = fedcode.method("fedavg").server({"w": np.zeros(3, np.float32)})
    >>> task = fedcode.receive(server.message_for("client-0"))
    >>> reply, memory = fedcode.reply(task, {"w": np.ones(3, np.float32)}, examples=8, client="client-0")
    >>> server.accept("client-0", reply)
    True
    >>> server.finish_round().replies, server.state["w"], server.round
    (1, array([1., 1., 1.], dtype=float32), 2)
    """

    def __init__(
        self,
        method: Method,
        state: Any,
        *,
        seed: int = 0,
        known: bool = False,
        federation: bytes | None = None,
        ring_bytes: int = RING_BYTES,
        max_examples: int = MAX_EXAMPLES,
    ) -> None:
        if federation is not None and (len(federation) != 8 or federation == NOTHING):
            raise ArgumentError(f"a federation's id is eight bytes and not all zero: got {federation!r}.")
        self.method = method
        self.model = flatten(state).check_finite()
        if not self.model.layout.weights:
            raise ArgumentError("the model has no trained weight: there is nothing to learn together.")
        self.seed = seed
        self.federation = os.urandom(8) if federation is None else federation
        self.ring_bytes = ring_bytes
        self.max_examples = max_examples
        self.round = 1
        self.clients: dict[str, Client] = {}
        self.bases: dict[bytes, Base] = {}
        self.kept: Kept = method.open(self.model)
        self.last: Base | None = None
        self._known = NOTHING
        if known:
            base = Base.of(self.model)
            self._known = base.digest
            self.bases[base.digest] = base
        self._begin()

    @property
    def layout(self) -> Layout:
        return self.model.layout

    @property
    def state(self) -> dict[str, Any]:
        """The global model: arrays by name. `model` is the same as one flat vector."""
        return self.model.arrays()

    @property
    def centers(self) -> Vector | None:
        """The codebook of this round's broadcast; None where it has none, or no message has left yet."""
        base = None if self._broadcast is None else self._broadcast.base
        return base.centers if base is not None and base.labels.size else None

    # ---- out

    def message_for(self, name: str, *, evaluate: bool = False) -> bytes:
        """The message of this round for a client; one encoding for all who stand alike."""
        if not evaluate:
            self._asked.add(name)
        client = self.clients.get(name) or Client(holds=self._known)
        held = self.bases.get(client.holds)
        accepted = client.accepted if self.method.acknowledges else 0
        key = (evaluate, NOTHING if held is None else held.digest, accepted)
        return self._messages.get(key, lambda: self._evaluation(held) if evaluate else self._training(held, accepted))

    def hello(self) -> bytes:
        """A header alone, which any client can answer."""
        return self._message(MessageKind.HELLO, {}).to_bytes()

    def _training(self, held: Base | None, accepted: int) -> bytes:
        broadcast = self._opened()
        given = broadcast.given or held is None
        if given:
            self.bases.pop(broadcast.base.digest, None)  # a model that comes again is the newest again
            self.bases[broadcast.base.digest] = broadcast.base
        if held is not None and given and held.digest == broadcast.base.digest:
            sections: dict[int, Buffer] = {}
        else:
            key = NOTHING if held is None else held.digest
            sections = self._sections.get(key, lambda: self._whole(self.method.sections(broadcast, held), held))
        return self._message(
            MessageKind.BROADCAST,
            sections,
            base=NOTHING if held is None else held.digest,
            gives=broadcast.base.digest if given and self._named(held) else NOTHING,
            accepted=accepted,
            asks=broadcast.asks,
        ).to_bytes()

    def _named(self, held: Base | None) -> bool:
        # what nobody will be coded against need not be named; a base that was known beforehand is
        return self.method.keeps_bases or held is not None

    def _evaluation(self, held: Base | None) -> bytes:
        base = Base.of(self.model)
        if held is not None and held.digest == base.digest:
            return self._message(MessageKind.EVALUATE, {}, base=held.digest).to_bytes()
        return self._message(MessageKind.EVALUATE, self._whole(write_base(base, None), None)).to_bytes()

    def _whole(self, sections: dict[int, Buffer], held: Base | None) -> dict[int, Buffer]:
        if held is not None:
            return sections
        sections = {Section.LAYOUT: self.layout.to_bytes()} | sections
        return sections | padding(self.layout, _size(sections))

    def _message(self, kind: MessageKind, sections: dict[int, Buffer], **header: Any) -> Message:
        return Message(
            kind,
            self.method.name,
            round=self.round,
            federation=self.federation,
            layout=self.layout.fingerprint,
            seed=self._turn_seed,
            sections=sections,
            **header,
        )

    # ---- in

    def accept(self, name: str, data: Buffer) -> bool:
        """Fold in a client's reply; True if it counts now, False if this client's reply counted already.

        A reply that cannot be used raises MessageError or RefusedError, changes nothing and is counted. One that
        says that the message was of no use makes the client a new one: its next message is whole.
        """
        if name in self._done:
            return False
        try:
            return self._accept(name, data)
        except FedcodeError as error:
            kind = type(error).__name__
            self._refused[kind] = self._refused.get(kind, 0) + 1
            raise

    def _accept(self, name: str, data: Buffer) -> bool:
        message = self._checked(data)
        if message.kind == MessageKind.CANNOT_USE:
            accepted = self.clients.get(name, Client()).accepted
            self.clients[name] = Client(accepted, message.gives if message.gives in self.bases else NOTHING)
            return False
        if message.round != self.round:
            raise RefusedError(
                f"the reply of {name} is of round {message.round}, round {self.round} is under way. It comes too late."
            )
        if not 1 <= message.examples <= self.max_examples:
            raise RefusedError(
                f"the reply of {name} claims {message.examples} examples; 1 to {self.max_examples} are believed."
            )
        if self._broadcast is None or name not in self._asked:
            raise RefusedError(f"the reply of {name} was not asked for: no message left for it in round {self.round}.")
        base = self.bases.get(message.base)
        if base is None and message.base != NOTHING:
            raise RefusedError(f"the reply of {name} is coded against a base that the server does not hold.")
        reply = Reply(message, base, self._broadcast, self._turn, name)
        self.method.fold(self._sums, reply)
        self._sums.replies += 1
        self._sums.examples += message.examples
        self._done.add(name)
        self.clients[name] = Client(self.round, message.gives if message.gives in self.bases else NOTHING)
        return True

    def _checked(self, data: Buffer) -> Message:
        message = Message.from_bytes(data)
        if message.kind not in (MessageKind.REPLY, MessageKind.CANNOT_USE):
            raise RefusedError(f"a reply is expected, got a {message.kind.name.lower()} message.")
        if message.federation != self.federation:
            raise RefusedError("the reply belongs to another federation.")
        if message.method != self.method.name:
            raise RefusedError(f"the reply is of {message.method}, this server runs {self.method.name}.")
        if message.layout != self.layout.fingerprint:
            raise WrongModelError("the reply is about another model: its layout's fingerprint does not fit.")
        return message

    def finish_round(self) -> RoundReport:
        """Make the new global model out of the replies; without any, the model stays as it was."""
        report = RoundReport(self.round, self._sums.replies, self._sums.examples, dict(self._refused))
        if self._sums.replies:
            model = self.method.finish(self._turn, self._sums)
            if self._sums.counters is not None:
                model = State(model.layout, model.vector, self._sums.counters)
            self.model = model
        if self._broadcast is not None and self._broadcast.base.digest in self.bases:
            self.last = self._broadcast.base
        self.round += 1
        self._forget()
        self._begin()
        return report

    def _forget(self) -> None:
        """Drop the oldest bases beyond the ring's size; the newest stays."""
        total = sum(base.nbytes for base in self.bases.values())
        for digest in list(self.bases)[:-1]:
            if total <= self.ring_bytes and self.method.keeps_bases:
                break
            total -= self.bases.pop(digest).nbytes

    def _begin(self) -> None:
        self._turn_seed = int.from_bytes(_digest(self.seed, self.round)[:4], "little")
        rng = np.random.default_rng([self._turn_seed, self.round])
        self._turn = Turn(self.round, self.model, self.last, self.kept, rng)
        self._sums = Sums(self.layout)
        self._broadcast: Broadcast | None = None
        limit = self.ring_bytes // 4
        self._messages: Encoded[tuple[bool, bytes, int], bytes] = Encoded(limit, len)
        self._sections: Encoded[bytes, dict[int, Buffer]] = Encoded(limit, _size)
        self._asked: set[str] = set()
        self._done: set[str] = set()
        self._refused: dict[str, int] = {}

    def _opened(self) -> Broadcast:
        if self._broadcast is None:
            if self.round == 1 and self._known != NOTHING:
                self._broadcast = self.method.first(self._turn, self.bases[self._known])
            else:
                self._broadcast = self.method.broadcast(self._turn)
        return self._broadcast

    # ---- checkpoint

    def to_bytes(self) -> bytes:
        """The server between two rounds, as bytes; what was accepted in a round under way is not in it."""
        standing = Standing(
            self.method.settings(),
            self.seed,
            self._known,
            NOTHING if self.last is None else self.last.digest,
            self.ring_bytes,
            self.max_examples,
            self.clients,
        )
        bases = dict(self.bases)
        if self.last is not None:
            bases.setdefault(self.last.digest, self.last)
        sections: dict[int, Buffer] = {
            Section.LAYOUT: self.layout.to_bytes(),
            Section.VALUES: self.model.vector.astype("<f4").tobytes(),
            Section.COUNTERS: encode_counters(self.model.counters),
            Section.BASES: join(base.to_bytes() for base in bases.values()),
            Section.EXTRA: encode_arrays(self.kept),
            Section.FLAGS: standing.to_bytes(),
        }
        return self._message(MessageKind.SERVER, sections).to_bytes()

    @classmethod
    def from_bytes(cls, method: Method, data: Buffer) -> Server:
        """The server that `to_bytes` wrote; the method must have the same name and settings."""
        message = Message.from_bytes(data)
        if message.kind != MessageKind.SERVER:
            raise MessageError(f"a server's checkpoint is expected, got a {message.kind.name.lower()} message.")
        standing = Standing.from_bytes(message.section(Section.FLAGS))
        if message.method != method.name or not standing.fits(method):
            raise ArgumentError(
                f"the checkpoint is of {message.method} with {standing.settings}, "
                f"this is {method.name} with {method.settings()}. Go on with the same settings."
            )
        layout = Layout.from_bytes(message.section(Section.LAYOUT))
        check_size(layout, len(message.section(Section.VALUES)))
        vector = decode_values(message.section(Section.VALUES), layout.values)
        counters = decode_counters(message.section(Section.COUNTERS), layout.counters)
        server = cls(
            method,
            State(layout, vector, counters),
            seed=standing.seed,
            federation=message.federation,
            ring_bytes=standing.ring_bytes,
            max_examples=standing.max_examples,
        )
        bases = [Base.from_bytes(part, layout) for part in split(message.section(Section.BASES))]
        server.bases = {base.digest: base for base in bases}
        server.last = server.bases.get(standing.last)
        server._known = standing.known
        server.kept = method.restored(decode_arrays(message.section(Section.EXTRA)), layout)
        server.round = message.round
        server.clients = dict(standing.clients)
        server._begin()
        return server


def _size(sections: Mapping[int, Buffer]) -> int:
    return sum(len(body) for body in sections.values())


def _digest(*numbers: int) -> bytes:
    return hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
