"""The paper's figures and the frontier, for print: lines and marks tell curves apart where there are no colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcode.errors import ArgumentError, RunError, extra
from fedcode.files import new_file
from fedcode.report.curves import Curve, curves, panels
from fedcode.report.gathering import Gathering
from fedcode.report.trace import Floats, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")
# Dark to light and back, so that neighbours differ in grey as well.
_COLOURS = ("#000000", "#c4500a", "#005f9e", "#3f9f76", "#a23a7c", "#8a6a00", "#5a4fcf", "#7a8791")
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (1, 1)), (0, (7, 3)), (0, (3, 1, 1, 1, 1, 1)))
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_STYLE = {
    **{"font.size": 8, "axes.titlesize": 8, "legend.fontsize": 7, "axes.linewidth": 0.6, "lines.linewidth": 1.2},
    **{"axes.grid": True, "grid.alpha": 0.25, "grid.linewidth": 0.5, "axes.axisbelow": True, "pdf.fonttype": 42},
    **{"svg.hashsalt": "fedcode", "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 100},
}
_OVER_K = ("clusters", "tradeoff")


def plot(name: str, gathering: Gathering | None, path: Path, *, force: bool = True) -> None:
    """Draw the figure of this name into a file; what its name ends with says which kind."""
    kind = path.suffix.lower().lstrip(".")
    if kind not in FORMATS:
        raise ArgumentError(f"the picture's name ends with .{', .'.join(FORMATS)}: got {path.name!r}.")
    figure = draw(name, gathering)
    metadata: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}[kind]
    with _styled(), new_file(path, force=force) as file:
        figure.savefig(file, format=kind, bbox_inches="tight", dpi=200, metadata=metadata)


def draw(name: str, gathering: Gathering | None) -> Figure:
    """The figure of this name, for a notebook or a file."""
    name = name.removeprefix("figure-")
    if name not in FIGURES:
        raise ArgumentError(f"the figure is one of {', '.join(FIGURES)}: got {name!r}.")
    if gathering is None and name != "bounds":
        raise ArgumentError(f"name directories of runs or a file of results to draw {name} from.")
    with _styled():
        return FIGURES[name](curves(gathering.traces) if gathering else [])


def thin(name: str, gathering: Gathering) -> str | None:
    """What to say of a figure over K that has no two of them; None where there is nothing to say.

    >>> trace = Trace.of({"method": "fedcode", "rounds": 0, "settings": {"clusters": 8}}, [], None, "here")
    >>> thin("clusters", Gathering((trace,)))
    'All of these runs have K=8: clusters is drawn over K, name runs that differ in it.'
    >>> thin("volume", Gathering((trace,)))
    """
    if name.removeprefix("figure-") not in _OVER_K:
        return None
    values = {_k(curve) for curve in curves(gathering.traces) if _is_number(curve.setting("clusters"))}
    if len(values) > 1:
        return None
    said = f"All of these runs have K={values.pop():g}" if values else "None of these runs has clusters"
    return f"{said}: {name} is drawn over K, name runs that differ in it."


def _volume(found: Sequence[Curve], scale: str = "log") -> Figure:
    def one(axes: Axes, curve: Curve, style: dict[str, Any]) -> None:
        _line(axes, curve, lambda trace: trace.megabytes, style)
        if scale == "log":
            _log(axes, "x")

    return _by_panel(found, one, "megabytes sent, both ways", "accuracy, %")


def _volume_linear(found: Sequence[Curve]) -> Figure:
    return _volume(found, "linear")


def _epochs(found: Sequence[Curve]) -> Figure:
    def one(axes: Axes, curve: Curve, style: dict[str, Any]) -> None:
        _line(axes, curve, _round, style)

    return _by_panel(found, one, "round", "accuracy, %")


def _bitrate(found: Sequence[Curve]) -> Figure:
    def one(axes: Axes, curve: Curve, style: dict[str, Any]) -> None:
        bits = curve.column(lambda trace: trace.bits)
        axes.plot(np.arange(1, curve.rounds + 1), bits, label=curve.label, **_sparse(style, curve.rounds))
        _log(axes, "y")

    return _by_panel(found, one, "round", "bits a weight and message")


def _clusters(found: Sequence[Curve]) -> Figure:
    """Best accuracy over K, FedAvg's as a level."""

    def all_of(axes: Axes, some: Sequence[Curve]) -> None:
        for index, curve in enumerate(curve for curve in some if curve.first.method == "fedavg"):
            level = curve.figure(_best)
            if level is not None:
                axes.axhline(level, color="#555555", linestyle="--", label=curve.label if not index else None)
        with_k = sorted((curve for curve in some if _is_number(curve.setting("clusters"))), key=_k)
        methods = dict.fromkeys(curve.first.method for curve in with_k)
        for index, method in enumerate(methods):
            points = [curve for curve in with_k if curve.first.method == method and curve.figure(_best) is not None]
            _points(axes, points, _k, _style(index), points[0].label.split(",")[0] if points else "")
        axes.set_xscale("log", base=2)
        values = sorted({_k(curve) for curve in with_k})
        axes.set_xticks(values, [f"{value:g}" for value in values])

    return _whole_panels(found, all_of, "clusters K", "best accuracy, %")


def _tradeoff(found: Sequence[Curve]) -> Figure:
    """Best accuracy against the reduction, a line for each pair of frequencies."""

    def dtr(curve: Curve) -> float:
        return curve.figure(lambda trace: trace.said("dtr", "total")) or math.nan

    def all_of(axes: Axes, some: Sequence[Curve]) -> None:
        pairs: dict[tuple[Any, Any], list[Curve]] = {}
        for curve in some:
            if _is_number(curve.setting("clusters")) and curve.figure(_best) is not None:
                pairs.setdefault((curve.setting("downlink"), curve.setting("uplink")), []).append(curve)
        for index, ((down, up), points) in enumerate(pairs.items()):
            label = points[0].label.split(",")[0] if down is None else f"F1={down:g}, F2={up:g}"
            points = sorted(points, key=_k)
            _points(axes, points, dtr, _style(index), label)
            for curve in points if not index else []:
                place = (dtr(curve), curve.figure(_best) or 0)
                axes.annotate(f"K={_k(curve):g}", place, textcoords="offset points", xytext=(4, -8), fontsize=6)

    return _whole_panels(found, all_of, "reduction against FedAvg (DTR)", "best accuracy, %")


def _frontier(found: Sequence[Curve]) -> Figure:
    """Best accuracy against all bytes; the front: what nothing else beats in both."""

    def all_of(axes: Axes, some: Sequence[Curve]) -> None:
        points = [(curve.figure(_sent) or math.nan, curve.figure(_best), curve) for curve in some]
        known = sorted(((x, y, curve) for x, y, curve in points if y is not None), key=lambda point: point[:2])
        front = pareto([(x, y) for x, y, _ in known])
        axes.step(*zip(*front, strict=True), where="post", color="#999999", linewidth=0.9, zorder=1, label="front")
        for index, (x, y, curve) in enumerate(known):
            style = _style(index)
            hollow = (x, y) not in front
            axes.plot(
                x,
                y,
                linestyle="none",
                marker=style["marker"],
                color=style["color"],
                markerfacecolor="white" if hollow else style["color"],
                markersize=5,
                label=curve.label,
            )
        _log(axes, "x")
        _near_the_top(axes, [y for _, y, _ in known])

    return _whole_panels(found, all_of, "megabytes sent in the run", "best accuracy, %", beside=True)


def _bounds(_: Sequence[Curve]) -> Figure:
    """The paper's formula: no run is needed."""
    from fedcode.experiments.count_tables import bounds

    table = bounds()
    figure = _figure(1)
    axes = figure.subplots()
    clusters = [float(row[0]) for row in table.rows]  # type: ignore[arg-type]
    for index, head in enumerate(table.heads[1:]):
        style = _style(index)
        axes.plot(clusters, [float(row[index + 1]) for row in table.rows], label=head, markersize=3, **style)  # type: ignore[arg-type]
    axes.set_xscale("log", base=2)
    _log(axes, "y")
    axes.set_xticks(clusters, [f"{value:g}" for value in clusters])
    axes.set_xlabel("clusters K")
    axes.set_ylabel("reduction (DTR)")
    axes.set_title(f"{table.title}\nResNet-20, 100 classes")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


FIGURES: dict[str, Callable[[Sequence[Curve]], Figure]] = {
    "volume": _volume,
    "volume-linear": _volume_linear,
    "clusters": _clusters,
    "epochs": _epochs,
    "tradeoff": _tradeoff,
    "bounds": _bounds,
    "bitrate": _bitrate,
    "frontier": _frontier,
}


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of points (cost, worth), those that no cheaper or equally cheap one is as good as, by rising cost.

    >>> pareto([(1, 50.0), (2, 40.0), (3, 60.0)])
    [(1, 50.0), (3, 60.0)]
    """
    front: list[tuple[float, float]] = []
    for cost, worth in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or worth > front[-1][1]:
            front.append((cost, worth))
    return front


# ---- what figures share


def _by_panel(found: Sequence[Curve], one: Callable[[Axes, Curve, dict[str, Any]], None], x: str, y: str) -> Figure:
    def all_of(axes: Axes, some: Sequence[Curve]) -> None:
        for index, curve in enumerate(some):
            one(axes, curve, _style(index))

    return _whole_panels(found, all_of, x, y)


def _whole_panels(
    found: Sequence[Curve], all_of: Callable[[Axes, Sequence[Curve]], None], x: str, y: str, beside: bool = False
) -> Figure:
    parts = panels(found)
    if not parts:
        raise RunError("None of these runs has a round to draw.")
    figure = _figure(len(parts), beside)
    for axes, (title, some) in zip(figure.subplots(1, len(parts), squeeze=False)[0], parts, strict=True):
        all_of(axes, some)
        axes.set_title(title)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        labels = axes.get_legend_handles_labels()[1]
        if beside or len(labels) > 6:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        elif labels:  # matplotlib warns of a legend of nothing
            axes.legend(framealpha=0.85, edgecolor="none")
    return figure


def _figure(count: int, beside: bool = False) -> Figure:
    with extra("report"):
        from matplotlib.figure import Figure
    return Figure(figsize=((6.4 if beside else 3.5) * count, 3.2 if beside else 2.6), layout="constrained")


def _log(axes: Axes, which: str) -> None:
    """A logarithmic axis with plain numbers."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(10, (1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _near_the_top(axes: Axes, values: Sequence[float]) -> None:
    """A scale of accuracy that is wide near 100 %, where methods crowd."""
    axes.set_yscale("function", functions=(lambda y: -np.log(101 - np.minimum(y, 100.9)), lambda z: 101 - np.exp(-z)))
    marks = [
        mark for mark in (0, 20, 40, 60, 80, 90, 95, 97, 98, 99, 100) if min(values) - 10 <= mark <= max(values) + 1
    ]
    axes.set_yticks(marks, [f"{mark}" for mark in marks])
    axes.minorticks_off()
    low, high = min(values), max(values)
    axes.set_ylim(max(0.0, low - 0.15 * (101 - low)), min(100.0, high + 0.3 * (101 - high)))


def _styled() -> Any:
    with extra("report"):
        import matplotlib
    return matplotlib.rc_context(_STYLE)  # type: ignore[arg-type]


def _style(index: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[(index + 3 * (index // len(_COLOURS))) % len(_COLOURS)],
        "linestyle": _LINES[index % len(_LINES)],
        "marker": _MARKS[index % len(_MARKS)],
    }


def _sparse(style: dict[str, Any], count: int) -> dict[str, Any]:
    """Marks on some of many points, so that they do not hide the line."""
    return style | {"markevery": max(1, count // 8), "markersize": 3}


def _line(axes: Axes, curve: Curve, x: Callable[[Trace], Floats], style: dict[str, Any]) -> None:
    """Accuracy over a column; the band is the least and the greatest of the seeds."""
    accuracy = 100 * curve.column(lambda trace: trace.accuracy)
    at, known = curve.column(x), ~np.isnan(accuracy)
    axes.plot(at[known], accuracy[known], label=curve.label, **_sparse(style, int(known.sum())))
    if len(curve.traces) > 1:
        low, high = curve.spread(lambda trace: 100 * trace.accuracy)
        axes.fill_between(at[known], low[known], high[known], color=style["color"], alpha=0.15, linewidth=0)


def _points(axes: Axes, some: Sequence[Curve], x: Callable[[Curve], float], style: dict[str, Any], label: str) -> None:
    """Best accuracy at some places, with the least and the greatest of the seeds."""
    best = np.array([curve.figure(_best) or math.nan for curve in some])
    ends = [[100 * (trace.best or math.nan) for trace in curve.traces] for curve in some]
    low = [value - min(seeds) for value, seeds in zip(best, ends, strict=True)]
    high = [max(seeds) - value for value, seeds in zip(best, ends, strict=True)]
    bars = np.clip([low, high], 0, None)
    axes.errorbar(
        [x(curve) for curve in some], best, bars, label=label, markersize=4, capsize=2, elinewidth=0.6, **style
    )


def _round(trace: Trace) -> Floats:
    return np.arange(1, trace.rounds + 1, dtype=np.float64)


def _best(trace: Trace) -> float | None:
    return None if trace.best is None else 100 * trace.best


def _sent(trace: Trace) -> float | None:
    return float(trace.megabytes[-1]) if trace.rounds else None


def _k(curve: Curve) -> float:
    return float(curve.setting("clusters"))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
