"""What of a round is a curve in other tools, under the names that it has there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fedcode.ledger import MEGABYTE


def measures(record: Mapping[str, Any], sent: float = 0.0) -> dict[str, float]:
    """Numbers of a line of a history; sent: megabytes before it, both ways.

    >>> line = {"accuracy": None, "loss": 0.5, "bytes": {"down": 2**20, "up": 0}, "seconds": {"training": 1.5}}
    >>> measures(line)
    {'loss': 0.5, 'megabytes/down': 1.0, 'megabytes/up': 0.0, 'megabytes/so far': 1.0, 'seconds/training': 1.5}
    """
    found = {name: record.get(name) for name in ("accuracy", "loss", "training_loss")}
    down, up = (record["bytes"][way] / MEGABYTE for way in ("down", "up"))
    found |= {"megabytes/down": down, "megabytes/up": up, "megabytes/so far": sent + down + up}
    found |= {f"seconds/{part}": spent for part, spent in record.get("seconds", {}).items()}
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}


def settings(config: Mapping[str, Any]) -> dict[str, str]:
    """A run's settings as texts by name, those of its method and what it runs on behind a dot.

    >>> settings({"rounds": 3, "settings": {"clusters": 64}, "data_dir": None})
    {'rounds': '3', 'settings.clusters': '64'}
    """
    found: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{part}": text for part, text in settings(value).items()}
        elif value is not None:
            found[name] = str(value)
    return found
