"""The figures of a finished run, and what it ran on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedcode.data import Dataset, partition
from fedcode.ledger import Totals
from fedcode.simulation.config import Config
from fedcode.simulation.draw import Draw

LIBRARIES = ("fedcode", "numpy", "numba", "pcodec", "torch")


def summarise(
    config: Config, history: Sequence[Mapping[str, Any]], totals: Totals, draw: Draw, data: Dataset
) -> dict[str, Any]:
    """What summary.json holds."""
    found = surroundings()
    parts: dict[str, float] = {}
    for record in history:
        for part, seconds in record["seconds"].items():
            parts[part] = parts.get(part, 0.0) + seconds
    return {
        "method": config.method,
        "label": config.label,
        "settings": config.made().settings(),
        "accuracy": accuracies(history),
        **totals.figures(),
        "rounds": len(history),
        "seconds": sum(parts.values()),
        "parts": parts,
        "refused": sum(sum(record["refused"].values()) for record in history),
        "partition": {
            "concentration": partition.concentration(data.labels, draw.parts) if data.classes else None,
            "classes": [np.bincount(data.labels[part], minlength=data.classes).tolist() for part in draw.parts]
            if data.classes
            else None,
        },
        **found,
    }


def accuracies(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Best and final accuracy, and the round of the best (the first of equals).

    >>> accuracies([{"round": 1, "accuracy": 0.5}, {"round": 2, "accuracy": None}])
    {'best': 0.5, 'final': 0.5, 'best_round': 1}
    """
    known = [(record["accuracy"], record["round"]) for record in history if record["accuracy"] is not None]
    if not known:
        return {"best": None, "final": None, "best_round": None}
    best, round = max(known, key=lambda pair: (pair[0], -pair[1]))
    return {"best": best, "final": known[-1][0], "best_round": round}


def surroundings() -> dict[str, Any]:
    """The versions and the machine that a run is run with.

    >>> sorted(surroundings())
    ['machine', 'versions']
    """
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in LIBRARIES},
        "machine": {
            "platform": f"{platform.system()} {platform.machine()}",
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            **({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}),
        },
    }


def _processor() -> str:
    """The processor's name, as far as the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
