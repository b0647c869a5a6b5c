"""Who is there: each node is greeted once, and says by itself which client it is and what its training honours."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from logging import INFO, WARNING

import numpy as np
from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log

from fedcode.errors import ArgumentError
from fedcode.flower.blob import record_of
from fedcode.flower.exchange import exchange, reason
from fedcode.flower.mod import HELLO

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
GREETING_SECONDS = 60.0  # how long a round waits for a node that is connected and does not answer


@dataclass(frozen=True)
class Node:
    """A node that answered: the client that it is and what its training honours."""

    client: str
    honours: frozenset[str]


@dataclass
class Roster:
    """The nodes that answered hello, by node id.

    refused: nodes that cannot take part, and why; they are greeted once. unwilling: those of them that do not honour
    what the method asks of training.
    """

    key: str
    needs: frozenset[str] = frozenset()
    nodes: dict[int, Node] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    unwilling: set[int] = field(default_factory=set)

    def greet(self, grid: Grid, hello: bytes) -> None:
        """Say hello to every connected node that has not answered one yet."""
        strangers = [number for number in grid.get_node_ids() if number not in self.nodes.keys() | self.refused.keys()]
        content = RecordDict({self.key: record_of(hello)})
        messages = [Message(content, number, MessageType.TRAIN) for number in sorted(strangers)]
        for reply in exchange(grid, messages, GREETING_SECONDS):
            number = reply.metadata.src_node_id
            if number in strangers:
                self._hear(number, reply)

    def _hear(self, number: int, reply: Message) -> None:
        node = None if reply.has_error() else _read(reply.content)
        if node is None:
            why = reason(reply.error) if reply.has_error() else "its answer is not that of codebook_mod"
            self.refused[number] = f"it does not speak fedcode ({why}). Its ClientApp needs mods=[codebook_mod]"
        elif self.needs - node.honours:
            self.unwilling.add(number)
            self.refused[number] = (
                f"{node.client} does not honour {', '.join(sorted(self.needs - node.honours))}. "
                f"Where its training does: mods=[codebook_mod(honours={set(self.needs)})]"
            )
        else:
            self.nodes[number] = node
            log(INFO, "node %s is %s", number, node.client)
            return
        log(WARNING, "node %s cannot take part: %s.", number, self.refused[number])

    def connected(self, grid: Grid) -> dict[str, int]:
        """The clients that are there now and their nodes, in the order of names.

        Two nodes may say that they are the same client: one that came back as another node while Flower has not
        noticed yet that the first is gone, or a mistake. The one that came first stays it as long as it is connected.
        """
        here = set(grid.get_node_ids())
        clients: dict[str, int] = {}
        for number, node in self.nodes.items():
            if number in here:
                first = clients.setdefault(node.client, number)
                if first != number:
                    log(WARNING, "nodes %s and %s both say that they are %s.", first, number, node.client)
        return {name: clients[name] for name in in_order(clients)}

    def client(self, number: int) -> str | None:
        """The client that a node is."""
        node = self.nodes.get(number)
        return None if node is None else node.client

    def check(self, grid: Grid, unwilling: bool = False) -> None:
        """ArgumentError where connected nodes cannot take part; `unwilling`: only for what they do not honour."""
        here = set(grid.get_node_ids()) & (self.unwilling if unwilling else self.refused.keys())
        if here:
            listed = "; ".join(f"node {number}: {self.refused[number]}" for number in sorted(here))
            raise ArgumentError(f"{len(here)} of the connected nodes cannot take part. {listed}.")


def _read(content: RecordDict) -> Node | None:
    """What a node answered, or None where that is no answer to hello."""
    about = content.config_records.get(HELLO)
    if about is None:
        return None
    client, honours = about.get("client"), about.get("honours", [])
    if not isinstance(client, str) or not _NAME.fullmatch(client) or not isinstance(honours, list):
        return None
    return Node(client, frozenset(str(name) for name in honours))


def in_order(names: Iterable[str]) -> list[str]:
    """Names in order: by number where they end in one.

    >>> in_order(["client-10", "client-2", "node-1"])
    ['client-2', 'client-10', 'node-1']
    """

    def place(name: str) -> tuple[str, int, str]:
        stem = name.rstrip("0123456789")
        return stem, int(name[len(stem) :] or -1), name

    return sorted(names, key=place)


def draw(clients: Mapping[str, int], count: int, seed: int, number: int) -> Sequence[str]:
    """Which clients take part in a round: those that the simulator draws for this seed, whatever their nodes are.

    >>> draw({"client-0": 7, "client-1": 4}, 2, seed=0, number=1)
    ['client-0', 'client-1']
    """
    names = in_order(clients)
    if count >= len(names):
        return names
    digest = hashlib.blake2b(repr(("participants", seed, number)).encode(), digest_size=8).digest()
    rng = np.random.default_rng(int.from_bytes(digest, "little") >> 1)
    chosen = rng.choice(len(names), count, replace=False)
    return [names[index] for index in sorted(chosen)]
