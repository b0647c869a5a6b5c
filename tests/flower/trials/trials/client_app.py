"""The client: it moves its weights by noise of its own, and fails when it is told to."""

from __future__ import annotations

import resource

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from fedcode.flower import codebook_mod
from fedcode.flower.blob import record_of
from trials.faults import FAULTS
from trials.signals import hold, say, told


def meddle(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Send something else in the place of a reply."""
    config = message.content.config_records.get("config")
    reply = call_next(message, context)
    if config is not None and reply.has_content():
        fault = FAULTS.get(told(*_who(context), int(config["server-round"])))  # type: ignore[arg-type]
        if fault is not None:
            reply.content["arrays"] = record_of(fault(reply))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        say(str(context.run_config["signals"]), f"reply of {_who(context)[1]}, {peak} MB")
    return reply


app = ClientApp(mods=[meddle, codebook_mod])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Move every weight a little."""
    number = int(message.content.config_records["config"]["server-round"])  # type: ignore[arg-type]
    signals, name = _who(context)
    say(signals, f"{name} trains in round {number}")
    order = told(signals, name, number)
    if order == "hold":
        hold(signals)
    if order == "fail":
        raise RuntimeError("no more memory")
    rng = np.random.default_rng([number, int(context.node_config["partition-id"])])
    arrays = message.content["arrays"]
    assert isinstance(arrays, ArrayRecord)
    moved = {}
    for key, array in arrays.items():
        value = array.numpy().copy()
        value += np.float32(0.1) * rng.standard_normal(value.shape, np.float32)
        moved[key] = Array(value)
    content = RecordDict({"arrays": ArrayRecord(moved), "metrics": MetricRecord({"num-examples": 10})})
    return Message(content, reply_to=message)


def _who(context: Context) -> tuple[str, str]:
    return str(context.run_config["signals"]), f"client-{context.node_config['partition-id']}"
