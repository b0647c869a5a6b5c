"""The mean of a few numbers and how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Student's t, 97.5 %, for 1 to 10 degrees of freedom; more are given the last, which is a little wide
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True)
class Interval:
    """A mean and the half width of its 95 % interval (Student's t); None where one number says nothing of it."""

    mean: float
    half: float | None


def interval(numbers: Sequence[float]) -> Interval | None:
    """The interval of the mean of independent numbers; None of none.

    >>> interval([1.0, 2.0, 3.0])  # doctest: +ELLIPSIS
    Interval(mean=2.0, half=2.4843...)
    >>> interval([1.0])
    Interval(mean=1.0, half=None)
    """
    count = len(numbers)
    if not count:
        return None
    mean = math.fsum(numbers) / count
    if count == 1:
        return Interval(mean, None)
    variance = math.fsum((number - mean) ** 2 for number in numbers) / (count - 1)
    student = _STUDENT[min(count - 1, len(_STUDENT)) - 1]
    return Interval(mean, student * math.sqrt(variance / count))
