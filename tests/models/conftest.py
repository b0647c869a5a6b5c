"""One thread each: several would wait for one another on a machine that has other work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fedcode.simulation.job import one_thread


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield
