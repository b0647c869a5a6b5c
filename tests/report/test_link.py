"""Time on the air."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedcode import rundir
from fedcode.errors import ArgumentError
from fedcode.report.comparison import Comparison
from fedcode.report.gathering import gather
from fedcode.report.link import LINKS, Link, note, target
from fedcode.report.trace import Trace
from tests.report.conftest import write_run


@pytest.mark.parametrize("text", ["", "fast", "1/2/3", "0/1", "-1/1", "nan/1", "inf/1", "1/", "1e-320/1"])
def test_what_is_no_link_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"link"):
        Link.of(text)


def test_names_show_their_figures() -> None:
    assert [link.name for link in LINKS] == ["4g", "3g", "nb-iot", "lorawan"]
    assert Link.of("NB-IoT").words == "nb-iot: 26 kbit/s down, 62 kbit/s up (the peak of LTE Cat-NB1)"
    assert Link.of("lorawan").words.startswith("lorawan: 54.7 bit/s down")
    trace = Trace.of({"clients": 2}, [], None, "here")
    assert Link.of("7").document(trace, None)["link"] == {"name": "7/7", "down_mbit_s": 7.0, "up_mbit_s": 7.0}


def test_hours_are_bytes_over_the_link(study: Path) -> None:
    trace = gather([study / "fedcode"]).traces[0]
    link = Link("slow", 0.008, 0.004)  # 1000 and 500 bytes a second
    down, up = trace.down.sum(), trace.up.sum()
    assert link.per_client(trace) == pytest.approx((down / 1000 + up / 500) / 3 / 3600)
    slowest = sum(trace.slowest["down"][:2]) / 1000 + sum(trace.slowest["up"][:2]) / 500
    assert link.elapsed(trace, 2) == pytest.approx(slowest / 3600)
    assert link.elapsed(trace, None) is None


def test_the_target_is_80_percent_of_fedavgs_best(study: Path) -> None:
    found = gather([study])
    assert found.fedavg is not None
    assert found.fedavg.best is not None
    assert target(found.traces, found.fedavg) == pytest.approx(0.8 * found.fedavg.best)
    others = gather([study / "fedcode", study / "delta"])
    assert others.fedavg is None
    assert target(others.traces, None) == pytest.approx(0.8 * max(trace.best or 0 for trace in others.traces))


def test_the_summary_says_it(tmp_path: Path) -> None:
    write_run(tmp_path / "fedavg", "fedavg", scale=10_000)
    write_run(tmp_path / "half", "fedcode", wanted=9)
    found = gather([tmp_path])
    comparison = Comparison(found, Link.of("3g"))
    before = rundir.read(tmp_path / "fedavg").summary
    note(Link.of("3g"), found.traces, comparison.target)
    after = json.loads((tmp_path / "fedavg" / "summary.json").read_text())
    air = after.pop("air")
    assert after == before
    assert air["link"] == {"name": "3g", "down_mbit_s": 3.0, "up_mbit_s": 1.0}
    trace = next(trace for trace in found.traces if trace.label == "fedavg")
    assert air["hours_per_client"] == pytest.approx(Link.of("3g").per_client(trace))
    assert air["rounds_until_target"] == trace.until(air["target_accuracy"])
    assert air["hours_until_target"] > 0
    assert air["training_hours"] == pytest.approx(6 * 0.5 / 3600)
    assert not (tmp_path / "half" / "summary.json").exists()
