"""The client: an app as Flower's documentation writes one, with a mod of fedcode."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedcode.flower import codebook_mod
from quickstart.task import Net, load_data
from quickstart.task import train as train_fn

app = ClientApp(mods=[codebook_mod])


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the model that came on this node's data, and send it back."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    loader = load_data(
        context.node_config["partition-id"], context.node_config["num-partitions"], context.run_config["batch-size"]
    )
    loss = train_fn(model, loader, context.run_config["local-epochs"], msg.content["config"]["lr"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(loader.dataset)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=msg)
