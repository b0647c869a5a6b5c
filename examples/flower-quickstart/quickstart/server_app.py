"""The server: an app as Flower's documentation writes one, with a strategy of fedcode."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from fedcode.flower import FedCode
from quickstart.task import Net, test

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Learn together, and keep the model."""
    config = context.run_config
    torch.manual_seed(0)
    strategy = FedCode(
        method=config["method"],
        directory=config["directory"] or None,
        min_available_nodes=config["min-nodes"],
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        train_config=ConfigRecord({"lr": config["learning-rate"]}),
        num_rounds=config["num-server-rounds"],
        evaluate_fn=evaluate,
    )


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """The global model on the test digits."""
    model = Net()
    model.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = test(model)
    return MetricRecord({"accuracy": accuracy, "loss": loss})
