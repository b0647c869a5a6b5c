"""Pictures for papers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedcode.errors import ArgumentError, RunError
from fedcode.experiments.plan import parameters
from fedcode.report.curves import curves, panels
from fedcode.report.figures import FIGURES, FORMATS, draw, pareto, plot, thin
from fedcode.report.gathering import gather
from tests.report.conftest import write_run

RESULTS = Path(__file__).parents[2] / "results"
OF = {"volume-linear": "figure-volume", "frontier": "frontier"}
BEGINNINGS = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_from_results(name: str, tmp_path: Path) -> None:
    found = None if name == "bounds" else gather([RESULTS / f"{OF.get(name, f'figure-{name}')}.json"])
    path = tmp_path / "figure.png"
    plot(name, found, path)
    assert path.read_bytes().startswith(BEGINNINGS["png"])


@pytest.mark.parametrize("kind", FORMATS)
def test_every_kind_of_file_is_the_same_each_time(study: Path, tmp_path: Path, kind: str) -> None:
    found = gather([study])
    for name in ("a", "b"):
        plot("volume", found, tmp_path / f"{name}.{kind}")
    first, second = ((tmp_path / f"{name}.{kind}").read_bytes() for name in ("a", "b"))
    assert first == second
    assert first.startswith(BEGINNINGS[kind])


def test_lines_are_the_runs(study: Path) -> None:
    found = gather([study])
    figure = draw("volume", found)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    lines = {str(line.get_label()): line for line in axes.get_lines()}
    assert list(lines) == ["FedAvg", "FedCode", "delta"]
    trace = next(trace for trace in found.traces if trace.label == "delta")
    assert np.asarray(lines["delta"].get_xdata()).tolist() == pytest.approx(trace.megabytes.tolist())
    assert np.asarray(lines["delta"].get_ydata()).tolist() == pytest.approx((100 * trace.accuracy).tolist())
    assert draw("volume-linear", found).axes[0].get_xscale() == "linear"
    styles = {(line.get_linestyle(), line.get_marker()) for line in axes.get_lines()}
    assert len(styles) == 3  # without colours too


def test_seeds_are_one_curve(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        write_run(tmp_path / f"fedcode-{seed}", seed=seed, settings={"clusters": 16})
    write_run(tmp_path / "other", settings={"clusters": 32})
    write_run(tmp_path / "elsewhere", beta=0.1, settings={"clusters": 16})
    found = curves(gather([tmp_path]).traces)
    assert sorted((curve.label, len(curve.traces)) for curve in found) == [
        ("FedCode", 1),
        ("FedCode, K=16", 3),
        ("FedCode, K=32", 1),
    ]
    assert sorted((title, len(some)) for title, some in panels(found)) == [
        ("digits, IID", 2),
        ("digits, non-IID (beta 0.1)", 1),
    ]
    three = next(curve for curve in found if len(curve.traces) == 3)
    accuracy = [trace.accuracy for trace in three.traces]
    assert three.column(lambda trace: trace.accuracy).tolist() == pytest.approx(np.mean(accuracy, axis=0).tolist())
    low, high = three.spread(lambda trace: trace.accuracy)
    assert low.tolist() == np.min(accuracy, axis=0).tolist()
    assert high.tolist() == np.max(accuracy, axis=0).tolist()


def test_the_front_is_what_nothing_beats() -> None:
    points = [(1.0, 50.0), (2.0, 40.0), (2.0, 70.0), (3.0, 70.0), (4.0, 69.0), (5.0, 80.0)]
    assert pareto(points) == [(1.0, 50.0), (2.0, 70.0), (5.0, 80.0)]
    assert pareto([]) == []


def test_the_frontier_has_a_point_a_curve() -> None:
    found = gather([RESULTS / "frontier.json"])
    some = curves(found.traces)
    labels = [curve.label for curve in some]
    figure = draw("frontier", found)
    drawn = [str(line.get_label()) for axes in figure.axes for line in axes.get_lines()]
    assert sorted(label for label in drawn if label != "front") == sorted(labels)
    for title, of_panel in panels(some):
        assert len({curve.label for curve in of_panel}) == len(of_panel), title


def test_bounds_are_the_papers_formula() -> None:
    (axes,) = draw("bounds", None).axes
    line = next(line for line in axes.get_lines() if line.get_label() == "F1+F2=0.7")
    count = parameters("resnet20", 100)
    expected = 2 * 32 * count / (2 * 32 * 16 + 0.7 * count * 4)
    assert float(line.get_ydata()[0]) == pytest.approx(expected)  # type: ignore[index, arg-type]


def test_what_cannot_be_drawn_says_why(study: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="the figure is one of volume, "):
        draw("histogram", gather([study]))
    with pytest.raises(ArgumentError, match=r"ends with \.pdf, \.svg, \.png: got 'figure\.bmp'"):
        plot("volume", gather([study]), tmp_path / "figure.bmp")
    with pytest.raises(ArgumentError, match="name directories of runs or a file of results"):
        draw("volume", None)
    write_run(tmp_path / "none", rounds=0, wanted=5)
    with pytest.raises(RunError, match="None of these runs has a round"):
        draw("volume", gather([tmp_path / "none"]))
    assert not (tmp_path / "figure.bmp").exists()


def test_a_figure_over_one_k_is_said_to_be_one(study: Path, tmp_path: Path) -> None:
    assert thin("clusters", gather([study])) == (
        "None of these runs has clusters: clusters is drawn over K, name runs that differ in it."
    )
    assert not draw("clusters", gather([study])).axes[0].get_lines()[1:]  # FedAvg's level alone, and no warning
    write_run(tmp_path / "a", settings={"clusters": 16})
    assert str(thin("figure-tradeoff", gather([tmp_path]))).startswith("All of these runs have K=16:")
    write_run(tmp_path / "b", settings={"clusters": 32})
    assert thin("clusters", gather([tmp_path])) is None


def test_a_figure_of_no_curve_has_no_legend(study: Path) -> None:
    assert draw("tradeoff", gather([study / "fedavg"])).axes[0].get_legend() is None  # a warning would be an error


def test_the_papers_names_will_do(study: Path) -> None:
    document = json.loads((RESULTS / "figure-volume.json").read_text())
    assert document["experiment"] == "figure-volume"
    assert len(draw(document["experiment"], gather([study])).axes) == 1
