"""How long work says how far it is."""

from __future__ import annotations

from collections.abc import Callable

# Hears the stage, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """Say nothing.

    >>> silent("reading", 1, 2)
    """
