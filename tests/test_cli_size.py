"""`fedcode size` against the paper's table of settings and its table of megabytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedcode.cli import main
from tests.test_paper_count import RESNET20_100, ROWS, VOLUMES, Row


def size(capsys: pytest.CaptureFixture[str], **options: Any) -> Any:
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    assert main(["size", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_every_row_of_the_settings(row: Row, capsys: pytest.CaptureFixture[str]) -> None:
    found = size(
        capsys,
        params=row.parameters,
        clusters=row.clusters,
        downlink=row.downlink,
        uplink=row.uplink,
        start=row.start,
        rounds=row.rounds,
    )
    assert found["full_rounds"] == {"down": row.full[0], "up": row.full[1]}
    assert found["dtr"] == pytest.approx(dict(zip(("down", "up", "total"), row.dtr, strict=True)), abs=0.15)
    assert found["count"] == "formula"


@pytest.mark.parametrize(("frequencies", "printed", "dtr", "formula"), VOLUMES)
def test_every_printed_megabyte(
    frequencies: tuple[float, float],
    printed: float,
    dtr: float,
    formula: float | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run: dict[str, float] = {"params": RESNET20_100, "clusters": 64, "start": 2, "rounds": 100, "clients": 10}
    run |= {"downlink": frequencies[0], "uplink": frequencies[1]}
    found = size(capsys, **run, count="printed")
    assert found["bits"]["total"] / 8 / 2**20 == pytest.approx(printed, abs=0.05)
    assert found["dtr"]["total"] == pytest.approx(dtr, abs=0.15)
    if formula is not None:
        assert size(capsys, **run)["bits"]["total"] / 8 / 2**20 == pytest.approx(formula, abs=0.05)


def test_everything_that_is_said_is_said_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    found = size(capsys, params=1000, clusters=16, downlink=0.5, uplink=0.25, start=1, rounds=8, clients=3)
    down = {"full": 5, "alone": 3}  # 1, 2, 4, 6, 8
    up = {"full": 3, "alone": 5}  # 1, 4, 8
    codebook, whole = 32 * 16, 32 * 16 + 4 * 1000
    bits = {way: 3 * (n["full"] * whole + n["alone"] * codebook) for way, n in (("down", down), ("up", up))}
    assert found["bits"] == {**bits, "total": bits["down"] + bits["up"]}
    fedavg = 3 * 8 * 32 * 1000
    wanted = {"down": fedavg / bits["down"], "up": fedavg / bits["up"], "total": 2 * fedavg / sum(bits.values())}
    assert found["dtr"] == pytest.approx(wanted)
    assert found["bits_per_parameter"] == pytest.approx(sum(bits.values()) / (2 * 3 * 8 * 1000))
    assert (found["parameters"], found["clusters"], found["rounds"], found["clients"]) == (1000, 16, 8, 3)
