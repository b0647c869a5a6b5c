"""Flower's network without a network: nodes that answer in this process, and what can go wrong on the way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedcode.flower import codebook_mod
from fedcode.flower.mod import CodebookMod

Fault = Callable[[int, Message], Message | None]
TRAIN_ROUND = "server-round"


class Network(Grid):
    """Nodes by id, each an app with its own configuration.

    fault: what becomes of a reply on its way; None: it is lost. asked: every message that reached a node.
    """

    pull_interval = 0.0  # nothing here takes time

    def __init__(self, apps: Mapping[int, ClientApp], partitions: Mapping[int, int] | None = None) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.apps = dict(apps)
        self.partitions = dict(enumerate_nodes(apps) if partitions is None else partitions)
        self.fault: Fault = lambda node, reply: reply
        self.asked: list[tuple[int, Message]] = []
        self.replies: dict[str, Message] = {}
        self.pushed = 0

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        raise NotImplementedError

    def create_message(self, *args: Any, **named: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.apps)

    def get_nodes(self) -> Iterable[NodeInfo]:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        numbers = []
        for message in messages:
            self.pushed += 1
            number = f"message-{self.pushed}"
            numbers.append(number)
            arrived = copy.deepcopy(message)
            arrived.metadata.__dict__["_message_id"] = number
            node = message.metadata.dst_node_id
            self.asked.append((node, copy.deepcopy(message)))
            reply = self.fault(node, self._answer(node, arrived))
            if reply is not None:
                self.replies[number] = reply
        return numbers

    def _answer(self, node: int, message: Message) -> Message:
        config = {"partition-id": self.partitions[node]} if node in self.partitions else {}
        context = Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config={})  # type: ignore[arg-type]
        try:
            return self.apps[node](message, context)
        except Exception as error:
            return Message(Error(0, f"Traceback ...\n\x1b[31m{type(error).__name__}: {error}\x1b[0m"), reply_to=message)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self.replies.pop(number) for number in message_ids if number in self.replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(list(self.push_messages(messages)))


def enumerate_nodes(apps: Iterable[int]) -> dict[int, int]:
    """Partitions in the order of nodes."""
    return {node: index for index, node in enumerate(apps)}


def weights(shift: float = 0.0) -> dict[str, np.ndarray[Any, Any]]:
    """A model with everything in it: matrices, a vector, statistics and a counter."""
    rng = np.random.default_rng(0)
    return {
        "layer.weight": rng.normal(size=(40, 30)).astype(np.float32) + np.float32(shift),
        "layer.bias": rng.normal(size=40).astype(np.float32),
        "norm.running_mean": rng.normal(size=40).astype(np.float32),
        "norm.running_var": rng.random(40).astype(np.float32) + np.float32(0.5),
        "norm.num_batches_tracked": np.array(3),
    }


def record(shift: float = 0.0) -> ArrayRecord:
    """The same as Flower carries it."""
    from flwr.app import Array

    return ArrayRecord({name: Array(value) for name, value in weights(shift).items()})


def app(folder: Path, mod: CodebookMod | None = codebook_mod, seen: list[Message] | None = None) -> ClientApp:
    """An app as Flower's documentation writes one: it moves every float by a step of its own partition."""
    made = ClientApp(mods=[] if mod is None else [mod(directory=folder)])

    @made.train()
    def train(message: Message, context: Context) -> Message:
        if seen is not None:
            seen.append(copy.deepcopy(message))
        arrays = message.content["arrays"]
        assert isinstance(arrays, ArrayRecord)
        step = 1 + int(context.node_config.get("partition-id", 0))
        moved = [
            np.asarray(value + np.asarray(0.01 * step, value.dtype) if value.dtype.kind == "f" else value + 1)
            for value in arrays.to_numpy_ndarrays()
        ]
        answer = ArrayRecord(dict(zip(arrays.keys(), ArrayRecord(moved).values(), strict=True)))
        metrics = MetricRecord({"train_loss": 1.0 / step, "num-examples": 10 * step})
        return Message(RecordDict({"arrays": answer, "metrics": metrics}), reply_to=message)

    @made.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        if seen is not None:
            seen.append(copy.deepcopy(message))
        metrics = MetricRecord({"eval_acc": 0.5, "eval_loss": 1.0, "num-examples": 10})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return made
