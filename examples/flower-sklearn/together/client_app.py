"""The client."""

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedcode.flower import codebook_mod
from together import task

app = ClientApp(mods=[codebook_mod])


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the model that came on this node's data, and send it back."""
    node = context.node_config
    arrays, examples = task.train(msg.content["arrays"], node["partition-id"], node["num-partitions"])
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": examples})})
    return Message(content=content, reply_to=msg)
