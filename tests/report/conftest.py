"""Runs to report on, written as a run writes them, without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from fedcode import rundir
from fedcode.toml import write_toml


def line(number: int, down: int, up: int, accuracy: float | None, clients: int, centers: list[float] | None) -> Any:
    """A line of a history. The first client gets and sends twice what the others do."""
    shares = [2, *[1] * (clients - 1)]
    names = [f"client-{n}" for n in range(clients)]
    return {
        "round": number,
        "clients": names,
        "replies": clients,
        "examples": 100,
        "refused": {},
        "accuracy": accuracy,
        "loss": 1 / number,
        "training_loss": 2 / number,
        "bytes": {"down": down, "up": up, "evaluate": 0},
        "messages": {"down": clients, "up": clients, "evaluate": 0},
        "paper_bits": {"down": 0, "up": 0},
        "per_client": {
            name: {"down": down * share // (clients + 1), "up": up * share // (clients + 1)}
            for name, share in zip(names, shares, strict=True)
        },
        "centers": centers,
        "seconds": {"training": 0.5, "method": 0.1, "evaluation": 0.2, "other": 0.05},
    }


def write_run(
    folder: Path,
    method: str = "fedcode",
    *,
    label: str | None = None,
    rounds: int = 6,
    wanted: int | None = None,
    clients: int = 3,
    clusters: int = 8,
    scale: int = 1000,
    seed: int = 0,
    best: float = 0.9,
    settings: dict[str, Any] | None = None,
    **config: Any,
) -> Path:
    """A run's directory; accuracy rises from round to round, bytes are `scale` times a little."""
    folder.mkdir(parents=True)
    whole = {
        "method": method,
        "label": label or folder.name,
        "dataset": "digits",
        "network": "digits",
        "clients": clients,
        "beta": 10.0,
        "participation": 1.0,
        "rounds": wanted or rounds,
        "epochs": 4,
        "seed": seed,
        **config,
        "settings": settings or {},
    }
    (folder / rundir.CONFIG).write_text(write_toml(whole))
    generator = np.random.default_rng(seed)
    history = []
    for number in range(1, rounds + 1):
        accuracy = best * (1 - 0.8 ** (number + 1)) + 0.001 * seed
        centers = np.sort(generator.normal(size=clusters)).round(6).tolist() if method == "fedcode" else None
        history.append(line(number, 4 * scale + number, 3 * scale + number, round(accuracy, 6), clients, centers))
    (folder / rundir.HISTORY).write_text("".join(json.dumps(record) + "\n" for record in history))
    if wanted is None:
        sent = sum(record["bytes"]["down"] + record["bytes"]["up"] for record in history)
        summary = {
            "method": method,
            "label": whole["label"],
            "accuracy": {"best": history[-1]["accuracy"], "final": history[-1]["accuracy"], "best_round": rounds},
            "dtr": {"down": 2.0, "up": 3.0, "total": 1e6 / scale},
            "bits_per_parameter": 8 * sent / (2 * clients * rounds * 500),
            "parameters": 500,
            "partition": {"concentration": 1.0, "classes": [[5, 6, 7, n] for n in range(clients)]},
            "versions": {"python": "3.12", "fedcode": "0.1.0"},
            "machine": {"processor": "a processor"},
        }
        (folder / rundir.SUMMARY).write_text(json.dumps(summary))
        weights = {
            "layer.weight": generator.normal(size=(20, 24)).astype(np.float32),
            "layer.bias": np.zeros(20, np.float32),
            "norm.running_mean": np.full(4, 1e6, np.float32),
            "norm.num_batches_tracked": np.array(7),
        }
        save_file(weights, folder / rundir.MODEL)
    return folder


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods, one after the other."""
    place = tmp_path_factory.mktemp("runs") / "study"
    write_run(place / "fedavg", "fedavg", scale=100_000, best=0.95)
    write_run(place / "fedcode", "fedcode", scale=3_000)
    write_run(place / "delta", "delta", scale=2_000, best=0.93)
    return place


@pytest.fixture(scope="session")
def long_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 rounds of 10 methods, each with a codebook a round."""
    place = tmp_path_factory.mktemp("runs") / "long"
    for number in range(10):
        write_run(place / f"run-{number}", rounds=1000, clusters=66, seed=number)
    return place
