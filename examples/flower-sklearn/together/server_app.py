"""The server."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fedcode.flower import FedCode
from together import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Learn together, and keep the model."""
    config = context.run_config
    strategy = FedCode(
        method=config["method"],
        directory=config["directory"] or None,
        min_available_nodes=config["min-nodes"],
    )
    strategy.start(grid, task.first(), num_rounds=config["num-server-rounds"], evaluate_fn=evaluate)


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """The global model on the test digits."""
    return MetricRecord({"accuracy": task.accuracy(arrays)})
