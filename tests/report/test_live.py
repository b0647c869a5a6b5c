"""The live view: what stands in the terminal, at any width, after a resume, and at the end."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from fedcode.commands.lines import Lines, following
from fedcode.events import ClientDone, Event, RoundDone, RoundStarted, RunDone, RunStarted
from fedcode.report.live import Course, Live, clock, sparkline, watching
from tests.report.conftest import line


def started(label: str, rounds: int = 5, done: int = 0) -> RunStarted:
    history = [line(n, 2**20, 2**19, n / 10, 3, None) for n in range(1, done + 1)]
    return RunStarted({"label": label}, 3, rounds, 100, history)


def round_of(number: int) -> list[Event]:
    record = line(number, 2**20, 2**19, number / 10, 3, None)
    names = record["clients"]
    return [
        RoundStarted(number, names),
        *(ClientDone(number, name, 10, 0.5, 0.1) for name in names),
        RoundDone(record, {"megabytes": {"down": number, "up": number / 2}}),
    ]


def shown(live: Live, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(live)
    return capture.get().splitlines()


def heard(*events: Event) -> Live:
    live = Live()
    for event in events:
        live.on(event)
    return live


def test_a_row_a_run() -> None:
    live = heard(started("fedavg", 2), *round_of(1), *round_of(2), RunDone({}), started("fedcode"), *round_of(1))
    rows = shown(live, 100)
    assert len(rows) == 3
    assert rows[1].split()[0] == "fedavg"
    assert rows[1].split()[2:] == ["2/2", "20.00", "20.00", "3.00", "done", "▁█"]
    assert rows[2].split()[2:7] == ["1/5", "10.00", "10.00", "1.50", "0:04"]  # 0.85 s a round; 4 are left


def test_who_takes_part_is_said_until_the_round_is_over() -> None:
    events = round_of(1)
    live = heard(started("fedcode"), *events[:2])
    assert shown(live, 100)[-1] == "fedcode, round 1, 1 of 3 trained: client-0, client-1, client-2"
    many = heard(started("fedcode"), RoundStarted(1, [f"client-{n}" for n in range(100)]))
    assert "client-5 and 94 more" in shown(many, 100)[-1]
    for event in events[2:]:
        live.on(event)
    assert "round 1" not in shown(live, 100)[-1]


@pytest.mark.parametrize("width", [20, 30, 40, 48, 60, 80, 200])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    label = "small-cifar10-iid-fedcode-s0-6af7716b"
    live = heard(started(label, 1000), *round_of(1), RoundStarted(2, ["client-0"] * 30))
    rows = shown(live, width)
    assert len(rows) == 3  # nothing folds
    assert max(len(row) for row in rows) <= width
    assert "10.00" in rows[1] or width < 30


def test_a_resumed_run_counts_what_was_done() -> None:
    live = heard(started("fedcode", 5, done=3))
    row = shown(live, 100)[1].split()
    assert row[2:6] == ["3/5", "30.00", "30.00", "4.50"]
    assert live.courses[0].left is None  # what another process took says nothing
    assert heard(started("fedcode", 5, done=3), *round_of(4)).courses[0].left == pytest.approx(0.85)


def test_refused_replies_are_shown_where_there_are_some() -> None:
    record = line(1, 1, 1, None, 3, None) | {"refused": {"MessageError": 2}}
    live = heard(started("fedcode"), RoundDone(record, {}))
    rows = shown(live, 120)
    assert "refused" in rows[0]
    assert rows[1].split()[-1] == "2"
    assert "refused" not in shown(heard(started("fedcode"), *round_of(1)), 120)[0]


def test_the_last_view_stays() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    with watching(console) as live:
        for event in (started("fedavg", 2), *round_of(1), *round_of(2), RunDone({})):
            live.on(event)
    last = out.getvalue().split("\x1b[2K")[-1]
    assert "2/2" in last
    assert "done" in last
    assert out.getvalue().endswith("\x1b[?25h")  # the cursor is back


def test_an_interrupted_view_gives_the_terminal_back() -> None:
    out = io.StringIO()

    def interrupted() -> None:
        with watching(Console(file=out, force_terminal=True, width=80)) as live:
            live.on(started("fedavg"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "\x1b[?25h" in out.getvalue()


def test_a_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with following() as observer:
        assert isinstance(observer, Lines)
        for event in (started("fedavg", 3, done=1), *round_of(2)):
            observer.on(event)
    assert capsys.readouterr().err.splitlines() == [
        "fedavg  goes on after round 1",
        "fedavg  round 2/3  accuracy 20.00 %  2.00 MB down, 1.00 MB up  0.9 s",
    ]


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with following(quiet=True) as observer:
        for event in (started("fedavg", 3, done=1), *round_of(2)):
            observer.on(event)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("TERM", "dumb")])
def test_ci_and_dumb_terminals_get_lines(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with following() as observer:
        assert isinstance(observer, Live)
    monkeypatch.setenv(name, value)
    with following() as observer:
        assert isinstance(observer, Lines)


def test_curves_and_clocks() -> None:
    assert len(sparkline([0.1] * 500, 20)) == 20
    assert sparkline([1.0, 0.0], 1) == "▁"  # the last value
    assert (clock(0), clock(59.2), clock(86400)) == ("0:00", "1:00", "24:00:00")
    assert Course("a", 3).left is None


def test_the_view_is_not_written_anywhere_else(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out, watching(Console(file=out, force_terminal=False, width=80)) as live:
        live.on(started("fedavg"))
    assert (tmp_path / "out").read_text().count("fedavg") == 1
