"""A round on Flower: methods of fedcode beside Flower's own FedAvg and beside the project's simulator.

    python benchmarks/flower.py [--json results/flower.json] [--rounds 6] [--sizes 1000000 11000000] [--link-size N]
        [--large N]

Clients add noise to their weights and train no further, so that nothing hides what a round costs beside training.

Simulation: ten nodes on Flower's simulation, two at a time; all that is compared runs by turns in the same run, and a
round's time is the mean of rounds 2 to the last, the least of the turns. Once more with clients that train a little:
STEPS steps of SGD, batches of 32, on one matrix, in one thread. Link: a deployment over TLS with two
nodes, each behind a proxy of its own that lets through 20 Mbit/s down and 5 up; the median of rounds 2 to the last.
Large: a model of so many weights through a deployment with a database, and the memory that its processes took.

Whatever is left out keeps what an earlier run wrote to the file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("RAY_worker_niceness", "0")  # else whatever else runs here goes before the clients

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from machine import machine

from fedcode.events import RoundDone
from fedcode.flower import FedCode, codebook_mod
from fedcode.simulation import run
from fedcode.simulation.config import Config
from fedcode.simulation.job import Job, Result, answered, received
from fedcode.state import State

sys.path.append(str(Path(__file__).parents[1]))

NODES = 10
TURNS = 2
STEPS = 40  # the paper's clients make 160, with batches of 128
TRAINED_ROUNDS = 3
STEP = 0.1
METHODS = ("fedavg", "fedcode", "delta")
STOCK = "stock FedAvg"
DOWN, UP = 20e6, 5e6  # bits a second


def noise(values: np.ndarray[Any, Any], number: int) -> np.ndarray[Any, Any]:
    """What stands for training: a step of a tenth of the weights' size."""
    rng = np.random.default_rng(number)
    moved: np.ndarray[Any, Any] = values + np.float32(STEP) * rng.standard_normal(values.shape, np.float32)
    return moved


def client_app(memory: str, steps: int = 0) -> ClientApp:
    """A client for all of them: the mod lets messages pass that are not fedcode's. steps: of training, beside noise."""
    app = ClientApp(mods=[codebook_mod(directory=memory)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        import numpy as np

        arrays = message.content.array_records["arrays"]
        rng = np.random.default_rng(int(context.node_config["partition-id"]))
        trained = {}
        for name, array in arrays.items():
            value = array.numpy()
            if steps:
                import torch

                torch.set_num_threads(1)
                weights = torch.nn.Parameter(torch.from_numpy(value.copy()))
                optimizer = torch.optim.SGD([weights], 1e-6)
                for _ in range(steps):
                    optimizer.zero_grad()
                    torch.nn.functional.linear(torch.ones(32, value.shape[1]), weights).square().mean().backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                value = weights.detach().numpy()
            trained[name] = Array(value + np.float32(STEP) * rng.standard_normal(value.shape, np.float32))
        content = RecordDict({"arrays": ArrayRecord(trained), "metrics": MetricRecord({"num-examples": 10})})
        return Message(content, reply_to=message)

    return app


def first(size: int) -> np.ndarray[Any, Any]:
    """The weights before the first round."""
    return np.random.default_rng(0).standard_normal((size // 1000, 1000), np.float32)


def in_flower(sizes: Sequence[int], rounds: int, turns: int, steps: int) -> dict[int, dict[str, float]]:
    """Seconds a round, by size and strategy, on Flower's simulation."""
    found: dict[int, dict[str, float]] = {}
    app = ServerApp()

    @app.main()
    def main(grid: Grid, _: Context) -> None:
        for size in sizes:
            taken: dict[str, list[float]] = {}
            for _turn in range(turns):
                for name in (STOCK, *METHODS):
                    least: dict[str, Any] = {"min_train_nodes": NODES, "min_available_nodes": NODES}
                    strategy = FedAvg(1.0, 0.0, **least) if name == STOCK else FedCode(method=name, **least)
                    ends: list[float] = []
                    strategy.start(
                        grid,
                        ArrayRecord({"weights": Array(first(size))}),
                        num_rounds=rounds,
                        evaluate_fn=lambda *_, ends=ends: ends.append(time.perf_counter()),
                    )
                    taken.setdefault(name, []).append((ends[-1] - ends[1]) / (rounds - 1))
                    print(
                        f"{size / 1e6:g} M, {steps} steps, {name}: {taken[name][-1]:.2f} s a round",
                        file=sys.stderr,
                        flush=True,
                    )
            found[size] = {name: min(times) for name, times in taken.items()}

    with TemporaryDirectory() as folder:
        run_simulation(
            app,
            client_app(folder, steps),
            num_supernodes=NODES,
            backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 2}},
        )
    return found


class Noise:
    """The simulator's trainer with noise in the place of training."""

    abreast = 1

    def train(self, jobs: Iterable[Job]) -> Iterator[Result]:
        """Do every job."""
        for job in jobs:
            task = received(job)
            if isinstance(task, Result):
                yield task
                continue
            trained = {name: noise(value, 0) for name, value in task.start.arrays().items()}
            yield answered(job, task, trained, 0.0, 0.0, 0.0)

    def evaluate(self, model: State, pieces: Sequence[tuple[int, int]]) -> list[Any]:  # noqa: ARG002
        """Nothing is evaluated."""
        return []

    def close(self) -> None:
        """Nothing is held."""


def in_the_simulator(size: int, rounds: int, method: str) -> float:
    """Seconds a round in the project's own simulator, in one process."""
    import torch

    class Weights(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(torch.from_numpy(first(size)))

    config = Config(
        method=method, dataset="own", clients=NODES, rounds=rounds, partition="equal", minimum=1, evaluate_every=rounds
    )
    data = np.zeros((100, 1), np.float32), np.arange(100) % 2
    events = run(config, data=data, model=Weights(), trainer=Noise())
    ends = [time.perf_counter() for event in events if isinstance(event, RoundDone)]
    return (ends[-2] - ends[0]) / (rounds - 2)  # the last is evaluated


def over_a_slow_link(size: int, rounds: int) -> dict[str, Any]:
    """Seconds a round and megabytes over the wire, on a deployment behind slow links."""
    from tests.flower.deployment import Deployment
    from tests.flower.proxy import Proxy

    nodes = 2
    found: dict[str, Any] = {}
    for method in ("stock", "delta"):
        with (
            TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            Deployment(Path(folder) / "here", nodes=nodes) as deployment,
            Proxy(deployment.port, DOWN, UP) as one,
            Proxy(deployment.port, DOWN, UP) as two,
        ):
            for node, proxy in enumerate((one, two)):
                deployment.register(node)
                deployment.node(node, through=proxy.port)
            deployment.run(num_server_rounds=rounds, weights=size, nodes=nodes, method=method)
            ends = []
            for number in range(1, rounds + 1):
                deployment.wait(f"server has finished round {number}", 3600)
                ends.append(time.perf_counter())
                print(f"{method}: round {number} is over, {time.perf_counter():.0f}", file=sys.stderr, flush=True)
            wire = {name: sum(proxy.counted[name] for proxy in (one, two)) for name in ("down", "up")}
            found[method] = {
                "seconds_a_round": statistics.median(np.diff(ends).tolist()),
                "wire_megabytes": {name: count / 2**20 for name, count in wire.items()},
            }
            if method != "stock":
                payload = {name: sum(line["bytes"][name] for line in deployment.history) for name in wire}
                found[method]["payload_megabytes"] = {name: count / 2**20 for name, count in payload.items()}
                found[method]["overhead_bytes_a_client_and_round"] = {
                    name: round((wire[name] - payload[name]) / (rounds * nodes)) for name in wire
                }
    return found


def of_a_large_model(size: int) -> dict[str, Any]:
    """Memory and time of a model that is large, by method."""
    from tests.flower.deployment import Deployment

    found: dict[str, Any] = {}
    for method, rounds in (("fedavg", 1), ("delta", 2)):
        with (
            TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            Deployment(Path(folder) / "here", nodes=2, database=True) as deployment,
            deployment.watched("superlink") as peaks,
        ):
            for node in range(2):
                deployment.register(node)
                deployment.node(node)
            deployment.run(num_server_rounds=rounds, weights=size, nodes=2, method=method)
            clients = [deployment.wait("reply of client", 3600) for _ in range(2 * rounds)]
            server = deployment.wait("server is done", 3600)
            history = deployment.history
            found[method] = {
                "superlink_megabytes": peaks["own"],
                "superlink_megabytes_with_mapped_pages": peaks["mapped"],
                "server_megabytes": int(server.split()[-2]),
                "client_megabytes": max(int(line.split()[-2]) for line in clients),
                "seconds_a_round": [line["seconds"]["training"] for line in history],
                "payload_megabytes": [
                    {way: line["bytes"][way] / 2 / 2**20 for way in ("down", "up")} for line in history
                ],
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000_000, 11_000_000])
    parser.add_argument("--link-size", type=int, default=11_000_000)
    parser.add_argument("--large", type=int, default=100_000_000)
    given = parser.parse_args()
    result: dict[str, Any] = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    result |= {"machine": machine(), "nodes": NODES}
    load = {"load_before": round(os.getloadavg()[0], 1)}
    found = in_flower(given.sizes, given.rounds, given.turns, 0) if given.sizes else {}
    trained = in_flower(given.sizes, TRAINED_ROUNDS, 1, given.steps) if given.sizes and given.steps else {}
    print(f"{'':>6} {'':14} {'on Flower':>10} {'to stock':>9} {'own simulator':>14} {'training':>10} {'to stock':>9}")
    for size, times in found.items():
        own = {method: in_the_simulator(size, given.rounds + 1, method) for method in METHODS}
        result.setdefault("simulation", {})[str(size)] = load | {
            "rounds": given.rounds,
            "turns": given.turns,
            "seconds_a_round": times,
            "ratio_to_stock": {name: taken / times[STOCK] for name, taken in times.items()},
            "own_simulator_seconds_a_round": own,
        }
        if given.steps:
            result["simulation"][str(size)] |= {
                "steps": given.steps,
                "training_seconds_a_round": trained[size],
                "training_ratio_to_stock": {
                    name: taken / trained[size][STOCK] for name, taken in trained[size].items()
                },
            }
        for name, taken in times.items():
            beside = f"{own[name]:12.2f} s" if name in own else ""
            line = f"{size / 1e6:4g} M {name:14} {taken:8.2f} s {taken / times[STOCK]:9.2f} {beside:>14}"
            if given.steps:
                longer = trained[size][name]
                line += f" {longer:8.2f} s {longer / trained[size][STOCK]:9.2f}"
            print(line)
        _write(given.json, result)
    if given.link_size:
        link = over_a_slow_link(given.link_size, 3)
        ratio = link["stock"]["seconds_a_round"] / link["delta"]["seconds_a_round"]
        result["link"] = {"down_bits_a_second": DOWN, "up_bits_a_second": UP, "nodes": 2, "weights": given.link_size}
        result["link"] |= load | link | {"stock_to_delta": ratio}
        for name in ("stock", "delta"):
            print(f"20/5 Mbit/s, {given.link_size / 1e6:g} M, {name:6}: {link[name]['seconds_a_round']:.1f} s a round")
        print(f"delta is {ratio:.1f} times faster")
        _write(given.json, result)
    if given.large:
        result["large"] = load | {"weights": given.large, "nodes": 2} | of_a_large_model(given.large)
        print(json.dumps(result["large"], indent=2))
        _write(given.json, result)


def _write(path: Path | None, result: dict[str, Any]) -> None:
    if path:
        path.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
