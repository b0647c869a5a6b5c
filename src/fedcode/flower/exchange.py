"""Messages out and replies in, one by one as they come: Flower's own `send_and_receive` keeps all until the last."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

from flwr.app import Error, Message
from flwr.serverapp import Grid

AT_ONCE = 16  # replies pulled together: what waits in memory is bounded by it
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds between two looks; it grows while nothing comes
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def exchange(
    grid: Grid, messages: Sequence[Message], timeout: float | None = None, asked: dict[str, int] | None = None
) -> Iterator[Message]:
    """Send the messages and yield each reply when it is there, until all are or `timeout` seconds have passed.

    asked: is told which node each message went to, by the message's number. An error that the SuperLink answers in the
    place of a node that is gone says nothing else of whose it is.
    """
    if not messages:
        return
    numbers = list(grid.push_messages(messages))
    waiting = [number for number in numbers if number]
    if asked is not None:
        asked.update((number, message.metadata.dst_node_id) for number, message in zip(numbers, messages, strict=False))
    end = None if timeout is None else time.monotonic() + timeout
    longest = getattr(grid, "pull_interval", _LONGEST_PAUSE)
    pause = min(_FIRST_PAUSE, longest)
    while waiting:
        came: set[str] = set()
        for first in range(0, len(waiting), AT_ONCE):
            for reply in grid.pull_messages(waiting[first : first + AT_ONCE]):
                came.add(reply.metadata.reply_to_message_id)
                yield reply
        waiting = [number for number in waiting if number not in came]
        if not waiting or (end is not None and time.monotonic() >= end):
            return
        pause = _FIRST_PAUSE if came else min(1.5 * pause, longest)
        time.sleep(min(pause, longest))


def reason(error: Error) -> str:
    r"""Why a node failed, in one line: the last of the traceback that Flower sends.

    >>> reason(Error(0, "Traceback ...\n\x1b[31mKeyError: 'arrays'\x1b[0m\n"))
    "KeyError: 'arrays'"
    """
    lines = [line.strip(" │╰╯─") for line in _COLOURS.sub("", error.reason or "").splitlines()]
    lines = [line for line in lines if line]
    return lines[-1] if lines else f"error {error.code}"
