"""Who is there, and who is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.clientapp import ClientApp

import fedcode
from fedcode.errors import ArgumentError
from fedcode.flower import codebook_mod
from fedcode.flower.exchange import exchange, reason
from fedcode.flower.mod import HELLO
from fedcode.flower.roster import Roster, draw
from tests.flower.network import Network, app, weights

SERVER = fedcode.method("fedcode").server(weights())


def answering(about: dict[str, object]) -> ClientApp:
    """An app that answers hello as it likes."""
    made = ClientApp()

    @made.train()
    def train(message: Message, context: object) -> Message:
        return Message(RecordDict({HELLO: ConfigRecord(about)}), reply_to=message)  # type: ignore[arg-type]

    return made


def test_who_answered_is_not_asked_again(tmp_path: Path) -> None:
    net = Network({4: app(tmp_path), 9: app(tmp_path, mod=None)})
    roster = Roster("arrays")
    for _ in range(3):
        roster.greet(net, SERVER.hello())
    assert [node for node, _ in net.asked] == [4, 9]
    assert roster.connected(net) == {"client-0": 4}


def test_who_did_not_answer_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcode.flower.roster.GREETING_SECONDS", 0.0)
    net = Network({4: app(tmp_path)})
    net.fault = lambda node, reply: None
    roster = Roster("arrays")
    roster.greet(net, SERVER.hello())
    assert roster.connected(net) == {}
    net.fault = lambda node, reply: reply
    roster.greet(net, SERVER.hello())
    assert roster.connected(net) == {"client-0": 4}


def test_hello_is_a_header_alone() -> None:
    assert len(SERVER.hello()) < 100


@pytest.mark.parametrize("about", [{}, {"client": 7}, {"client": "../x"}, {"client": ""}, {"client": "a" * 65}])
def test_a_name_that_is_none_is_not_believed(about: dict[str, object]) -> None:
    net = Network({4: answering(about)})
    roster = Roster("arrays")
    roster.greet(net, SERVER.hello())
    assert roster.connected(net) == {}
    with pytest.raises(ArgumentError, match="node 4"):
        roster.check(net)


def test_a_node_that_does_not_honour_what_is_asked_is_named(tmp_path: Path) -> None:
    net = Network({4: app(tmp_path, codebook_mod(honours={"proximal"})), 9: app(tmp_path)})
    roster = Roster("arrays", frozenset({"proximal"}))
    roster.greet(net, SERVER.hello())
    with pytest.raises(ArgumentError, match=r"1 of the connected nodes.*node 9: client-1 does not honour proximal"):
        roster.check(net, unwilling=True)


def test_a_client_that_came_back_as_another_node_takes_its_place(tmp_path: Path) -> None:
    net = Network({4: app(tmp_path), 9: app(tmp_path)}, {4: 0, 9: 0})
    roster = Roster("arrays")
    roster.greet(net, SERVER.hello())
    assert roster.connected(net) == {"client-0": 4}
    del net.apps[4]
    assert roster.connected(net) == {"client-0": 9}


def test_the_draw_depends_on_seed_and_round_alone() -> None:
    clients = {f"client-{index}": 1000 - index for index in range(20)}
    shuffled = dict(reversed(clients.items()))
    assert draw(clients, 5, 0, 3) == draw(shuffled, 5, 0, 3)
    assert draw(clients, 5, 0, 3) != draw(clients, 5, 0, 4)
    assert draw(clients, 5, 0, 3) != draw(clients, 5, 1, 3)
    assert len(set(draw(clients, 5, 0, 3))) == 5


def test_replies_come_one_by_one_as_they_are_there(tmp_path: Path) -> None:
    net = Network({node: app(tmp_path) for node in range(40)})
    content = RecordDict({"arrays": fedcode.flower.blob.record_of(SERVER.hello())})
    pulled: list[int] = []
    plain = net.pull_messages

    def pull(message_ids: list[str]) -> list[Message]:
        pulled.append(len(message_ids))
        return list(plain(message_ids))

    net.pull_messages = pull  # type: ignore[method-assign, assignment]
    replies = exchange(net, [Message(content, node, "train") for node in range(40)])
    next(replies)
    assert pulled == [16]  # what waits in memory is bounded
    assert len(list(replies)) == 39


def test_nothing_to_send_is_nothing_to_wait_for(tmp_path: Path) -> None:
    assert list(exchange(Network({}), [])) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Traceback\n\x1b[31m╭──╮\x1b[0m\n│ KeyError: 'x' │\n╰──╯\n", "KeyError: 'x'"),
        ("", "error 3"),
        ("Node Unavailable", "Node Unavailable"),
    ],
)
def test_why_a_node_failed_is_one_line(text: str, expected: str) -> None:
    assert reason(Error(3, text)) == expected
