"""Where a server stands between two rounds: the part of its checkpoint that is not arrays."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedcode.ends import Method
from fedcode.errors import MessageError
from fedcode.reader import Buffer
from fedcode.wire import NOTHING


@dataclass(frozen=True)
class Client:
    """What the server knows of a client: the last round of which it accepted a reply, the newest base it holds."""

    accepted: int = 0
    holds: bytes = NOTHING


@dataclass(frozen=True)
class Standing:
    """The server's settings and what it knows of its clients. known, last: digests of bases, or `NOTHING`.

    >>> standing = Standing({"clusters": 64}, 0, NOTHING, NOTHING, 1 << 30, 10**9, {"client-0": Client(3)})
    >>> Standing.from_bytes(standing.to_bytes()) == standing
    True
    """

    settings: Mapping[str, Any]
    seed: int
    known: bytes
    last: bytes
    ring_bytes: int
    max_examples: int
    clients: Mapping[str, Client]

    def fits(self, method: Method) -> bool:
        """Whether these are the method's settings; one that the checkpoint is too old to know has its default."""
        usual = {field.name: field.default for field in dataclasses.fields(method)}
        ours: dict[str, Any] = json.loads(json.dumps(method.settings()))
        return {**{name: usual.get(name) for name in ours}, **self.settings} == ours

    def to_bytes(self) -> bytes:
        """As a section of the checkpoint."""
        about = {
            "settings": self.settings,
            "seed": self.seed,
            "known": self.known.hex(),
            "last": self.last.hex(),
            "ring_bytes": self.ring_bytes,
            "max_examples": self.max_examples,
            "clients": {name: [client.accepted, client.holds.hex()] for name, client in self.clients.items()},
        }
        return json.dumps(about).encode()

    @classmethod
    def from_bytes(cls, data: Buffer) -> Standing:
        """What `to_bytes` wrote; anything else is a MessageError."""
        try:
            about = json.loads(bytes(data).decode())
            clients = {name: Client(_whole(entry[0]), _digest(entry[1])) for name, entry in about["clients"].items()}
            settings, seed = about["settings"], about["seed"]
            if not isinstance(settings, dict) or type(seed) is not int:
                raise TypeError("settings or seed")
            known, last = _digest(about["known"]), _digest(about["last"])
            return cls(settings, seed, known, last, _whole(about["ring_bytes"]), _whole(about["max_examples"]), clients)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise MessageError(f"the server's checkpoint does not say where it stands: {error!r}.") from error


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r} is no count")
    return value


def _digest(value: Any) -> bytes:
    found = bytes.fromhex(value)
    if len(found) != len(NOTHING):
        raise ValueError(f"{value!r} is no digest")
    return found
