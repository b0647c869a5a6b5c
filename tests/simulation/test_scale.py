"""Ten thousand registered clients cost memory for those who are at work, and disk for what the others remember."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.many import A_ROUND

ROOT = Path(__file__).parents[2]
ROUNDS = 8


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_ten_thousand_clients_in_bounded_memory(tmp_path: Path) -> None:
    script = [sys.executable, "-m", "tests.simulation.many", str(tmp_path), "gtopk", str(ROUNDS)]
    got = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
    lines = [[int(number) for number in line.split()] for line in got.stdout.splitlines()]
    assert [line[0] for line in lines] == list(range(1, ROUNDS + 1))
    (_, before, few, small), (_, after, many, large) = lines[1], lines[-1]
    assert few <= 2 * A_ROUND < many
    assert large - small > 80e6  # a model for each of hundreds of clients lies on the disk
    assert after - before < 0.1 * (large - small)  # and not in memory
