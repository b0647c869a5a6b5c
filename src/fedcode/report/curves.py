"""Runs that differ by their seed alone, taken together: a curve with its mean and how far the seeds are apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedcode.errors import ArgumentError
from fedcode.methods import options
from fedcode.report.trace import Floats, Trace

_NO_MATTER = (
    "seed",
    "label",
    "data_dir",
    "device",
    "workers",
    "precision",
    "compile",
    "versions",
    "machine",
    "settings",
)
_WHERE = ("dataset", "network", "scale", "fraction", "beta", "participation")  # what makes a panel
_WORDS = {"clusters": "K", "downlink": "F1", "uplink": "F2", "epochs": "E", "beta": "beta", "participation": "rho"}
TITLES = {
    **{"fedavg": "FedAvg", "fedavg_ws": "FedAvg_ws", "fedzip": "FedZip", "fedcode": "FedCode", "delta": "delta"},
    **{"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "speechcommands": "Speech Commands", "digits": "digits"},
    **{"resnet20": "ResNet-20", "mobilenetv2": "MobileNetV2", "yamnet": "YAMNet"},
}


@dataclass(frozen=True, eq=False)
class Curve:
    """The runs of one setting, one a seed. label: what tells it from the other curves."""

    traces: tuple[Trace, ...]
    label: str = ""

    @property
    def first(self) -> Trace:
        """One of them; the settings are those of all."""
        return self.traces[0]

    def setting(self, name: str) -> Any:
        """One of its settings, the method's own first."""
        own = self.first.config.get("settings")
        return own[name] if isinstance(own, dict) and name in own else self.first.config.get(name)

    @cached_property
    def rounds(self) -> int:
        """How many rounds all of them have."""
        return min(trace.rounds for trace in self.traces)

    def column(self, of: Callable[[Trace], Floats]) -> Floats:
        """The mean of a column over the seeds, a value a round."""
        found: Floats = np.mean([of(trace)[: self.rounds] for trace in self.traces], axis=0)
        return found

    def spread(self, of: Callable[[Trace], Floats]) -> tuple[Floats, Floats]:
        """The least and the greatest of the seeds, a value a round."""
        values = np.array([of(trace)[: self.rounds] for trace in self.traces])
        return values.min(axis=0), values.max(axis=0)

    def figure(self, of: Callable[[Trace], float | None]) -> float | None:
        """The mean of a figure; None where a seed has none."""
        values = [of(trace) for trace in self.traces]
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known and len(known) == len(values) else None


def curves(traces: Iterable[Trace]) -> list[Curve]:
    """Curves, FedAvg's first.

    >>> runs = [Trace.of({"method": "fedcode", "seed": n, "settings": {}}, [], None, "here") for n in (0, 1)]
    >>> [(curve.label, len(curve.traces)) for curve in curves(runs)]
    [('FedCode', 2)]
    """
    groups: dict[str, list[Trace]] = {}
    for trace in traces:
        if not trace.rounds and trace.wanted:
            continue
        groups.setdefault(_key(trace), []).append(trace)
    found = [Curve(tuple(group)) for group in groups.values()]
    return sorted((Curve(curve.traces, _label(curve, found)) for curve in found), key=_rank)


def panels(found: Sequence[Curve]) -> list[tuple[str, list[Curve]]]:
    """Curves by what they were trained on: the data set, its partition, the scale; each with a title."""
    groups: dict[tuple[Any, ...], list[Curve]] = {}
    for curve in found:
        where = tuple(
            curve.first.config.get(name) for name in ("dataset", "scale", "fraction", "beta", "participation")
        )
        groups.setdefault(where, []).append(curve)
    return [(_title(curves[0].first), curves) for curves in groups.values()]


def _panel(curve: Curve) -> tuple[Any, ...]:
    return tuple(curve.first.config.get(name) for name in _WHERE)


def _title(trace: Trace) -> str:
    said = str(trace.config.get("dataset", ""))
    beta, fraction = trace.config.get("beta"), trace.config.get("fraction")
    network = str(trace.config.get("network", said))
    parts = [TITLES.get(said, said), *([TITLES.get(network, network)] if network != said else [])]
    if isinstance(beta, int | float):
        parts.append("IID" if beta >= 10 else f"non-IID (beta {beta:g})")
    if isinstance(fraction, int | float) and fraction < 1:
        parts.append(f"{fraction:.0%} of the examples")
    participation = trace.config.get("participation")
    if isinstance(participation, int | float) and participation < 1:
        parts.append(f"{participation:.0%} of the clients a round")
    return ", ".join(parts)


def _key(trace: Trace) -> str:
    config = {name: value for name, value in trace.config.items() if name not in _NO_MATTER and value is not None}
    return json.dumps([config, trace.config.get("settings")], sort_keys=True, default=str)


def _label(curve: Curve, others: Sequence[Curve]) -> str:
    """The method, and those of its settings in which it differs from others of the method.

    Of what the paper has a letter for the value always stands there, of the rest where it is not the usual one.
    """
    own, usual = _settings(curve), _usual(curve.first.method)
    title = TITLES.get(curve.first.method, curve.first.method or curve.first.label)
    differs = {
        name
        for other in others
        if other.first.method == curve.first.method and _panel(other) == _panel(curve)
        for name in {*own, *_settings(other)}
        if own.get(name) != _settings(other).get(name) and (name in _WORDS or own.get(name) != usual.get(name))
    }
    order = [name for name in _WORDS if name in differs] + sorted(differs - set(_WORDS))
    return ", ".join([title, *(f"{_WORDS.get(name, name)}={_value(own.get(name))}" for name in order)])


def _usual(method: str) -> dict[str, Any]:
    try:
        return dict(options(method))
    except ArgumentError:  # a method that there no longer is
        return {}


def _rank(curve: Curve) -> tuple[Any, ...]:
    """FedAvg first, then the paper's methods, then others; within one by what tells its curves apart."""
    order = list(TITLES)
    method = curve.first.method
    settings = _settings(curve)
    known = (settings.get(name) for name in ("epochs", "clusters", "downlink", "uplink"))
    numbers = tuple(value if isinstance(value, int | float) else 0 for value in known)
    return (order.index(method) if method in order else len(order), method, *numbers, curve.label)


def _settings(curve: Curve) -> dict[str, Any]:
    own = curve.first.config.get("settings")
    config = {name: value for name, value in curve.first.config.items() if name not in _NO_MATTER}
    return config | (dict(own) if isinstance(own, dict) else {})


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
