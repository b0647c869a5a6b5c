"""Runs of a script or a notebook, as a table and as a picture: what `run.table()` and `run.plot()` give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fedcode.report.comparison import Comparison
from fedcode.report.gathering import Gathering, told_apart
from fedcode.report.link import Link
from fedcode.report.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Finished(Protocol):
    """What `fedcode.simulate` returns."""

    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def history(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def summary(self) -> Mapping[str, Any]: ...


def gathering(runs: Sequence[Finished]) -> Gathering:
    """Runs in memory as the report takes them."""
    traces = [Trace.of(run.config, run.history, run.summary, "the history") for run in runs]
    return Gathering(tuple(told_apart(traces)))


def table(runs: Sequence[Finished], link: str | None = None) -> Comparison:
    """The runs side by side; printed it is text, in a notebook a table."""
    return Comparison(gathering(runs), None if link is None else Link.of(link))


def plot(runs: Sequence[Finished], name: str = "volume") -> Figure:
    """One of the figures of `fedcode plot`."""
    from fedcode.report.figures import draw

    return draw(name, gathering(runs))
