"""What every method must notice: messages in order but for one section, which does not hold what it should.

The wire format checks headers, lengths and the checksum. What a section holds is known by the method alone: so its
functions `receive` and `fold` check it, before they use anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np

from fedcode.client import receive
from fedcode.ends import Method
from fedcode.errors import FedcodeError
from fedcode.rehearsal import Rehearsal, same
from fedcode.server import Server
from fedcode.state import State, flatten
from fedcode.wire import NOTHING, Message, Section

T = TypeVar("T")
_TAKEN = "it was taken, and should have been refused by a FedcodeError"
ROUNDS = 4  # until a method has sent all that it sends


class Tampering:
    """The part of the contract in which sections do not hold what they should; see `fedcode.contract`."""

    def test_a_client_refuses_a_section_of_a_wrong_length(self, method: Method) -> None:
        for _, message, memory, _ in _unlike(method):
            start = receive(message, memory).start
            for what, data in wrong_lengths(message):
                found = outcome(what, partial(receive, data, memory))
                assert found is None or _harmless(what, found.start, start), f"{what}: {_TAKEN}"

    def test_a_server_refuses_a_section_of_a_wrong_length_and_is_as_before(self, method: Method) -> None:
        for server, _, _, good in _unlike(method):
            if good is None:
                continue
            checkpoint = server.to_bytes()
            expected = _folded(_again(method, checkpoint), good)
            refused = 0
            for what, data in wrong_lengths(good):
                if outcome(what, partial(server.accept, "a", data)) is None:
                    refused += 1
                    continue
                end = _again(method, checkpoint)
                assert _harmless(what, _folded(end, data), expected), f"{what}: {_TAKEN}"
                server, refused = _again(method, checkpoint), 0
            assert server.to_bytes() == checkpoint, "a reply that was refused changed what the server keeps"
            assert server.accept("a", good)
            report = server.finish_round()
            assert (report.replies, sum(report.refused.values())) == (1, refused)
            assert same(server.model, expected), "a reply that was refused left something in the sums"

    def test_numbers_that_are_none_get_nowhere(self, method: Method) -> None:
        for server, message, memory, good in _unlike(method):
            for what, data in odd_numbers(message):
                found = outcome(what, partial(receive, data, memory))
                assert found is None or np.isfinite(found.start.vector).all(), f"{what}: trained from NaN or infinity"
            checkpoint = server.to_bytes()
            for what, data in [] if good is None else odd_numbers(good):
                end = _again(method, checkpoint)
                outcome(what, partial(end.accept, "a", data))
                end.finish_round()
                assert np.isfinite(end.model.vector).all(), f"{what}: the model is NaN or infinite"


def _again(method: Method, checkpoint: bytes) -> Server:
    """The server that has sent its message to `a`, and waits."""
    server: Server = method.restore(checkpoint)
    server.message_for("a")
    return server


def _folded(server: Server, reply: bytes) -> State:
    """The model after a round of this reply alone."""
    assert server.accept("a", reply)
    server.finish_round()
    return server.model


def _harmless(what: str, got: State, expected: State) -> bool:
    # behind the end that an entropy-coded stream marks may stand what nobody reads: it must not change a number
    return what.endswith("doubled") and same(got, expected)


def _smallest() -> State:
    # something of every kind, and no more of it than a method needs
    rng = np.random.default_rng(5)
    draw = rng.standard_normal((2, 8, 6)).astype(np.float32)
    norm = {"norm.running_mean": draw[0, 0], "norm.running_var": 1 + np.abs(draw[0, 1])}
    return flatten({"a.weight": draw[0], "a.bias": draw[0, 2], **norm, "norm.steps": np.array(5), "b.weight": draw[1]})


def _unlike(method: Method) -> Iterator[tuple[Server, bytes, bytes | None, bytes | None]]:
    """Messages that are made up of other sections than those before; for each its receiver's memory and reply.

    The server has sent the message and accepted nothing in this round. What nobody answers has no reply.
    """
    rehearsal = Rehearsal.of(method, _smallest())
    seen: set[tuple[object, ...]] = set()

    def new(data: bytes) -> bool:
        said = Message.from_bytes(data)
        about = (said.kind, said.base == NOTHING, *said.sections)
        fresh = about not in seen
        seen.add(about)
        return fresh

    for _ in range(ROUNDS):
        checkpoint = rehearsal.server.to_bytes()
        memory = rehearsal.memories.get("a")
        reply = rehearsal.answer("a")
        for name, held, evaluate in (("a", memory, False), ("new", None, False), ("a", memory, True)):
            server: Server = method.restore(checkpoint)
            message = server.message_for(name, evaluate=evaluate)
            answer = reply if (name, evaluate) == ("a", False) and new(reply) else None
            if new(message) or answer is not None:
                yield server, message, held, answer
        assert rehearsal.server.accept("a", reply)
        rehearsal.server.finish_round()


def wrong_lengths(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The message with one section after the other of another length, its checksum put right, and what was done.

    >>> from fedcode.wire import MessageKind
    >>> message = Message(MessageKind.REPLY, "mine", sections={Section.VALUES: bytes(6)})
    >>> [(what, len(spoilt) - len(message.to_bytes())) for what, spoilt in wrong_lengths(message.to_bytes())]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('VALUES emptied', -6), ('VALUES cut to 1 bytes', -5), ('VALUES cut to 2 bytes', -4),
     ('VALUES cut to 3 bytes', -3), ('VALUES cut to 4 bytes', -2), ('VALUES cut to 5 bytes', -1),
     ('VALUES doubled', 6)]
    """
    said = Message.from_bytes(data)
    for tag, body in _bodies(said):
        for size in _cuts(body):
            if not _fewer_centers(tag, size):
                what = f"cut to {size} bytes" if size else "emptied"
                yield f"{_called(tag)} {what}", _with(said, tag, body[:size])
        if body:
            yield f"{_called(tag)} doubled", _with(said, tag, body + body)


def odd_numbers(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The message with every bit of one section set, which makes NaN of floats of any width; with a shorter codebook.

    These may be taken: labels of any bits are labels, and fewer centres a codebook.
    """
    said = Message.from_bytes(data)
    for tag, body in _bodies(said):
        yield f"{_called(tag)} with all bits set", _with(said, tag, b"\xff" * len(body))
        for size in _cuts(body):
            if _fewer_centers(tag, size):
                yield f"{_called(tag)} cut to {size} bytes", _with(said, tag, body[:size])


def _cuts(body: bytes) -> list[int]:
    # nothing; one value, of whatever width, which numpy would spread over all; the half; all but the last byte
    return [size for size in sorted({0, 1, 2, 4, 8, len(body) // 2, len(body) - 1}) if 0 <= size < len(body)]


def _fewer_centers(tag: int, size: int) -> bool:
    return tag == Section.CENTERS and size > 0 and size % 4 == 0


def _bodies(said: Message) -> list[tuple[int, bytes]]:
    return [(tag, bytes(body)) for tag, body in said.sections.items() if tag != Section.PADDING]  # which nobody reads


def _with(said: Message, tag: int, body: bytes) -> bytes:
    return dataclasses.replace(said, sections={**said.sections, tag: body}).to_bytes()


def _called(tag: int) -> str:
    return Section(tag).name if tag in list(Section) else f"section {tag}"


def outcome(what: str, work: Callable[[], T]) -> T | None:
    """What `work` returns, or None where it refuses by an error of fedcode's own."""
    try:
        return work()
    except FedcodeError:
        return None
    except Exception as error:
        raise AssertionError(f"{what}: a FedcodeError was to be raised, not {error!r}") from error
