"""The client's end: two pure functions and a memory of bytes. What holds for every method is the contract's."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

import fedcode
from fedcode.client import Memory, memory_of, receive, reply
from fedcode.errors import ArgumentError, CannotUse, MessageError, NonFiniteError, WrongModelError
from fedcode.rehearsal import Rehearsal, models, moved, same
from fedcode.wire import NOTHING, Message, MessageKind, Section


def begun(name: str = "fedavg_ws", rounds: int = 2, **settings: object) -> Rehearsal:
    rehearsal = Rehearsal.of(fedcode.method(name, **settings))
    rehearsal.rounds(rounds)
    return rehearsal


def test_a_memory_holds_the_base_of_the_last_message_and_the_newest() -> None:
    rehearsal = begun(rounds=3)
    said = Message.from_bytes(rehearsal.sent[6])  # to "a", in the third round
    memory = Memory.from_bytes(rehearsal.memories["a"])
    assert list(memory.bases) == [said.base, said.gives]
    assert memory.newest is not None
    assert memory.newest.digest == said.gives
    assert (memory.federation, memory.method, memory.round) == (b"rehearse", "fedavg_ws", 3)


def test_a_method_that_keeps_nothing_leaves_no_memory() -> None:
    assert begun("fedavg").memories == {"a": b"", "b": b"", "c": b""}


def test_memory_survives_its_bytes() -> None:
    data = begun("delta", residual=0.5).memories["a"]
    memory = Memory.from_bytes(data)
    assert memory.to_bytes() == data
    assert set(memory.kept) >= {"pending", "pending.round"}


def test_what_is_no_memory_is_a_message_error_for_who_reads_it() -> None:
    rehearsal = begun()
    data = rehearsal.memories["a"]
    for bad in (b"", data[:-1], data + b"x", rehearsal.sent[0], rehearsal.came[0]):
        with pytest.raises(MessageError):
            Memory.from_bytes(bad)


def test_receiving_changes_nothing_and_says_the_same_again() -> None:
    rehearsal = begun("delta", residual=0.5)
    message, memory = rehearsal.server.message_for("a"), rehearsal.memories["a"]
    one, other = receive(message, memory), receive(bytearray(message), memoryview(memory))
    assert same(one.start, other.start)
    assert reply(one, moved(one, "a"), examples=3, client="a") == reply(other, moved(one, "a"), examples=3, client="a")
    assert memory == rehearsal.memories["a"]


def test_an_old_copy_of_a_memory_serves_while_the_server_believes_it() -> None:
    rehearsal = begun()
    old = rehearsal.memories["a"]
    rehearsal.answer("a")  # and its reply is lost
    rehearsal.round("bc")
    message = rehearsal.server.message_for("a")
    fresh, stale = receive(message, rehearsal.memories["a"]), receive(message, old)
    assert same(fresh.start, stale.start)


def test_a_message_that_cannot_be_used_says_what_this_client_holds() -> None:
    rehearsal = begun()
    old = rehearsal.memories["a"]
    rehearsal.rounds(3)
    with pytest.raises(CannotUse, match=r"does not hold\. Send the reply of this error") as caught:
        receive(rehearsal.server.message_for("a"), old)
    answer = Message.from_bytes(caught.value.reply)
    newest = Memory.from_bytes(old).newest
    assert newest is not None
    assert (answer.kind, answer.gives, dict(answer.sections)) == (MessageKind.CANNOT_USE, newest.digest, {})
    assert not rehearsal.server.accept("a", caught.value.reply)
    repaired = rehearsal.server.message_for("a")
    assert Message.from_bytes(repaired).base == newest.digest  # not the whole model: what it holds is still known
    assert same(receive(repaired, old).start, receive(rehearsal.server.message_for("new")).start)


def test_the_error_crosses_from_process_to_process() -> None:
    rehearsal = begun()
    with pytest.raises(CannotUse) as caught:
        receive(rehearsal.server.message_for("a"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.reply) == (str(caught.value), caught.value.reply)


def test_a_base_that_does_not_come_out_as_its_digest_says_is_not_trained_from() -> None:
    rehearsal = begun()
    said = Message.from_bytes(rehearsal.server.message_for("a"))
    spoilt = dataclasses.replace(said, gives=b"somebase").to_bytes()
    with pytest.raises(CannotUse, match="does not decode to the base whose digest it states"):
        receive(spoilt, rehearsal.memories["a"])


def test_a_layout_that_is_not_the_one_stated() -> None:
    rehearsal = begun("fedavg", rounds=0)
    said = Message.from_bytes(rehearsal.server.message_for("a"))
    with pytest.raises(WrongModelError, match="fingerprint that its header states"):
        receive(dataclasses.replace(said, layout=b"another!").to_bytes())


def test_a_message_without_a_layout_to_a_client_without_a_memory() -> None:
    rehearsal = begun("fedavg", rounds=0)
    said = Message.from_bytes(rehearsal.server.message_for("a"))
    sections = {tag: body for tag, body in said.sections.items() if tag != Section.LAYOUT}
    with pytest.raises(CannotUse, match="no memory of it"):
        receive(dataclasses.replace(said, sections=sections).to_bytes())


def test_a_memory_of_another_method_serves_for_its_bases_and_not_for_what_it_keeps() -> None:
    model = models()["plain"]
    first = Rehearsal.of(fedcode.method("delta", residual=0.9), model, known=True)
    first.memories["a"] = memory_of(model)
    first.round("a")
    second = fedcode.method("fedavg_ws").server(model, known=True, federation=b"rehearse")
    memory = dataclasses.replace(Memory.from_bytes(first.memories["a"]), federation=b"rehearse").to_bytes()
    task = receive(second.message_for("a"), memory)
    assert same(task.start, model)
    assert task.incoming.kept == {}


def test_the_first_memory_is_of_no_training_and_fits_all() -> None:
    model = models()["tied"]
    memory = Memory.from_bytes(memory_of(model.arrays()))
    assert (memory.federation, memory.method, memory.kept) == (NOTHING, "", {})
    for federation in (b"training", b"another!"):
        server = fedcode.method("delta").server(model, known=True, federation=federation)
        assert same(receive(server.message_for("a"), memory_of(model)).start, model)
    with pytest.raises(NonFiniteError):
        memory_of({"w": np.array([np.inf], np.float32)})


def test_another_checkpoint_than_the_one_that_is_known_is_repaired() -> None:
    model = models()["plain"]
    other = dataclasses.replace(model, vector=model.vector + np.float32(1))
    rehearsal = Rehearsal.of(fedcode.method("delta"), model, known=True)
    rehearsal.memories["a"] = memory_of(other)
    assert same(rehearsal.task("a").start, model)
    assert len(rehearsal.sent) == 2


def test_randomness_is_of_the_seed_the_round_and_the_name() -> None:
    start = models()["plain"]
    trained = dataclasses.replace(start, vector=start.vector + np.float32(0.01))

    def answered(seed: int, client: str) -> bytes:
        server = fedcode.method("fedpaq").server(start, seed=seed, federation=b"training")
        data, _ = reply(receive(server.message_for(client)), trained, examples=1, client=client)
        return bytes(Message.from_bytes(data).section(Section.LABELS))

    assert answered(1, "a") == answered(1, "a")
    assert len({answered(1, "a"), answered(2, "a"), answered(1, "b")}) == 3


def test_trained_weights_in_any_form() -> None:
    rehearsal = begun("fedavg", rounds=0)
    task = rehearsal.task("a")
    trained = moved(task, "a")
    one, _ = reply(task, trained, examples=4, client="a")
    other, _ = reply(task, trained.arrays(), examples=4, client="a")
    assert one == other


@pytest.mark.parametrize("examples", [0, -1])
def test_a_reply_needs_examples(examples: int) -> None:
    task = begun("fedavg", rounds=0).task("a")
    with pytest.raises(ArgumentError, match="at least 1 example"):
        reply(task, task.start, examples=examples, client="a")


def test_a_mask_that_training_did_not_obey_is_applied_again() -> None:
    rehearsal = Rehearsal.of(fedcode.method("fedsparsify", final=0.5, until=3))
    rehearsal.rounds(2)
    task = rehearsal.task("a")
    assert task.mask is not None
    assert not task.mask.all()
    disobedient = dataclasses.replace(task.start, vector=task.start.vector + np.float32(0.1))
    obedient = dataclasses.replace(disobedient, vector=np.where(task.mask, disobedient.vector, np.float32(0)))
    one, other = (reply(task, trained, examples=4, client="a")[0] for trained in (disobedient, obedient))
    assert one == other
