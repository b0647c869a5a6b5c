"""The simulator beside plain PyTorch loops that do the same training.

    python benchmarks/simulation.py [--json results/simulation.json] [--quick]

Three parts, each measured in this one run:

shares      the demo's FedAvg: what part of the time goes to local training, the method's ends, evaluation, the rest
the demo    the same FedAvg beside a loop as people write it
ResNet-20   32 x 32 images, two workers with bf16 and compile beside the plain loop: eager float32. The first round,
            which starts the workers and compiles, is shown apart and not counted.

Each is measured by the processor's time, the plain loop in one thread: two threads are at most twice as fast, so the
ratio is one that two cores reach at least. Of several rounds in turn the best counts. By the clock, with the threads
that torch takes by itself, it is measured too where the machine is idle; on a busy one that says nothing.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from machine import machine
from torch import Tensor, nn

from fedcode.data import Dataset
from fedcode.data.augmentation import crop_and_flip
from fedcode.data.dataset import Standardise
from fedcode.events import RoundDone
from fedcode.models import resnet20
from fedcode.simulation import Config, draws, given, job, rounds, run
from fedcode.simulation.workers import Workers

PROMISED = {"everything but training and evaluation, at most": 0.05, "ResNet-20, times as fast, at least": 2.5}
IMAGES, TESTS, CLIENTS = 2560, 128, 4


def plain(
    model: nn.Module, data: Dataset, parts: list[Any], rounds: int, epochs: int, *, evaluate: bool
) -> Iterator[float]:
    """FedAvg as people write it: seconds of each round."""
    loss_of = nn.CrossEntropyLoss()
    generator = torch.Generator().manual_seed(0)
    for _ in range(rounds):
        began = time.perf_counter()
        total: dict[str, Tensor] = {}
        for part in parts:
            local = copy.deepcopy(model)
            local.train()
            optimizer = torch.optim.Adam(local.parameters(), lr=1e-3)
            indices = torch.as_tensor(part)
            for _ in range(epochs):
                for chosen in torch.split(indices[torch.randperm(len(indices))], 128):
                    inputs, labels = data.train(chosen, generator)
                    optimizer.zero_grad()
                    loss_of(local(inputs), labels).backward()
                    optimizer.step()
            for name, value in local.state_dict().items():
                weighted = value.float() * (len(part) / data.examples)
                total[name] = total[name] + weighted if name in total else weighted
        model.load_state_dict({name: value.to(model.state_dict()[name].dtype) for name, value in total.items()})
        if evaluate:
            model.eval()
            with torch.no_grad():
                inputs, labels = data.test()
                (model(inputs).argmax(1) == labels).float().mean().item()
        yield time.perf_counter() - began


def simulated(config: Config, **options: Any) -> Iterator[dict[str, float]]:
    """Seconds of each round, by their part."""
    for event in run(config, **options):
        if isinstance(event, RoundDone):
            yield dict(event.record["seconds"])


def shares(length: int) -> dict[str, Any]:
    """What part of a demo's FedAvg goes where, by the clock and by the processor's time."""
    found: dict[str, Any] = {}
    for title in ("by the clock", "by the processor's time"):
        clock = time.perf_counter if title == "by the clock" else time.process_time
        for module in (job, rounds):
            vars(module)["time"] = types.SimpleNamespace(perf_counter=clock)
        done = list(simulated(Config(method="fedavg", rounds=length, workers=1)))
        for of, some in (("the whole run", done), ("without its first round", done[1:])):
            parts = {part: sum(line[part] for line in some) for part in some[0]}
            total = sum(parts.values())
            found[f"{title}, {of}"] = {part: round(seconds / total, 4) for part, seconds in parts.items()}
    for module in (job, rounds):
        vars(module)["time"] = time
    return found


def demo(length: int, tries: int, idle: bool) -> dict[str, dict[str, float]]:
    """Seconds a round of the demo's FedAvg, the best of several tries in turn, by the clock and of the processor."""
    config = Config(method="fedavg", rounds=length, workers=1)
    found = given(config)
    parts = draws.parts(config, found.dataset)
    threads = torch.get_num_threads()

    def loop(count: int) -> Iterator[Any]:
        torch.set_num_threads(count)
        yield from plain(found.make(), found.dataset, list(parts), length, config.epochs, evaluate=True)
        torch.set_num_threads(threads)

    peers: dict[str, Callable[[], Iterator[Any]]] = {
        "simulator": lambda: simulated(config),
        "plain loop, one thread": lambda: loop(1),
    }
    if idle:
        peers[f"plain loop, {threads} threads"] = lambda: loop(threads)
    best: dict[str, list[tuple[float, float]]] = {name: [] for name in peers}
    for _ in range(tries):
        for name, peer in peers.items():
            best[name] += list(timed(peer()))[1:]  # the first round pays for what is done once
    return {
        name: {
            "clock": round(min(clock for clock, _ in pairs), 4),
            "processor": round(min(processor for _, processor in pairs), 4),
        }
        for name, pairs in best.items()
    }


def timed(work: Iterator[Any]) -> Iterator[tuple[float, float]]:
    """Seconds of each step, by the clock and of the processor."""
    while True:
        before = time.perf_counter(), time.process_time()
        if next(work, None) is None:
            return
        yield time.perf_counter() - before[0], time.process_time() - before[1]


def images() -> Dataset:
    """Images of noise, as CIFAR's are kept and prepared."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(256, (IMAGES + TESTS, 3, 32, 32), generator=generator, dtype=torch.uint8)
    labels = torch.arange(IMAGES + TESTS) % 10
    prepare = Standardise((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    train, test = slice(0, IMAGES), slice(IMAGES, None)
    return Dataset("noise", inputs[train], labels[train], inputs[test], labels[test], 10, crop_and_flip, prepare)


def network() -> nn.Module:
    return resnet20(10)


def resnet(length: int, idle: bool) -> dict[str, Any]:
    """How fast images are trained on."""
    data = images()
    config = Config(
        method="fedavg",
        dataset="own",
        network="own",
        clients=CLIENTS,
        partition="equal",
        rounds=1 + length,
        epochs=1,
        evaluate_every=1 + length,
        workers=2,
        precision="bf16",
        compile=True,
    )
    parts = list(draws.parts(config, data))
    workers = Workers(config, given(config, data, network), 2)
    happening = simulated(config, data=data, model=network, trainer=workers)
    threads = torch.get_num_threads()
    loop = plain(network(), data, parts, 1 + length, 1, evaluate=False)
    clock: dict[str, list[float]] = {"simulator": [], "plain loop": []}
    processor: dict[str, list[float]] = {"simulator": [], "plain loop": []}
    for _ in range(1 + length):  # in turn: the workers wait while the plain loop is at work
        before = time.process_time() + used_by(workers)
        clock["simulator"].append(sum(next(happening).values()))
        processor["simulator"].append(time.process_time() + used_by(workers) - before)
        torch.set_num_threads(1)
        before = time.process_time()
        next(loop)
        processor["plain loop"].append(time.process_time() - before)
        torch.set_num_threads(threads)
        if idle:
            began = time.perf_counter()
            list(plain(network(), data, parts, 1, 1, evaluate=False))
            clock["plain loop"].append(time.perf_counter() - began)
    list(happening)
    found: dict[str, Any] = {"seconds of the first round": round(clock["simulator"][0], 1)}
    for title, seconds in (("by the processor's time", processor), ("by the clock", clock)):
        counted = {name: min(some[1:]) for name, some in seconds.items() if some}  # the last also evaluates
        rates = {f"{name}, images a second": round(IMAGES / best) for name, best in counted.items()}
        if len(counted) == 2:
            rates["times as fast"] = round(counted["plain loop"] / counted["simulator"], 2)  # type: ignore[assignment]
        found[title] = rates
    return found


def used_by(workers: Workers) -> float:
    """Seconds that the workers' processes took of the processor so far."""
    ticks = 0
    for worker in workers.started:
        fields = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="store what was measured in this file")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    idle = load < 1
    amx = "amx_bf16" in Path("/proc/cpuinfo").read_text()  # what makes bf16 fast
    result: dict[str, Any] = {"machine": machine(), "amx": amx, "load": load, "quick": options.quick}
    result["shares"] = shares(6 if options.quick else 30)
    for title, parts in result["shares"].items():
        print(f"{title}: " + ", ".join(f"{part} {100 * share:.2f} %" for part, share in parts.items()), flush=True)
    result["seconds a round of the demo"] = demo(4 if options.quick else 10, 1 if options.quick else 3, idle)
    print("the demo's FedAvg, seconds a round:", result["seconds a round of the demo"], flush=True)
    result["ResNet-20"] = resnet(2 if options.quick else 5, idle)
    print("ResNet-20:", result["ResNet-20"])
    usual = result["shares"]["by the processor's time, the whole run"]
    reached = (
        round(usual["method"] + usual["other"], 4),
        result["ResNet-20"]["by the processor's time"]["times as fast"],
    )
    result["promised"] = {
        name: {"bound": bound, "found": found} for (name, bound), found in zip(PROMISED.items(), reached, strict=True)
    }
    for name, promise in result["promised"].items():
        print(f"{name} {promise['bound']}: {promise['found']}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
