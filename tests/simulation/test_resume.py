"""A run that ends early, however it does, goes on and comes out as the one that did not."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedcode import rundir
from fedcode.errors import RunError
from fedcode.events import RoundDone, RunStarted
from fedcode.simulation import rounds, run
from tests.simulation.small import Network, config, points

ROOT = Path(__file__).parents[2]
POINTS = 12


def finish(place: Path, method: str = "delta", **settings: Any) -> None:
    for _ in run(config(method, **settings), data=points(), model=Network, out=place, resume=True):
        pass


def stop(place: Path, after: int) -> None:
    """Run so many rounds and no more, as if interrupted then."""
    events = run(config("delta"), data=points(), model=Network, out=place)
    for event in events:
        if isinstance(event, RoundDone) and event.record["round"] == after:
            break
    events.close()  # type: ignore[attr-defined]


def same(one: Path, other: Path) -> bool:
    """Whether two runs came out alike, times apart."""
    histories = [[{**line, "seconds": 0} for line in rundir.read(place).history] for place in (one, other)]
    models = [(place / rundir.MODEL).read_bytes() for place in (one, other)]
    return histories[0] == histories[1] and models[0] == models[1]


@pytest.mark.parametrize("method", ["delta", "gtopk"])
def test_killed_at_any_moment_it_comes_out_bit_for_bit(method: str, tmp_path: Path) -> None:
    script = [sys.executable, "-m", "tests.simulation.killed", str(tmp_path), method, str(POINTS)]
    got = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
    whole, *killed = [json.loads(line) for line in got.stdout.splitlines()]
    assert [{**outcome, "rounds": 0} for outcome in killed] == [{**whole, "rounds": 0}] * POINTS
    assert whole["rest"] == []
    assert len(whole["files"]) > 4  # there are memories
    assert {outcome["rounds"] for outcome in killed} == {0, 1, 2, 3}  # before, between and after rounds


@pytest.mark.parametrize("after", [1, 2])
def test_a_round_is_kept_before_it_is_told_of(after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "CHECKPOINT_SHARE", 0)  # a checkpoint is due after every round
    stop(tmp_path, after)
    started = next(run(config("delta"), data=points(), model=Network, out=tmp_path, resume=True))
    assert isinstance(started, RunStarted)
    assert len(started.history) == after


def test_a_line_that_was_half_written_is_written_again(tmp_path: Path) -> None:
    finish(tmp_path / "whole")
    place = tmp_path / "cut"
    stop(place, after=2)
    history = place / rundir.HISTORY
    history.write_bytes(history.read_bytes()[:-9])
    finish(place)
    assert same(tmp_path / "whole", place)


def run_until_the_disk_is_full(place: Path, method: str) -> None:
    for event in run(config(method), data=points(), model=Network, out=place):
        if isinstance(event, RoundDone) and event.record["round"] == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))


@contextmanager
def limits_restored() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("method", ["delta", "fedavg"], ids=["at a memory", "at the history"])
def test_a_full_disk_leaves_the_last_checkpoint(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "CHECKPOINT_SHARE", 0)
    finish(tmp_path / "whole", method)
    place = tmp_path / "full"
    said = r"cannot be written \(File too large\). The last checkpoint (there )?is whole"
    with limits_restored(), pytest.raises(RunError, match=said):
        run_until_the_disk_is_full(place, method)
    assert len(rundir.read(place).history) == 2
    assert not list(place.glob(".*.part"))
    finish(place, method)
    assert same(tmp_path / "whole", place)


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="cannot be written"):
        finish(tmp_path / "file" / "run")


def test_a_checkpoint_that_is_damaged(tmp_path: Path) -> None:
    finish(tmp_path)
    content = bytearray((tmp_path / rundir.CHECKPOINT).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / rundir.CHECKPOINT).write_bytes(content)
    with pytest.raises(RunError, match="its checksum does not fit"):
        finish(tmp_path)


def test_a_memory_that_is_missing(tmp_path: Path) -> None:
    stop(tmp_path, after=2)
    for memory in (tmp_path / rundir.MEMORIES).iterdir():
        memory.unlink()
    with pytest.raises(RunError, match=r"client-\d.\d cannot be read"):
        finish(tmp_path)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    code = "import sys; from fedcode.rundir import RunDirectory\n"
    code += "with RunDirectory(sys.argv[1]).opened(): print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(RunError, match="is in use: another process runs there"):
            finish(tmp_path)
        other.communicate()
    finish(tmp_path)
    assert rundir.RunDirectory(tmp_path).finished


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"epochs": 2}, "holds a run with epochs = 1; it cannot go on with 2"),
        ({"method": "fedavg"}, "holds a run with method = 'delta'; it cannot go on with 'fedavg'"),
        ({"settings": {"clusters": 8}}, "holds a run with delta.clusters = 64; it cannot go on with 8"),
        ({"seed": 1}, "holds a run with seed = 0; it cannot go on with 1"),
    ],
)
def test_what_decides_a_run_cannot_change(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    finish(tmp_path)
    with pytest.raises(RunError, match=said):
        finish(tmp_path, **{"method": "delta"} | changed)


def test_how_it_is_computed_may_change(tmp_path: Path) -> None:
    finish(tmp_path)
    before = (tmp_path / rundir.MODEL).read_bytes()
    finish(tmp_path, data_dir=os.fspath(tmp_path), workers=None)
    assert (tmp_path / rundir.MODEL).read_bytes() == before


def test_a_run_that_is_there_is_not_begun_again(tmp_path: Path) -> None:
    finish(tmp_path)
    with pytest.raises(RunError, match=r"holds a run already\. Go on with it"):
        next(iter(run(config("delta"), data=points(), model=Network, out=tmp_path)))
