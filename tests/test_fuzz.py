"""Some thousand hostile inputs, of the million that fuzz.py tried, on every reader of bytes from outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedcode.errors import MessageError
from fedcode.wire import Message, MessageKind
from tests import fuzz
from tests.damage import Damage, seal
from tests.hostile import Outcome, Target, _try, run

STORED = Path(__file__).parent.parent / "results" / "fuzz.json"


def test_hostile_bytes_are_refused_in_bounded_memory() -> None:
    outcome = run(6000, seed=20)
    assert outcome.failures == {}
    assert outcome.inputs == 6000
    assert outcome.by_result["MessageError"] > 2000
    assert outcome.by_result["read"] > 200  # not all is caught by the first check
    assert outcome.memory_growth_mb < 100


def test_what_passes_where_it_must_not_is_seen() -> None:
    def read(data: bytes) -> None:
        Message.from_bytes(data)
        raise IndexError(len(data))

    outcome = Outcome()
    good = Message(MessageKind.HELLO, "fedcode").to_bytes()
    _try(Target("reader", read), good, outcome)
    assert (outcome.failed, outcome.inputs) == (1, 1)
    (where,) = outcome.failures
    assert where.startswith("reader: IndexError in test_fuzz.py")
    assert outcome.failures[where].endswith(good.hex())


def test_damage_is_damage() -> None:
    good = Message(MessageKind.HELLO, "fedcode", asks={"bits": 2.0}, sections={3: bytes(8)}).to_bytes()
    damage = Damage(0)
    made = [damage.of(good, [b"other bytes"]) for _ in range(500)]
    assert len(set(made)) > 300
    assert 0.2 < sum(one[-4:] == seal(one)[-4:] for one in made) / 500 < 0.95
    with pytest.raises(MessageError, match="checksum"):
        Message.from_bytes(good[:-1] + bytes([good[-1] ^ 1]))


def test_the_command_stores_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "results" / "fuzz.json"
    monkeypatch.setattr("sys.argv", ["fuzz.py", "--inputs", "60", "--only", "labels", "--json", str(out)])
    assert fuzz.main() == 0
    found = json.loads(out.read_text())
    assert found["inputs"] == sum(found["by_target"].values()) == sum(found["by_result"].values()) == 60
    assert all("labels" in name for name in found["by_target"])
    assert found["machine"]["versions"]["numpy"]


def test_the_figure_that_is_stored_is_of_a_million_inputs() -> None:
    found = json.loads(STORED.read_text())
    assert found["inputs"] >= 1_000_000
    assert found["failures"] == {}
    assert found["failed"] == 0
