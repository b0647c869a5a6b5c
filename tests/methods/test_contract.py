"""The contract over every registered method, and over methods registered from outside the package."""

from __future__ import annotations

from typing import Any

import pytest

import fedcode
from fedcode import methods
from fedcode.contract import Contract
from fedcode.ends import Method

# Settings beside the defaults that send something else, or keep something else.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in methods.names()),
    ("fedavg", {"server": "momentum"}),
    ("fedavg_ws", {"statistics": "8bit", "clusters": 8, "server": "adam", "server_lr": 0.01}),
    ("fedcode", {"clusters": 8, "downlink": 0.5, "uplink": 1 / 3, "start": 1}),
    ("fedcode", {"clusters": 8, "codebook_rounds": "silent", "statistics": "8bit"}),
    ("fedcode", {"downlink": 0, "uplink": 0, "start": 1, "labels": "packed"}),
    ("delta", {"residual": 0.9, "bits": 0.5, "server": "nesterov"}),
    ("delta", {"debias": True, "bits": 1.0, "vector_bits": 6, "labels": "packed"}),
    ("fedzip", {"clusters": 3}),
    ("mucsc", {"server": "momentum"}),
    ("fedsparsify", {"mode": "local", "until": 5}),
    ("gtopk", {"warmup": 0, "density": 0.1, "statistics": "exact"}),
    ("stc", {"keep": 0.1, "statistics": "exact"}),
]


def _shown(variant: tuple[str, dict[str, Any]]) -> str:
    name, settings = variant
    return "-".join([name, *(f"{key}={value}" for key, value in settings.items())])


@pytest.mark.parametrize("variant", VARIANTS, ids=_shown)
class TestContract(Contract):
    @pytest.fixture
    def method(self, variant: tuple[str, dict[str, Any]]) -> Method:
        name, settings = variant
        return fedcode.method(name, **settings)
