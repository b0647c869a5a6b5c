"""What a client may do wrong: each takes its reply and returns the bytes that it sends in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from flwr.app import Message

from fedcode import wire
from fedcode.flower.blob import find


def garbage(reply: Message) -> bytes:
    """Bytes that only begin as a message does."""
    return b"\x93FC" + bytes(60)


def not_a_number(reply: Message) -> bytes:
    """Not a number wherever its reply has some, with a checksum that fits."""
    message = _message(reply)
    sections = {
        key: np.full(len(body) // 4, np.nan, np.float32).tobytes() + bytes(body[len(body) // 4 * 4 :])
        for key, body in message.sections.items()
        if key != wire.Section.COUNTERS
    }
    return replace(message, sections=dict(message.sections) | sections).to_bytes()


def another_round(reply: Message) -> bytes:
    """The reply of a round that is not under way."""
    message = _message(reply)
    return replace(message, round=message.round + 1).to_bytes()


def another_model(reply: Message) -> bytes:
    """A reply about a model of another layout."""
    return replace(_message(reply), layout=b"anything").to_bytes()


FAULTS: dict[str, Callable[[Message], bytes]] = {
    fault.__name__: fault for fault in (garbage, not_a_number, another_round, another_model)
}


def _message(reply: Message) -> wire.Message:
    found = find(reply.content)
    assert found is not None
    return wire.Message.from_bytes(found[1])
