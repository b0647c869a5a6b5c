"""The client's end in an app, a message at a time."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity

import fedcode
from fedcode.errors import ArgumentError, NonFiniteError, RunError
from fedcode.flower import codebook_mod
from fedcode.flower.blob import arrays_of, find, record_of, record_of_arrays
from fedcode.flower.mod import HELLO, CodebookMod
from tests.flower.network import app, weights


def sent(data: bytes, kind: str = MessageType.TRAIN, **config: Any) -> Message:
    """A message as it reaches a node."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    message = Message(RecordDict({"arrays": record_of(data), "config": ConfigRecord(config)}), 5, kind)
    message.metadata.__dict__["_message_id"] = "one"
    return message


def context(partition: int | None = 3) -> Context:
    config: dict[str, Any] = {} if partition is None else {"partition-id": partition}
    return Context(run_id=1, node_id=5, node_config=config, state=RecordDict(), run_config={})


def answers(folder: Path, trained: Any, metrics: Any, mod: CodebookMod = codebook_mod) -> ClientApp:
    """An app whose answer is given."""
    made = ClientApp(mods=[mod(directory=folder)])

    @made.train()
    def train(message: Message, context: Context) -> Message:
        content: dict[str, Any] = {}
        if trained is not None:
            content["arrays"] = record_of_arrays(trained)
        if metrics is not None:
            content["metrics"] = MetricRecord(metrics)
        return Message(RecordDict(content), reply_to=message)

    return made


def server(method: str = "fedcode", **settings: Any) -> Any:
    return fedcode.method(method, **settings).server(weights())


def test_a_message_that_is_not_ours_passes_untouched(tmp_path: Path) -> None:
    seen: list[Message] = []
    message = sent(b"")
    message.content["arrays"] = record_of_arrays(weights())
    answer = app(tmp_path, seen=seen)(message, context())
    assert find(answer.content) is None
    assert dict(seen[0].content) == dict(message.content)
    assert not list(tmp_path.iterdir())


def test_hello_is_answered_without_the_user_s_function(tmp_path: Path) -> None:
    seen: list[Message] = []
    mod = codebook_mod(honours={"proximal"})
    answer = app(tmp_path, mod, seen)(sent(server().hello()), context())
    assert dict(answer.content[HELLO]) == {"client": "client-3", "honours": ["proximal"]}
    assert not seen


def test_the_user_s_function_sees_weights_and_its_own_config(tmp_path: Path) -> None:
    seen: list[Message] = []
    end = server()
    app(tmp_path, seen=seen)(sent(end.message_for("client-3"), lr=0.5), context())
    got = seen[0].content["arrays"]
    assert isinstance(got, ArrayRecord)
    start = fedcode.receive(end.message_for("client-3")).start.arrays()
    for name, value in arrays_of(got).items():
        np.testing.assert_array_equal(value, start[name], strict=True)
    assert dict(seen[0].content["config"]) == {"lr": 0.5}


def test_metrics_and_records_of_the_user_s_own_go_back(tmp_path: Path) -> None:
    answer = answers(tmp_path, weights(), {"num-examples": 3, "mine": 0.25})(
        sent(server().message_for("client-3")), context()
    )
    assert dict(answer.content["metrics"]) == {"num-examples": 3, "mine": 0.25}


@pytest.mark.parametrize(
    ("trained", "metrics", "error", "says"),
    [
        (None, {"num-examples": 3}, ArgumentError, "one ArrayRecord"),
        ("weights", None, ArgumentError, "'num-examples' is missing"),
        ("weights", {"num-examples": 2.5}, ArgumentError, "a whole number"),
        ("weights", {"num-examples": 0}, ArgumentError, "at least 1"),
        ("nan", {"num-examples": 3}, NonFiniteError, "layer.bias"),
        ("other", {"num-examples": 3}, fedcode.FedcodeError, "layer"),
    ],
)
def test_an_answer_that_cannot_be_sent_is_an_error_that_says_why(
    trained: str | None, metrics: Any, error: type[Exception], says: str, tmp_path: Path
) -> None:
    state: Any = None if trained is None else weights()
    if trained == "nan":
        state["layer.bias"][3] = np.nan
    if trained == "other":
        del state["layer.weight"]
    with pytest.raises(error, match=says):
        answers(tmp_path, state, metrics)(sent(server().message_for("client-3")), context())
    assert not list(tmp_path.iterdir())  # and nothing is remembered


def test_a_crash_in_training_leaves_the_memory_as_it_was(tmp_path: Path) -> None:
    end = server("delta")
    good = app(tmp_path)
    replied = good(sent(end.message_for("client-3")), context())
    found = find(replied.content)
    assert found is not None
    end.accept("client-3", found[1])
    end.finish_round()
    (memory,) = tmp_path.glob("*/client-3")
    before = memory.read_bytes()
    broken = ClientApp(mods=[codebook_mod(directory=tmp_path)])

    @broken.train()
    def train(message: Message, context: Context) -> Message:
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        broken(sent(end.message_for("client-3")), context())
    assert memory.read_bytes() == before
    found = find(good(sent(end.message_for("client-3")), context()).content)
    assert found is not None
    assert end.accept("client-3", found[1])


def test_a_message_that_this_client_cannot_use_is_answered_so(tmp_path: Path) -> None:
    seen: list[Message] = []
    end = server("delta")
    known = fedcode.method("delta").server(weights(), known=True)
    answer = app(tmp_path, seen=seen)(sent(known.message_for("client-3")), context())
    found = find(answer.content)
    assert found is not None
    assert known.accept("client-3", found[1]) is False
    assert not seen
    # the other federation's memory is not taken for this one's
    app(tmp_path, seen=seen)(sent(end.message_for("client-3")), context())
    assert len(list(tmp_path.glob("*/client-3"))) == 1


def test_proximal_is_sent_in_flower_s_own_entry(tmp_path: Path) -> None:
    seen: list[Message] = []
    mod = codebook_mod(honours={"proximal"})
    app(tmp_path, mod, seen)(sent(server("fedprox", mu=0.25).message_for("client-3")), context())
    assert seen[0].content["config"]["proximal-mu"] == 0.25


def test_an_app_that_does_not_say_it_honours_the_pull_does_not_train(tmp_path: Path) -> None:
    seen: list[Message] = []
    with pytest.raises(ArgumentError, match=r"honours=\{'proximal'\}"):
        app(tmp_path, seen=seen)(sent(server("fedprox").message_for("client-3")), context())
    assert not seen


def test_a_mask_that_training_did_not_obey_is_applied_again(tmp_path: Path) -> None:
    end = server("fedsparsify", start=1, until=4)
    for _ in range(3):
        found = find(app(tmp_path)(sent(end.message_for("client-3")), context()).content)
        assert found is not None
        assert end.accept("client-3", found[1])
        end.finish_round()
    assert np.mean(end.state["layer.weight"] == 0) > 0.3


@pytest.mark.parametrize("form", ["arrays", "record", "module"])
def test_shipped_weights_may_have_any_form(form: str, tmp_path: Path) -> None:
    start: Any = weights()
    if form == "record":
        start = ArrayRecord({name: Array(value) for name, value in start.items()})
    if form == "module":
        state, start = start, type("Module", (), {})()
        start.state_dict = lambda: state
    end = fedcode.method("fedavg").server(weights(), known=True)
    answer = app(tmp_path, codebook_mod(start=start))(sent(end.message_for("client-3")), context())
    found = find(answer.content)
    assert found is not None
    assert end.accept("client-3", found[1])


def test_evaluation_changes_no_memory_and_sends_metrics_alone(tmp_path: Path) -> None:
    end = server("delta")
    good = app(tmp_path)
    good(sent(end.message_for("client-3")), context())
    (memory,) = tmp_path.glob("*/client-3")
    before = memory.read_bytes()
    answer = good(sent(end.message_for("client-3", evaluate=True), MessageType.EVALUATE), context())
    assert set(answer.content) == {"metrics"}
    assert memory.read_bytes() == before


def test_a_memory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RunError, match="FEDCODE_MEMORY"):
        app(tmp_path / "file")(sent(server().message_for("client-3")), context())


@pytest.mark.parametrize("honours", ["proximal", {"everything"}])
def test_what_cannot_be_honoured_is_refused(honours: Any) -> None:
    with pytest.raises(ArgumentError, match="honours"):
        codebook_mod(honours=honours)


def test_settings_are_kept_when_more_are_given(tmp_path: Path) -> None:
    mod = codebook_mod(honours={"proximal"})(directory=tmp_path)(max_bytes=5)
    assert (set(mod.honours), mod.directory, mod.max_bytes) == ({"proximal"}, tmp_path, 5)
    assert codebook_mod.honours == frozenset()


def test_the_mod_can_be_copied_to_other_processes(tmp_path: Path) -> None:
    mod = copy.deepcopy(codebook_mod(directory=tmp_path, start=weights()))
    assert mod.directory == tmp_path


def test_an_app_without_torch_brings_none_in() -> None:
    """The client of the scikit-learn example, in a process of its own."""
    code = """
import sys
sys.path[:0] = [".", "examples/flower-sklearn"]
from pathlib import Path
from tempfile import mkdtemp
from together import client_app, task
from flwr.app import Context, RecordDict
from tests.flower.network import Network
from fedcode.flower import FedCode
import os
os.environ["FEDCODE_MEMORY"] = mkdtemp()

class Parts(Network):
    def _answer(self, node, message):
        config = {"partition-id": node, "num-partitions": 3}
        return self.apps[node](message, Context(1, node, config, RecordDict(), {}))

network = Parts({node: client_app.app for node in range(3)})
result = FedCode(method="delta").start(network, task.first(), num_rounds=4)
assert not [name for name in sys.modules if name.split(".")[0] == "torch"]
print(task.accuracy(result.arrays))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.splitlines()[-1]) > 0.9
