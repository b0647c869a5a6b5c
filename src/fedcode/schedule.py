"""Which rounds carry a whole model and which a codebook alone, for one direction.

Round i, counted from 1, is full when i <= R_cb or when i is a multiple of the period, 1/F to the nearest
whole number; with F = 0 only the first R_cb rounds are. F1 is the frequency downstream, F2 upstream, each
with this same rule.

Reference: FedCode, section "Methodology" and its two algorithms; docs/reproduction.md says where these
disagree and which reading gives the paper's numbers.
"""

from __future__ import annotations

from fedcode.errors import ArgumentError


def period(frequency: float) -> int | None:
    """Every how many rounds one is full; None where none ever is (F = 0).

    >>> period(0.2), period(0.33), period(0)
    (5, 3, None)
    """
    if not 0 <= frequency <= 1:
        raise ArgumentError(
            f"a frequency is a share of the rounds, from 0 (never full) to 1 (always); got {frequency}."
        )
    if frequency < 1e-15:  # zero, and what no run is long enough to see
        return None
    return round(1 / frequency)


def full(round: int, frequency: float, start: int) -> bool:
    """Whether this round carries a whole model: round (from 1), frequency F, start R_cb.

    >>> [i for i in range(1, 13) if full(i, frequency=0.2, start=2)]
    [1, 2, 5, 10]
    """
    if round < 1:
        raise ArgumentError(f"rounds count from 1, got {round}.")
    return full_rounds(round, frequency, start) > full_rounds(round - 1, frequency, start)


def full_rounds(rounds: int, frequency: float, start: int) -> int:
    """How many of the rounds 1 to `rounds` carry a whole model.

    >>> full_rounds(100, frequency=0.2, start=2), full_rounds(100, frequency=0.5, start=2)
    (22, 51)
    """
    if rounds < 0 or start < 0:
        raise ArgumentError(f"rounds and start are counts, 0 or more; got {rounds} and {start}.")
    every = period(frequency)
    first = min(start, rounds)
    return first if every is None else first + rounds // every - first // every
