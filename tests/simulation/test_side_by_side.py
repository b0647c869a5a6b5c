"""The trainer for a CUDA device: its errors anywhere, its arithmetic where there is such a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fedcode.errors import ArgumentError
from fedcode.simulation import draws
from fedcode.simulation.config import Config
from fedcode.simulation.given import first_model, given
from fedcode.simulation.job import Bench, Job
from fedcode.simulation.side_by_side import SideBySide

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


Server = Any  # a method makes it


def opened(config: Config) -> tuple[Server, list[Job]]:
    """A server in its second round, whose clients have a mask to obey where the method has one; and their jobs."""
    found = given(config)
    server = config.made().server(first_model(config, found), seed=config.seed, federation=b"training")
    server.message_for("client-0")
    server.finish_round()
    parts = draws.parts(config, found.dataset)
    return server, [
        Job(2, name, server.message_for(name), b"", part) for name, part in zip(draws.names(10), parts, strict=True)
    ]


def test_a_processor_is_no_cuda_device() -> None:
    config = Config(device="cpu")
    with pytest.raises(ArgumentError, match="CUDA device; 'cpu' is none here"):
        SideBySide(config, given(config))


@needs_cuda
@pytest.mark.parametrize(
    ("method", "settings"),
    [("fedavg", {}), ("fedprox", {"mu": 0.1}), ("fedsparsify", {"initial": 0.5})],
)
@pytest.mark.parametrize("optimizer", ["adam", "momentum"])
def test_it_trains_as_the_plain_loop_does(method: str, settings: dict[str, Any], optimizer: str) -> None:
    plain = Config(method=method, settings=settings, epochs=2, batch=32, optimizer=optimizer, lr=1e-3)
    config = plain.chosen(device="cuda", workers=4)
    trainer, bench = SideBySide(config, given(config)), Bench(plain, given(plain))
    (ours, our_jobs), (theirs, their_jobs) = opened(config), opened(plain)
    before = ours.model.weights.copy()
    list(trainer.train(our_jobs))  # a slot serves any client afterwards
    results = {result.client: result for result in trainer.train(our_jobs)}
    for job in their_jobs:
        expected = bench.work(job)
        assert results[job.client].loss == pytest.approx(expected.loss, rel=1e-2)
        assert theirs.accept(job.client, expected.reply)
        assert ours.accept(job.client, results[job.client].reply)
    ours.finish_round()
    theirs.finish_round()
    moved = np.linalg.norm(theirs.model.weights - before)
    assert 0 < np.linalg.norm(ours.model.weights - theirs.model.weights) < 0.05 * moved


@needs_cuda
def test_bf16_and_compiled_learn_as_well() -> None:
    config = Config(device="cuda", precision="bf16", compile=True, epochs=2)
    results = list(SideBySide(config, given(config)).train(opened(config)[1]))
    assert len(results) == 10
    assert all(result.loss is not None and result.loss < 2.0 for result in results)
