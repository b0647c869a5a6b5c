"""The server: it says when a round is over, and stands still when it is told to."""

from __future__ import annotations

import os
import resource

import numpy as np
from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fedcode.flower import FedCode
from trials.signals import hold, say, told

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds."""
    config = context.run_config
    nodes, signals = int(config["nodes"]), str(config["signals"])
    rows = int(config["weights"]) // 1000
    first = np.random.default_rng(0).standard_normal((rows, 1000), np.float32)
    say(signals, f"server {os.getpid()} starts")

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        say(signals, f"server has finished round {number}")
        if told(signals, "server", number) == "hold":
            say(signals, f"server holds round {number}")
            hold(signals)
        return MetricRecord({"accuracy": float(np.mean(arrays["weights"].numpy() > 0))})

    if config["method"] == "stock":
        strategy: FedAvg = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    else:
        directory = str(config["directory"]) or None
        strategy = FedCode(method=str(config["method"]), directory=directory, min_available_nodes=nodes)
    rounds = int(config["num-server-rounds"])
    try:
        strategy.start(grid, ArrayRecord({"weights": Array(first)}), num_rounds=rounds, evaluate_fn=evaluate)
    except BaseException as error:
        say(signals, f"failed: {error!r}")
        raise
    say(signals, f"server is done, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")
