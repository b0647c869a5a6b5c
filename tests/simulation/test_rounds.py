"""A run round by round: events, lines of the history, and clients that fail, forget or come late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedcode.errors import ArgumentError
from fedcode.events import ClientDone, Event, RoundDone, RoundStarted, RunDone, RunStarted
from fedcode.ledger import fedavg_sizes
from fedcode.methods import register
from fedcode.methods.fedavg import FedAvg
from fedcode.simulation import Config, Job, Result, given, run
from fedcode.simulation.given import first_model
from fedcode.simulation.job import InThisProcess
from tests.simulation.small import Network, config, points


def events(chosen: Config, **options: Any) -> list[Event]:
    return list(run(chosen, data=points(), model=Network, **options))


def lines(happened: Iterable[Event]) -> list[Any]:
    """The lines of the history, times apart."""
    return [{**event.record, "seconds": 0} for event in happened if isinstance(event, RoundDone)]


def summary(happened: list[Event]) -> Any:
    last = happened[-1]
    assert isinstance(last, RunDone)
    return last.summary


class Watched(InThisProcess):
    """A trainer whose jobs and results can be tampered with."""

    def __init__(self, chosen: Config) -> None:
        super().__init__(chosen, given(chosen, points(), Network))
        self.closed = 0

    def job(self, job: Job) -> Job:
        return job

    def result(self, result: Result) -> Result:
        return result

    def train(self, jobs: Iterable[Job]) -> Iterator[Result]:
        for result in super().train(self.job(job) for job in jobs):
            yield self.result(result)

    def close(self) -> None:
        self.closed += 1


def test_what_happens_is_told_in_order() -> None:
    happened = events(config())
    a_round = [RoundStarted, ClientDone, ClientDone, RoundDone]
    assert [type(event) for event in happened] == [RunStarted, *a_round, *a_round, *a_round, RunDone]
    started, first = happened[0], happened[1]
    assert isinstance(started, RunStarted)
    assert isinstance(first, RoundStarted)
    assert (started.clients, started.rounds, started.parameters, started.history) == (4, 3, 227 - 16, ())
    assert started.config["method"] == "fedavg"
    told = [event for event in happened if isinstance(event, ClientDone)]
    assert [event.client for event in told[:2]] == list(first.clients)
    assert all(event.seconds > 0 and event.loss is not None and event.examples >= 5 for event in told)


def test_a_line_of_the_history_has_all_that_is_promised() -> None:
    happened = events(config("fedcode", settings={"clusters": 8}))
    promised = {"round", "clients", "replies", "examples", "refused", "accuracy", "loss", "training_loss", "bytes"}
    promised |= {"messages", "paper_bits", "per_client", "centers", "seconds"}
    for number, line in enumerate(lines(happened), 1):
        assert set(line) == promised
        assert line["round"] == number
        assert line["replies"] == 2 == len(line["clients"])
        assert 0 <= line["accuracy"] <= 1
        assert set(line["bytes"]) == set(line["messages"]) == {"down", "up", "evaluate"}
        assert set(line["per_client"]) == set(line["clients"])
        assert len(line["centers"]) == 8
        assert line["centers"] == sorted(line["centers"])
    final = [event for event in happened if isinstance(event, RoundDone)][-1]
    assert set(final.record["seconds"]) == {"training", "method", "evaluation", "other"}
    assert all(seconds >= 0 for seconds in final.record["seconds"].values())
    assert final.totals["bytes"] == summary(happened)["bytes"]


def test_the_ledger_counts_every_message_that_left() -> None:
    class Counting(Watched):
        down = up = 0

        def job(self, job: Job) -> Job:
            self.down += len(job.message)
            return job

        def result(self, result: Result) -> Result:
            self.up += len(result.reply)
            return result

    trainer = Counting(config("delta"))
    found = summary(events(config("delta"), trainer=trainer))
    assert found["bytes"] == {"down": trainer.down, "up": trainer.up, "evaluate": 0}
    assert found["messages"] == {"down": 6, "up": 6, "evaluate": 0}
    down, up = fedavg_sizes(first_model(config(), given(config(), points(), Network)))
    assert found["dtr"]["total"] == pytest.approx(6 * (down + up) / (trainer.down + trainer.up))


def test_a_run_made_again_is_the_same_bit_for_bit() -> None:
    one, other = (events(config("delta")) for _ in range(2))
    assert lines(one) == lines(other)
    states = [event.state for happened in (one, other) if isinstance(event := happened[-1], RunDone)]
    assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])


def test_the_order_in_which_results_come_changes_nothing() -> None:
    class Backwards(Watched):
        def train(self, jobs: Iterable[Job]) -> Iterator[Result]:
            yield from reversed(list(super().train(jobs)))

    chosen = config(clients=6, participation=1.0)
    one, other = events(chosen), events(chosen, trainer=Backwards(chosen))
    assert lines(one) == lines(other)


def test_a_client_that_lost_its_memory_is_sent_what_it_needs() -> None:
    class Forgetting(Watched):
        def job(self, job: Job) -> Job:
            return replace(job, memory=b"") if job.round == 2 and job.client == "client-1" else job

    chosen = config("delta", participation=1.0)
    line = lines(events(chosen, trainer=Forgetting(chosen)))[1]
    assert line["replies"] == 4
    assert line["messages"] == {"down": 5, "up": 5, "evaluate": 0}  # the second time for client-1
    assert line["per_client"]["client-1"]["down"] > 2 * line["per_client"]["client-0"]["down"]


def test_a_client_that_cannot_use_even_the_second_message_is_left_out() -> None:
    class Foreign(Watched):
        """A client whose answers all say that it could not use the message."""

        def job(self, job: Job) -> Job:
            return replace(job, memory=b"") if job.round == 2 else job

        def result(self, result: Result) -> Result:
            if result.memory is None:
                self.said = result
            return self.said if hasattr(self, "said") and result.client == self.said.client else result

    chosen = config("delta", participation=1.0, rounds=2)
    line = lines(events(chosen, trainer=Foreign(chosen)))[1]
    assert line["replies"] < 4
    assert line["messages"]["down"] == 8


def test_training_that_diverges_costs_its_reply() -> None:
    class Diverging(Watched):
        def train(self, jobs: Iterable[Job]) -> Iterator[Result]:
            for job in jobs:
                self.bench.loss = broken if job.client == "client-0" else None
                yield from InThisProcess.train(self, [job])

    chosen = config(participation=1.0)
    happened = events(chosen, trainer=Diverging(chosen))
    for line in lines(happened):
        assert line["replies"] == 3
        assert line["refused"] == {"NonFiniteError": 1}
    assert summary(happened)["refused"] == 3


def broken(output: Tensor, _: Tensor) -> Tensor:
    return output.sum() * torch.inf


def test_a_round_without_a_valid_reply_leaves_the_model_as_it_was() -> None:
    chosen = config(participation=1.0, rounds=2)
    happened = events(chosen, loss=broken)
    assert [line["replies"] for line in lines(happened)] == [0, 0]
    last = happened[-1]
    assert isinstance(last, RunDone)
    first = first_model(chosen, given(chosen, points(), Network)).state_dict()
    assert all(np.array_equal(last.state[name], value.numpy()) for name, value in first.items())


def test_garbage_is_counted_and_the_round_goes_on() -> None:
    class Garbage(Watched):
        def result(self, result: Result) -> Result:
            return replace(result, reply=b"nonsense") if result.client == "client-2" else result

    chosen = config(participation=1.0)
    for line in lines(events(chosen, trainer=Garbage(chosen))):
        assert line["replies"] == 3
        assert line["refused"] == {"MessageError": 1}
        assert line["per_client"]["client-2"]["up"] == len(b"nonsense")


def test_evaluation_every_few_rounds_and_after_the_last() -> None:
    found = lines(events(config(rounds=5, evaluate_every=2)))
    assert [line["accuracy"] is not None for line in found] == [False, True, False, True, True]


def test_evaluation_at_clients_has_a_column_of_its_own() -> None:
    without, found = (summary(events(config("delta", evaluate_clients=chosen))) for chosen in (False, True))
    assert found["bytes"]["evaluate"] > 0 == without["bytes"]["evaluate"]
    assert found["messages"]["evaluate"] == 6
    for figure in ("dtr", "bits_per_parameter", "accuracy"):
        assert found[figure] == without[figure]
    assert found["bytes"]["down"] == without["bytes"]["down"]


def test_weights_that_clients_hold_already_are_not_sent() -> None:
    unknown, known = (lines(events(config("delta", participation=1.0, known=chosen))) for chosen in (False, True))
    assert known[0]["bytes"]["down"] < unknown[0]["bytes"]["down"] / 3
    assert known[0]["replies"] == 4


def test_whoever_stops_asking_stops_the_run() -> None:
    trainer = Watched(config())
    happening = run(config(), data=points(), model=Network, trainer=trainer)
    next(happening)
    assert trainer.closed == 0
    happening.close()  # type: ignore[attr-defined]
    assert trainer.closed == 1


def test_a_method_that_asks_what_no_trainer_here_can_do() -> None:
    class Asking(FedAvg):
        name = "asking"
        asks_of_training = frozenset({"patience"})

    register(Asking)
    with pytest.raises(ArgumentError, match=r"asks of local training what the simulator cannot do: \['patience'\]"):
        events(config("asking"))


def test_federated_training_learns() -> None:
    found = summary(events(config(rounds=8, epochs=4, participation=1.0)))
    assert found["accuracy"]["best"] > 0.8
    assert found["accuracy"]["best"] >= found["accuracy"]["final"]
    assert found["partition"]["concentration"] > 0.5
    assert sum(sum(row) for row in found["partition"]["classes"]) == 120
