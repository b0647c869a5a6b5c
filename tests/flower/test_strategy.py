"""The strategy with nodes in this process: what a federation sees, minus the network."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from trials.faults import FAULTS

import fedcode
from fedcode import rundir, wire
from fedcode.errors import ArgumentError
from fedcode.flower import FedCode, codebook_mod
from fedcode.flower.blob import arrays_of, find, record_of
from fedcode.flower.mod import client_name
from fedcode.methods import names
from fedcode.wire import MessageKind
from tests.flower.network import Network, app, record, weights

NODES = (700, 4, 31)  # ids are random in Flower: their order says nothing


def network(folder: Path, nodes: tuple[int, ...] = NODES, **options: Any) -> Network:
    return Network({node: app(folder, **options) for node in nodes})


def kinds(net: Network) -> list[tuple[int, str]]:
    """What each message to a node was."""
    found = []
    for node, message in net.asked:
        blob = find(message.content)
        found.append((node, "" if blob is None else wire.peek(blob[1])[0].name))
    return found


def by_hand(method: str, rounds: int, clients: int = 3, **settings: Any) -> dict[str, np.ndarray[Any, Any]]:
    """The same federation with the two ends alone, without Flower."""
    server = fedcode.method(method, **settings).server(weights())
    memories: dict[str, bytes] = {}
    for _ in range(rounds):
        for index in range(clients):
            name = f"client-{index}"
            task = fedcode.receive(server.message_for(name), memories.get(name))
            moved = {
                key: np.asarray(
                    value + np.asarray(0.01 * (1 + index), value.dtype) if value.dtype.kind == "f" else value + 1
                )
                for key, value in task.start.arrays().items()
            }
            data, memories[name] = fedcode.reply(task, moved, examples=10 * (1 + index), client=name)
            server.accept(name, data)
        server.finish_round()
    state: dict[str, np.ndarray[Any, Any]] = server.state
    return state


def same(record: ArrayRecord, state: dict[str, np.ndarray[Any, Any]]) -> None:
    got = arrays_of(record)
    assert list(got) == list(state)
    for name, value in state.items():
        assert got[name].dtype == value.dtype, name
        np.testing.assert_array_equal(got[name], value, err_msg=name)


@pytest.mark.parametrize("method", ["fedavg", "fedavg_ws", "fedcode", "delta"])
def test_the_model_is_that_of_the_two_ends_alone(method: str, tmp_path: Path) -> None:
    result = FedCode(method=method).start(network(tmp_path), record(), num_rounds=4)
    same(result.arrays, by_hand(method, 4))


@pytest.mark.parametrize("method", names())
def test_every_method_runs_with_every_reply_counted(method: str, tmp_path: Path) -> None:
    mod = codebook_mod(honours={"proximal"})
    strategy = FedCode(method=method)
    strategy.start(network(tmp_path, mod=mod), record(), num_rounds=3)
    assert [(line["replies"], line["refused"]) for line in strategy.record.history] == [(3, {})] * 3


def test_fedavg_is_close_to_flowers_own(tmp_path: Path) -> None:
    ours = FedCode(method="fedavg").start(network(tmp_path), record(), num_rounds=2)
    theirs = FedAvg(fraction_evaluate=0.0).start(network(tmp_path, mod=None), record(), num_rounds=2)
    assert arrays_of(theirs.arrays)["norm.num_batches_tracked"].dtype == np.float64  # Flower averages counters
    for name, value in arrays_of(theirs.arrays).items():
        if "num_batches" in name:
            continue
        np.testing.assert_allclose(arrays_of(ours.arrays)[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_metrics_and_config_pass_through(tmp_path: Path) -> None:
    seen: list[Message] = []
    strategy = FedCode(method="fedcode")
    config = ConfigRecord({"lr": 0.25})
    result = strategy.start(network(tmp_path, seen=seen), record(), num_rounds=2, train_config=config)
    # (10 x 1 + 20 x 1/2 + 30 x 1/3) / 60
    assert dict(result.train_metrics_clientapp[1]) == {"train_loss": pytest.approx(0.5)}
    assert [(m.content["config"]["lr"], m.content["config"]["server-round"]) for m in seen] == [
        (0.25, number) for number in (1, 1, 1, 2, 2, 2)
    ]
    assert all(set(message.content) == {"arrays", "config"} for message in seen)
    assert strategy.record.history[0]["training_loss"] == pytest.approx(0.5)


def test_what_travels_is_one_blob_shared_by_all_who_stand_alike(tmp_path: Path) -> None:
    net = network(tmp_path)
    FedCode(method="fedcode").start(net, record(), num_rounds=1)
    asked = [message for _, message in net.asked[3:]]
    assert [set(message.content) for message in asked] == [{"arrays", "config"}] * 3
    assert len({message.content["arrays"].object_id for message in asked}) == 1


def test_each_node_is_greeted_once_and_trains_under_its_partitions_name(tmp_path: Path) -> None:
    net = network(tmp_path)
    strategy = FedCode(method="fedcode")
    strategy.start(net, record(), num_rounds=2)
    assert sorted(kinds(net)[:3]) == sorted((node, "HELLO") for node in NODES)
    assert [kind for _, kind in kinds(net)[3:]] == ["BROADCAST"] * 6
    assert [line["clients"] for line in strategy.record.history] == [["client-0", "client-1", "client-2"]] * 2


def test_the_user_s_function_never_sees_hello(tmp_path: Path) -> None:
    seen: list[Message] = []
    FedCode(method="fedcode").start(network(tmp_path, seen=seen), record(), num_rounds=1)
    assert len(seen) == 3


def test_a_node_without_a_partition_goes_by_its_id(tmp_path: Path) -> None:
    net = Network({node: app(tmp_path) for node in NODES}, partitions={})
    strategy = FedCode(method="fedcode")
    strategy.start(net, record(), num_rounds=1)
    assert strategy.record.history[0]["clients"] == ["node-4", "node-31", "node-700"]


def test_names_with_numbers_are_in_order_of_numbers(tmp_path: Path) -> None:
    net = network(tmp_path, tuple(range(50, 38, -1)))
    strategy = FedCode(method="fedavg")
    strategy.start(net, record(), num_rounds=1)
    assert strategy.record.history[0]["clients"] == [f"client-{index}" for index in range(12)]


def test_the_same_clients_are_drawn_as_in_the_simulator(tmp_path: Path) -> None:
    draws = pytest.importorskip("fedcode.simulation.draws")
    from fedcode.simulation.config import Config

    net = network(tmp_path, tuple(range(100, 110)))
    strategy = FedCode(method="fedavg", fraction_train=0.3, seed=5)
    strategy.start(net, record(), num_rounds=4)
    config = Config(clients=10, participation=0.3, seed=5)
    expected = [draws.participants(config, number) for number in (1, 2, 3, 4)]
    assert [line["clients"] for line in strategy.record.history] == expected


def test_the_ledger_counts_what_left(tmp_path: Path) -> None:
    net = network(tmp_path)
    strategy = FedCode(method="fedcode", clusters=16)
    strategy.start(net, record(), num_rounds=3)
    down = sum(len(blob[1]) for _, message in net.asked[3:] if (blob := find(message.content)) is not None)
    assert sum(line["bytes"]["down"] for line in strategy.record.history) == down
    assert [line["messages"] for line in strategy.record.history] == [{"down": 3, "up": 3, "evaluate": 0}] * 3
    assert strategy.record.summary is not None
    assert strategy.record.summary["bytes"]["down"] == down
    assert strategy.record.summary["dtr"]["total"] > 1


def test_what_was_sent_is_said_at_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    strategy = FedCode(method="fedcode")
    with caplog.at_level(logging.INFO, "flwr"):
        strategy.start(network(tmp_path), record(), num_rounds=5)
    assert strategy.record.summary is not None
    assert f"FedAvg's would be {strategy.record.summary['dtr']['total']:.1f} times as much" in caplog.text
    assert not [line for line in caplog.records if line.levelno >= logging.WARNING]


def test_the_files_are_those_of_a_run(tmp_path: Path) -> None:
    scores = iter([0.5, 0.75])
    strategy = FedCode(method="fedcode", directory=tmp_path / "runs")

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord | None:
        return MetricRecord({"accuracy": next(scores), "loss": 1.0}) if number else None

    strategy.start(network(tmp_path), record(), num_rounds=2, evaluate_fn=evaluate)
    run = rundir.read(tmp_path / "runs/fedcode")
    assert run.config["settings"]["clusters"] == 64
    assert run.config["versions"]["flwr"] == "1.41.0"
    assert [line["accuracy"] for line in run.history] == [0.5, 0.75]
    assert run.summary is not None
    assert run.summary["accuracy"] == {"best": 0.75, "final": 0.75, "best_round": 2}
    assert json.loads(json.dumps(strategy.record.history)) == run.history
    assert run.history[0]["centers"] is not None


# ---- what goes wrong


@pytest.mark.parametrize("method", ["fedavg", "fedcode", "delta"])
@pytest.mark.parametrize("fault", FAULTS.values())
def test_a_bad_reply_is_refused_and_the_round_goes_on(
    fault: Callable[[Message], bytes], method: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net = network(tmp_path)
    honest = Network({node: app(tmp_path / "honest") for node in NODES[1:]}, {4: 1, 31: 2})

    def meddle(node: int, reply: Message) -> Message:
        if node == 700 and find(reply.content) is not None:
            reply.content = RecordDict(
                {"arrays": record_of(fault(reply)), "metrics": MetricRecord({"num-examples": 1})}
            )
        return reply

    net.fault = meddle
    strategy = FedCode(method=method)
    with caplog.at_level(logging.WARNING, "flwr"):
        result = strategy.start(net, record(), num_rounds=2)
    expected = FedCode(method=method).start(honest, record(), num_rounds=2)
    same(result.arrays, arrays_of(expected.arrays))
    assert [sum(line["refused"].values()) for line in strategy.record.history] == [1, 1]
    assert [line["replies"] for line in strategy.record.history] == [2, 2]
    assert "refused" in caplog.text


def test_a_node_that_fails_or_is_silent_does_not_stop_the_others(tmp_path: Path) -> None:
    net = network(tmp_path)
    broken = ClientApp(mods=[codebook_mod(directory=tmp_path)])

    @broken.train()
    def train(message: Message, context: object) -> Message:
        raise RuntimeError("no more memory")

    net.apps[700] = broken
    net.fault = lambda node, reply: None if node == 4 and find(reply.content) is not None else reply
    strategy = FedCode(method="fedcode")
    strategy.start(net, record(), num_rounds=1, timeout=0)
    line = strategy.record.history[0]
    assert (line["replies"], line["refused"]) == (1, {"NodeFailed": 1, "NoReply": 1})


def test_a_node_that_is_gone_is_named_though_the_superlink_answers_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net = network(tmp_path)

    def gone(node: int, reply: Message) -> Message:
        if node == 4 and find(reply.content) is not None:
            reply = Message(Error(3, "Node Unavailable"), reply_to=reply)
            reply.metadata.__dict__["_src_node_id"] = 1  # the SuperLink's own
            reply.metadata.__dict__["_reply_to_message_id"] = f"message-{net.pushed}"
        return reply

    net.fault = gone
    strategy = FedCode(method="fedcode", fraction_evaluate=1.0)
    with caplog.at_level(logging.WARNING, "flwr"):
        strategy.start(net, record(), num_rounds=1)
    assert strategy.record.history[0]["refused"] == {"NodeFailed": 1}
    assert "client-1 failed: Node Unavailable" in caplog.text


def test_replies_that_come_in_another_order_give_the_same_model(tmp_path: Path) -> None:
    class Backwards(Network):
        def pull_messages(self, message_ids: Any) -> list[Message]:
            return list(super().pull_messages(sorted(message_ids, reverse=True)))

    net = Backwards({node: app(tmp_path) for node in NODES})
    result = FedCode(method="fedcode").start(net, record(), num_rounds=3)
    same(result.arrays, by_hand("fedcode", 3))


def test_rounds_without_a_valid_reply_are_said_loudly_and_end_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net = network(tmp_path)

    def lose(node: int, reply: Message) -> Message | None:
        return None if find(reply.content) is not None else reply

    net.fault = lose
    strategy = FedCode(method="fedcode", stop_after=2, directory=tmp_path / "runs")
    with caplog.at_level(logging.ERROR, "flwr"):
        result = strategy.start(net, record(), num_rounds=9, timeout=0)
    same(result.arrays, weights())
    assert "ROUND 1 HAD NO VALID REPLY" in caplog.text
    assert "Stopped after 2 rounds" in caplog.text
    assert len(strategy.record.history) == 2
    assert rundir.read(tmp_path / "runs/fedcode").summary is None  # it can be gone on with


def test_one_good_round_begins_the_count_of_empty_ones_anew(tmp_path: Path) -> None:
    net = network(tmp_path)

    def every_third_comes(node: int, reply: Message) -> Message | None:
        if find(reply.content) is None:
            return reply
        found = wire.Message.from_bytes(find(reply.content)[1])  # type: ignore[index]
        return reply if found.round % 3 == 0 else None

    net.fault = every_third_comes
    strategy = FedCode(method="fedcode", stop_after=3)
    strategy.start(net, record(), num_rounds=7, timeout=0)
    assert [line["replies"] for line in strategy.record.history] == [0, 0, 3, 0, 0, 3, 0]


@pytest.mark.parametrize("damage", ["deleted", "damaged"])
@pytest.mark.parametrize("method", ["fedcode", "delta"])
def test_a_client_that_lost_its_memory_is_repaired_by_the_next_message(
    method: str, damage: str, tmp_path: Path
) -> None:
    net = network(tmp_path)
    strategy = FedCode(method=method)
    lost: list[Path] = []

    def lose(number: int, arrays: ArrayRecord) -> None:
        if number == 3:
            (path,) = tmp_path.glob("*/client-1")
            lost.append(path)
            path.unlink() if damage == "deleted" else path.write_bytes(b"\x93FC" + bytes(99))

    strategy.start(net, record(), num_rounds=6, evaluate_fn=lose)
    assert lost
    history = strategy.record.history
    assert [line["replies"] for line in history] == [3, 3, 3, 2, 3, 3]
    # the whole model goes to it alone, and once
    down = [line["per_client"]["client-1"]["down"] for line in history]
    others = [line["per_client"]["client-0"]["down"] for line in history]
    assert down[4] > others[4]
    assert down[5] == others[5]


def test_metrics_that_do_not_fit_together_do_not_end_the_run(tmp_path: Path) -> None:
    def refuse(records: list[RecordDict], key: str) -> MetricRecord:
        raise KeyError("train_loss")

    result = FedCode(method="fedcode", train_metrics_aggr_fn=refuse).start(network(tmp_path), record(), num_rounds=1)
    assert not result.train_metrics_clientapp
    assert result.arrays


# ---- who may take part


def test_a_node_that_does_not_speak_fedcode_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    net = network(tmp_path)
    net.apps[4] = app(tmp_path, mod=None)
    strategy = FedCode(method="fedcode")
    with caplog.at_level(logging.WARNING, "flwr"):
        strategy.start(net, record(), num_rounds=1)
    assert strategy.record.history[0]["clients"] == ["client-0", "client-2"]
    assert "node 4 cannot take part" in caplog.text


def test_where_no_others_are_left_the_error_says_what_they_lack(tmp_path: Path) -> None:
    net = network(tmp_path, mod=None)
    with pytest.raises(ArgumentError, match=r"node 4: it does not speak fedcode .*mods=\[codebook_mod\]"):
        FedCode(method="fedcode").start(net, record(), num_rounds=1)


def test_two_nodes_that_say_they_are_one_client(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    net = Network({node: app(tmp_path) for node in NODES}, {700: 0, 4: 1, 31: 1})
    strategy = FedCode(method="fedcode")
    with caplog.at_level(logging.WARNING, "flwr"):
        strategy.start(net, record(), num_rounds=1)
    assert strategy.record.history[0]["clients"] == ["client-0", "client-1"]
    assert "both say that they are client-1" in caplog.text


def test_a_node_that_comes_later_is_greeted_and_sent_the_whole(tmp_path: Path) -> None:
    net = network(tmp_path)
    late = net.apps.pop(31)
    strategy = FedCode(method="fedcode")

    def join(number: int, arrays: ArrayRecord) -> None:
        if number == 3:
            net.apps[31] = late

    strategy.start(net, record(), num_rounds=5, evaluate_fn=join)
    clients = [line["clients"] for line in strategy.record.history]
    assert clients == [["client-0", "client-1"]] * 3 + [["client-0", "client-1", "client-2"]] * 2
    assert strategy.record.history[3]["replies"] == 3


def test_waits_until_enough_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = network(tmp_path)
    late = net.apps.pop(31)
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        net.apps[31] = late

    monkeypatch.setattr("fedcode.flower.strategy.time.sleep", pause)
    strategy = FedCode(method="fedcode", min_available_nodes=3)
    strategy.start(net, record(), num_rounds=1)
    assert pauses == [1]
    assert len(strategy.record.history[0]["clients"]) == 3


# ---- evaluation at clients


def test_evaluation_at_clients_is_counted_apart_and_moves_nothing(tmp_path: Path) -> None:
    net = network(tmp_path)
    strategy = FedCode(method="fedcode", fraction_evaluate=1.0)
    result = strategy.start(net, record(), num_rounds=3)
    same(result.arrays, by_hand("fedcode", 3))
    assert dict(result.evaluate_metrics_clientapp[2]) == {"eval_acc": 0.5, "eval_loss": 1.0}
    line = strategy.record.history[2]
    assert line["messages"] == {"down": 3, "up": 3, "evaluate": 3}
    assert line["bytes"]["evaluate"] > line["bytes"]["down"]
    assert line["accuracy"] == 0.5


def test_evaluation_sends_the_global_model(tmp_path: Path) -> None:
    seen: list[Message] = []
    net = network(tmp_path, seen=seen)
    FedCode(method="fedcode", fraction_evaluate=1.0).start(net, record(), num_rounds=1)
    same(seen[-1].content["arrays"], by_hand("fedcode", 1))  # type: ignore[arg-type]


def test_evaluation_at_clients_is_off_unless_asked_for(tmp_path: Path) -> None:
    net = network(tmp_path)
    FedCode(method="fedcode").start(net, record(), num_rounds=1)
    assert MessageKind.EVALUATE.name not in [kind for _, kind in kinds(net)]


# ---- going on


class Killed(Exception):
    """What ends a ServerApp in these tests."""


def killed_after(number: int) -> Callable[[int, ArrayRecord], None]:
    def evaluate(now: int, arrays: ArrayRecord) -> None:
        if now == number:
            raise Killed

    return evaluate


@pytest.mark.parametrize("method", ["fedavg", "fedcode", "delta"])
def test_a_killed_run_goes_on_with_the_rounds_that_are_left(method: str, tmp_path: Path) -> None:
    net = network(tmp_path / "memory")
    first = FedCode(method=method, directory=tmp_path / "runs")
    with pytest.raises(Killed):
        first.start(net, record(), num_rounds=6, evaluate_fn=killed_after(4))
    second = FedCode(method=method, directory=tmp_path / "runs")
    rounds: list[int] = []
    result = second.start(
        network(tmp_path / "memory"), record(shift=9.0), num_rounds=6, evaluate_fn=lambda n, _: rounds.append(n)
    )
    assert rounds == [4, 5, 6]  # the one that was killed is run again
    assert second.record.server.federation == first.record.server.federation
    assert [line["round"] for line in second.record.history] == [1, 2, 3, 4, 5, 6]
    assert [line["replies"] for line in second.record.history] == [3] * 6
    if method != "fedcode":  # its clients have trained in round 4 already, and go on from their own models
        same(result.arrays, by_hand(method, 6))
    assert sorted(result.train_metrics_clientapp) == [4, 5, 6]


def test_a_finished_run_stays_and_the_next_is_a_new_federation(tmp_path: Path) -> None:
    first = FedCode(method="fedcode", directory=tmp_path / "runs")
    first.start(network(tmp_path / "memory"), record(), num_rounds=1)
    second = FedCode(method="fedcode", directory=tmp_path / "runs")
    second.start(network(tmp_path / "memory"), record(), num_rounds=1)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["fedcode", "fedcode-2"]
    assert first.record.server.federation != second.record.server.federation


def test_an_unfinished_run_of_another_model_is_not_gone_on_with(tmp_path: Path) -> None:
    first = FedCode(method="fedcode", directory=tmp_path / "runs")
    with pytest.raises(Killed):
        first.start(network(tmp_path), record(), num_rounds=3, evaluate_fn=killed_after(2))
    other = ArrayRecord([np.zeros((3, 3), np.float32)])
    with pytest.raises(ArgumentError, match="unfinished run of another model"):
        FedCode(method="fedcode", directory=tmp_path / "runs").start(network(tmp_path), other, num_rounds=3)


def test_an_unfinished_run_with_other_settings_is_not_gone_on_with(tmp_path: Path) -> None:
    first = FedCode(method="fedcode", directory=tmp_path / "runs")
    with pytest.raises(Killed):
        first.start(network(tmp_path), record(), num_rounds=3, evaluate_fn=killed_after(2))
    second = FedCode(method="fedcode", clusters=16, directory=tmp_path / "runs")
    with pytest.raises(ArgumentError, match="Go on with the same settings"):
        second.start(network(tmp_path), record(), num_rounds=3)


def test_federation_ids_do_not_come_from_the_seed(tmp_path: Path) -> None:
    strategies = [FedCode(method="fedcode", seed=3) for _ in range(2)]
    for strategy in strategies:
        strategy.start(network(tmp_path), record(), num_rounds=1)
    assert len({strategy.record.server.federation for strategy in strategies}) == 2


# ---- known weights


def test_weights_that_the_app_ships_are_not_sent(tmp_path: Path) -> None:
    mod = codebook_mod(start=weights())
    strategy = FedCode(method="delta", known=True)
    strategy.start(network(tmp_path, mod=mod), record(), num_rounds=2)
    sent = FedCode(method="delta")
    sent.start(network(tmp_path / "sent"), record(), num_rounds=2)
    known, whole = (one.record.history[0]["bytes"]["down"] for one in (strategy, sent))
    assert known < 3 * 100 < whole
    assert [line["replies"] for line in strategy.record.history] == [3, 3]


def test_a_client_that_does_not_hold_them_is_sent_the_whole(tmp_path: Path) -> None:
    strategy = FedCode(method="delta", known=True)
    strategy.start(network(tmp_path), record(), num_rounds=2)
    assert [line["replies"] for line in strategy.record.history] == [0, 3]


# ---- arguments


def test_an_unknown_setting_is_an_error_before_anything_starts() -> None:
    with pytest.raises(ArgumentError, match="Did you mean 'clusters'"):
        FedCode(method="fedcode", cluster=3)


def test_stop_after_is_checked() -> None:
    with pytest.raises(ArgumentError, match="stop_after"):
        FedCode(stop_after=0)


def test_before_start_there_is_no_record() -> None:
    with pytest.raises(ArgumentError, match="start"):
        _ = FedCode().record


def test_other_keys_of_records_and_weights_are_kept(tmp_path: Path) -> None:
    made = ClientApp(mods=[codebook_mod(directory=tmp_path)])

    @made.train()
    def train(message: Message, context: object) -> Message:
        assert set(message.content) == {"model", "settings"}
        content = RecordDict({"out": message.content["model"], "said": MetricRecord({"seen": 7})})
        return Message(content, reply_to=message)

    strategy = FedCode(method="fedcode", arrayrecord_key="model", configrecord_key="settings", weighted_by_key="seen")
    strategy.start(Network({1: made, 2: made}), record(), num_rounds=1)
    assert strategy.record.history[0]["examples"] == 14


def test_names_of_clients() -> None:
    from flwr.app import Context

    context = Context(run_id=1, node_id=9, node_config={}, state=RecordDict(), run_config={})
    assert client_name(context) == "node-9"
