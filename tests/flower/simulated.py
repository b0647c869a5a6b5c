"""Flower's simulation of the digits, in a process of its own: python -m tests.flower.simulated DIRECTORY METHOD...

The training is that of the project's own simulator, so that the two can be compared bit for bit. Each method leaves
DIRECTORY/METHOD.npz, its model, and DIRECTORY/METHOD, its run's directory.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from fedcode.flower import FedCode, codebook_mod
from fedcode.flower.blob import arrays_of, record_of_arrays
from fedcode.simulation import draws
from fedcode.simulation.config import Config
from fedcode.simulation.given import first_model, given
from fedcode.simulation.job import one_thread
from fedcode.simulation.training import train as train_here

SETTINGS: dict[str, Any] = {"dataset": "digits", "clients": 3, "rounds": 3, "epochs": 1, "seed": 7}
CONFIG = Config(**SETTINGS)


def client_app(folder: Path) -> ClientApp:
    """A client as a user writes one, with the training of the simulator."""
    app = ClientApp(mods=[codebook_mod(directory=folder / "memory", honours={"proximal"})])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        found = given(CONFIG)
        index = int(context.node_config["partition-id"])
        part = draws.parts(CONFIG, found.dataset)[index]
        model = found.make()
        arrays, config = message.content["arrays"], message.content["config"]
        assert isinstance(arrays, ArrayRecord)
        model.load_state_dict(arrays.to_torch_state_dict())
        with one_thread():
            loss = train_here(
                model,
                found.dataset,
                part,
                epochs=CONFIG.epochs,
                batch=CONFIG.batch,
                optimizer=CONFIG.optimizer,
                lr=CONFIG.lr,
                seed=CONFIG.seed,
                round=int(config["server-round"]),  # type: ignore[arg-type]
                client=f"client-{index}",
                proximal=float(config.get("proximal-mu", 0.0)),  # type: ignore[arg-type]
            )
        metrics = MetricRecord({"train_loss": loss, "num-examples": len(part)})
        return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)

    return app


def server_app(folder: Path, methods: list[str]) -> ServerApp:
    """A server that runs one method after the other."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        first = first_model(CONFIG, given(CONFIG))
        for method in methods:
            strategy = FedCode(method=method, seed=CONFIG.seed, directory=folder, min_available_nodes=CONFIG.clients)
            arrays = record_of_arrays({name: value.numpy() for name, value in first.state_dict().items()})
            result = strategy.start(grid, arrays, num_rounds=CONFIG.rounds)
            np.savez(folder / f"{method}.npz", **arrays_of(result.arrays))  # type: ignore[arg-type]

    return app


if __name__ == "__main__":
    place = Path(sys.argv[1])
    run_simulation(
        server_app(place, sys.argv[2:]),
        client_app(place),
        num_supernodes=CONFIG.clients,
        backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 2}},
    )
