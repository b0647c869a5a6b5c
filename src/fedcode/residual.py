"""What a client's reply left out, kept until it can be sent: a residual that counts only when its reply did.

A reply can be lost. So the residual that a reply leaves waits ("pending") until a message states that the server
accepted it; a message that states an earlier round takes the client back to the residual before ("residual").
For this the message must say which reply counted: a method that keeps a residual has `acknowledges` true.

    residual = settled(incoming)                 the rest of the last reply that counted, None where there is none
    target = change if residual is None else change + residual
    sent = ...                                   what the server will see of it
    return sections, kept_residual(incoming, target - sent)
"""

from __future__ import annotations

import numpy as np

from fedcode.ends import Incoming, Kept
from fedcode.state import Vector

RESIDUAL, PENDING, ROUND = "residual", "pending", "pending.round"


def acknowledged(incoming: Incoming) -> bool:
    """Whether the server accepted the reply that this client's memory is of."""
    return incoming.message.accepted == _round(incoming.kept)


def settled(incoming: Incoming, size: int | None = None) -> Vector | None:
    """What replies that counted have left out; None where there is nothing. `size`: how many values it must have.

    Where the server accepted a later reply than this memory knows of, the memory is an old copy and what it kept
    was in that reply: then the client starts clean.

    >>> from fedcode.wire import Message, MessageKind
    >>> from fedcode.layout import Layout
    >>> kept = {"residual": np.zeros(1, np.float32), "pending": np.ones(1, np.float32), "pending.round": np.array([3])}
    >>> def given(accepted):
    ...     message = Message(MessageKind.BROADCAST, "delta", round=5, accepted=accepted)
    ...     return settled(Incoming(message, Layout(()), None, kept))
    >>> given(2), given(3), given(4)
    (array([0.], dtype=float32), array([1.], dtype=float32), None)
    """
    number = _round(incoming.kept)
    if number is None or incoming.message.accepted > number:
        return None
    found = incoming.kept.get(PENDING if acknowledged(incoming) else RESIDUAL)
    if found is None or found.dtype != np.float32 or found.shape != (found.size if size is None else size,):
        return None
    return found if np.isfinite(found).all() else None


def kept_residual(incoming: Incoming, pending: Vector) -> Kept:
    """What to keep: the residual that `pending` takes the place of once this reply has counted."""
    before = settled(incoming, pending.size)
    kept: Kept = {} if before is None else {RESIDUAL: before}
    return {**kept, PENDING: pending.astype(np.float32), ROUND: np.array([incoming.message.round], np.int64)}


def _round(kept: Kept) -> int | None:
    number = kept.get(ROUND)
    return int(number[0]) if number is not None and number.shape == (1,) and number.dtype == np.int64 else None
