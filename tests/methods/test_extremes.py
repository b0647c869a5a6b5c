"""Weights as great as a float32 can be: whatever clients send, the model stays finite and the rounds go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedcode.methods import class_of, names, options
from tests.methods.rounds import COUNTER, Arrays, Ends

OWN = [name for name in names() if class_of(name).__module__ == f"fedcode.methods.{name}"]
MOMENTUM = [name for name in OWN if "server" in options(name)]
CASES: list[tuple[str, dict[str, str]]] = [
    *((name, {}) for name in OWN),
    *((name, {"server": "momentum"}) for name in MOMENTUM),
]


def to_and_fro(start: Any, client: str, round: int) -> Arrays:
    """From one end of float32 to the other and back."""
    end = 3.3e38 * (-1) ** round
    return {
        name: value + 1 if name == COUNTER else np.full(value.shape, abs(end) if "var" in name else end, np.float32)
        for name, value in start.items()
    }


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_the_model_stays_finite(name: str, settings: dict[str, str]) -> None:
    ends = Ends.of(name, None, 3, **settings)
    ends.training = to_and_fro
    for _ in range(4):
        assert len(ends.round()) == 3  # every reply counts
        for entry, value in ends.state.items():
            assert np.isfinite(value).all(), entry
    assert any(np.abs(value).max() > 1e30 for value in ends.state.values())
