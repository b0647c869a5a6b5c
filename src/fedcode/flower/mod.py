"""The client's end in a Flower app: a mod between the network and the user's function.

    app = ClientApp(mods=[codebook_mod])

What comes in is a message of fedcode; the user's `@app.train()` sees an ordinary ArrayRecord of weights, and what it
answers goes out as a reply. Records that are not ours pass through untouched, and so do messages of a strategy that
does not speak fedcode.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, overload

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from fedcode import wire
from fedcode.client import Task, memory_of, receive, reply
from fedcode.errors import ArgumentError, CannotUse
from fedcode.flower.blob import arrays_of, find, record_of, record_of_arrays
from fedcode.flower.memories import MAX_BYTES, Memories, default_directory
from fedcode.wire import MessageKind

HELLO = "fedcode.hello"  # the record in which a node says who it is
KEYS = "fedcode.keys"  # the record in which the server says what its records are called
EXAMPLES = "num-examples"  # Flower's own name for how many examples a reply was trained on
HONOURS = frozenset({"proximal"})  # what a user's training can be asked; a mask is applied again by `reply`


def client_name(context: Context) -> str:
    """client-<partition-id>, or node-<node id> where the node has no partition.

    >>> client_name(Context(run_id=1, node_id=77, node_config={"partition-id": 3}, state=RecordDict(), run_config={}))
    'client-3'
    """
    partition = context.node_config.get("partition-id")
    return f"node-{context.node_id}" if partition is None else f"client-{partition}"


@dataclass(frozen=True, eq=False)
class CodebookMod:
    """The mod, and with named arguments another one with these settings.

    honours: what the user's training does when it is asked for: "proximal", the pull of FedProx, whose weight stands
    in Flower's own `config["proximal-mu"]`. start: the weights that this app ships, where the server says
    `known=True`. directory: where memories are kept (see memories.py). max_bytes: how much they may take together.

    >>> sorted(codebook_mod(honours={"proximal"}).honours)
    ['proximal']
    """

    honours: frozenset[str] = frozenset()
    start: Any = field(default=None, repr=False)
    directory: Path | None = None
    max_bytes: int = MAX_BYTES

    @overload
    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable, /) -> Message: ...

    @overload
    def __call__(
        self,
        *,
        honours: Collection[str] = ...,
        start: Any = ...,
        directory: str | PathLike[str] | None = ...,
        max_bytes: int = ...,
    ) -> CodebookMod: ...

    def __call__(self, *args: Any, **settings: Any) -> Message | CodebookMod:
        if args:
            return self._handle(*args, **settings)
        return _with(self, **settings)

    def _handle(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        found = find(message.content)
        if found is None:
            return call_next(message, context)
        key, data = found
        kind, federation = wire.peek(data)
        client = client_name(context)
        if kind == MessageKind.HELLO:
            about = ConfigRecord({"client": client, "honours": sorted(self.honours)})
            return Message(RecordDict({HELLO: about}), reply_to=message)
        memories = Memories(self.directory or default_directory(), self.max_bytes)
        memory = memories.read(federation, client) or self._first
        try:
            task = receive(data, memory)
        except CannotUse as error:
            return Message(RecordDict({key: record_of(error.reply)}), reply_to=message)
        examples_key = self._open(message, key, task)
        answer = call_next(message, context)
        if task.evaluate or not answer.has_content():
            return answer
        out, trained = _trained(answer)
        sent, memory = reply(task, arrays_of(trained), examples=_examples(answer, examples_key), client=client)
        memories.write(federation, client, memory)
        answer.content[out] = record_of(sent)
        return answer

    @cached_property
    def _first(self) -> bytes | None:
        return None if self.start is None else memory_of(self.start)

    def _open(self, message: Message, key: str, task: Task) -> str:
        """Put the weights where the message was; the name under which the answer says its examples."""
        content = message.content
        keys = content.config_records.get(KEYS)
        records = {name: record for name, record in content.items() if name != KEYS}
        records[key] = record_of_arrays(task.start.arrays())
        mu = task.asks.get("proximal")
        if mu is not None and not task.evaluate:
            if "proximal" not in self.honours:
                raise ArgumentError(
                    f"{task.method} asks of training a pull towards its start (proximal-mu={mu}), and this app does "
                    f"not say that it honours it. Where it does: mods=[codebook_mod(honours={{'proximal'}})]."
                )
            for config in content.config_records.values():
                config["proximal-mu"] = float(mu)
        message.content = RecordDict(records)
        return EXAMPLES if keys is None else str(keys["examples"])


def _with(
    mod: CodebookMod,
    *,
    honours: Collection[str] | None = None,
    start: Any = None,
    directory: str | PathLike[str] | None = None,
    max_bytes: int | None = None,
) -> CodebookMod:
    if isinstance(honours, str) or not HONOURS.issuperset(honours or ()):
        raise ArgumentError(f"honours= takes a set out of {sorted(HONOURS)}: got {honours!r}.")
    if isinstance(start, ArrayRecord):
        start = arrays_of(start)
    elif hasattr(start, "state_dict"):
        start = start.state_dict()  # by names alone, as the server reads its initial arrays
    return CodebookMod(
        mod.honours if honours is None else frozenset(honours),
        mod.start if start is None else start,
        mod.directory if directory is None else Path(directory).expanduser(),
        mod.max_bytes if max_bytes is None else max_bytes,
    )


def _trained(answer: Message) -> tuple[str, ArrayRecord]:
    """The one record of weights in an answer, and its key."""
    records = answer.content.array_records
    if len(records) != 1:
        raise ArgumentError(f"an answer to training holds one ArrayRecord with the weights: got {len(records)}.")
    return next(iter(records.items()))


def _examples(answer: Message, key: str) -> int:
    for record in answer.content.metric_records.values():
        value = record.get(key)
        if isinstance(value, int | float) and value == int(value):
            return int(value)
        if value is not None:
            raise ArgumentError(f"{key!r} is how many examples were trained on, a whole number: got {value!r}.")
    raise ArgumentError(f"an answer to training says in a MetricRecord how many examples it had: {key!r} is missing.")


codebook_mod = CodebookMod()
