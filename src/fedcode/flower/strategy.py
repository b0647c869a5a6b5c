"""The server's end in a Flower app: FedAvg's place taken by any method of fedcode.

strategy = FedCode(method="fedcode", clusters=64, fraction_train=0.5)
result = strategy.start(grid=grid, initial_arrays=ArrayRecord(model.state_dict()), num_rounds=30)
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from logging import ERROR, INFO, WARNING
from os import PathLike
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.supercore import log

import fedcode
from fedcode.errors import ArgumentError, FedcodeError
from fedcode.flower.blob import arrays_of, find, record_of, record_of_arrays
from fedcode.flower.exchange import exchange, reason
from fedcode.flower.mod import EXAMPLES, HONOURS, KEYS
from fedcode.flower.record import Record, open_record
from fedcode.flower.roster import Roster, draw
from fedcode.state import Trained, flatten

Aggregate = Callable[[list[RecordDict], str], MetricRecord]
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class FedCode(FedAvg):
    """A method of fedcode as a strategy of Flower; the arguments up to the first `*` are those of FedAvg.

    method: its name. Its own settings are given by name beside it (`fedcode methods` lists them). directory: where the
    run is written, as by the simulator; an unfinished run there is gone on with. seed: for everything drawn at random.
    known: clients hold the initial arrays already (`codebook_mod(start=...)`). trained: which arrays are trained, where
    their names do not say it. stop_after: rounds in a row without a valid reply, after which training ends.
    server_options: of `fedcode.Server`.

    >>> FedCode(method="delta", bits=1.0, fraction_train=0.5).method.settings()["bits"]
    1.0
    """

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 0.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = EXAMPLES,
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Aggregate | None = None,
        evaluate_metrics_aggr_fn: Aggregate | None = None,
        *,
        method: str = "fedcode",
        directory: str | PathLike[str] | None = None,
        seed: int = 0,
        known: bool = False,
        trained: Trained | None = None,
        stop_after: int = 3,
        server_options: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            fraction_train,
            fraction_evaluate or 1.0,  # none is the usual case here, and no warning's matter
            min_train_nodes,
            min_evaluate_nodes,
            min_available_nodes,
            weighted_by_key,
            arrayrecord_key,
            configrecord_key,
            train_metrics_aggr_fn,
            evaluate_metrics_aggr_fn,
        )
        if fraction_evaluate == 0.0:
            self.fraction_evaluate, self.min_evaluate_nodes = 0.0, 0
        if stop_after < 1:
            raise ArgumentError(f"stop_after is a number of rounds, 1 or more: got {stop_after}.")
        self.method = fedcode.method(method, **settings)
        self.directory = directory
        self.seed = seed
        self.known = known
        self.trained = trained
        self.stop_after = stop_after
        self.server_options = server_options or {}
        self._roster = Roster(arrayrecord_key, frozenset(self.method.asks_of_training & HONOURS))
        self._record: Record | None = None
        self._expected: list[str] = []
        self._asked: dict[str, int] = {}
        self._greeted = False

    def summary(self) -> None:
        """Log the settings."""
        super().summary()
        listed = ", ".join(f"{name}={value}" for name, value in self.method.settings().items())
        log(INFO, "\t└──> Method: %s (%s)", self.method.name, listed)

    # ---- a run

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run the rounds, or those that an unfinished run in `directory` has left; the model is always returned."""
        log(INFO, "Starting %s strategy:", type(self).__name__)
        self.summary()
        train_config = train_config or ConfigRecord()
        evaluate_config = evaluate_config or ConfigRecord()
        result = Result()
        with ExitStack() as stack:
            record = self._begin(stack, initial_arrays, num_rounds)
            server = record.server
            arrays = record_of_arrays(server.state)
            if evaluate_fn and server.round == 1:
                self._evaluate(evaluate_fn, 0, arrays, result)
            empty = 0
            while server.round <= num_rounds and empty < self.stop_after:
                number = server.round
                log(INFO, "")
                log(INFO, "[ROUND %s/%s]", number, num_rounds)
                messages = self.configure_train(number, arrays, train_config, grid)
                aggregated, metrics = self.aggregate_train(number, self._exchange(grid, messages, timeout))
                empty = empty + 1 if record.report.empty else 0
                arrays = aggregated or arrays
                if metrics is not None:
                    log(INFO, "\t└──> Aggregated MetricRecord: %s", metrics)
                    result.train_metrics_clientapp[number] = metrics
                messages = self.configure_evaluate(number, arrays, evaluate_config, grid)
                evaluated = self.aggregate_evaluate(number, self._exchange(grid, messages, timeout))
                if evaluated is not None:
                    log(INFO, "\t└──> Aggregated MetricRecord: %s", evaluated)
                    result.evaluate_metrics_clientapp[number] = evaluated
                shown = self._evaluate(evaluate_fn, number, arrays, result) if evaluate_fn else evaluated
                record.finish_round(metrics, shown)
            result.arrays = arrays
            if empty >= self.stop_after:
                log(ERROR, "Stopped after %s rounds without a valid reply; the model of before is returned.", empty)
            else:
                record.finish()
        log(INFO, "")
        log(INFO, record.sent())
        for line in str(result).splitlines():
            log(INFO, "\t%s", line)
        return result

    def _begin(self, stack: ExitStack, initial_arrays: ArrayRecord, rounds: int) -> Record:
        """The server's end: made of the initial arrays, or as an unfinished run left it."""
        state = flatten(arrays_of(initial_arrays), trained=self.trained)
        options = {"seed": self.seed, "known": self.known} | self.server_options
        about = {
            "rounds": rounds,
            "participation": self.fraction_train,
            "stop_after": self.stop_after,
            "known": self.known,
            "seed": self.seed,
        }
        self._greeted = False
        self._record = open_record(stack, self.directory, self.method, state, options, about)
        return self._record

    def _evaluate(self, evaluate_fn: Evaluate, number: int, arrays: ArrayRecord, result: Result) -> MetricRecord | None:
        metrics = evaluate_fn(number, arrays)
        log(INFO, "Global evaluation of round %s: %s", number, metrics)
        if metrics is not None:
            result.evaluate_metrics_serverapp[number] = metrics
        return metrics

    # ---- training

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round, for the clients that are drawn."""
        if self.fraction_train == 0.0:
            self._expected = []
            return []
        clients = self._clients(grid, self.fraction_train, self.min_train_nodes)
        count = self._count(len(clients), self.fraction_train, self.min_train_nodes)
        names = draw(clients, count, self.seed, server_round)
        log(INFO, "configure_train: Sampled %s nodes (out of %s)", len(names), len(clients))
        self._expected = list(names)
        self.record.start_round()
        return self._messages(server_round, names, clients, config, MessageType.TRAIN)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Fold in the replies in the order of names; one that comes early waits as bytes."""
        record = self.record
        order, waiting, said = deque(self._expected), dict[str, Message | None](), list[RecordDict]()

        def fold(everything: bool = False) -> None:
            while order and (everything or order[0] in waiting):
                name = order.popleft()
                reply = waiting.pop(name, None)
                if reply is not None and self._fold(name, reply):
                    said.append(RecordDict(dict(reply.content.metric_records)))

        for reply in replies:
            name = self._whose(reply)
            if name is None or name not in order or name in waiting:
                log(WARNING, "\t> a reply of node %s was not asked for", reply.metadata.src_node_id)
                continue
            waiting[name] = None if reply.has_error() else reply
            if reply.has_error():
                log(WARNING, "\t> %s failed: %s", name, reason(reply.error))
                record.failed("NodeFailed")
            fold()
        for name in order:
            if name not in waiting:
                log(WARNING, "\t> %s did not answer in time", name)
                record.failed("NoReply")
        fold(everything=True)
        report = record.aggregate()
        log(INFO, "aggregate_train: Received %s replies of %s", report.replies, len(self._expected))
        if report.empty:
            log(ERROR, "ROUND %s HAD NO VALID REPLY: the model stays as it was.", server_round)
            return None, None
        return record_of_arrays(record.server.state), self._metrics(said, self.train_metrics_aggr_fn)

    def _fold(self, name: str, reply: Message) -> bool:
        """Whether a reply counts; what is wrong with one is logged and counted, and the round goes on."""
        found = find(reply.content)
        if found is None:
            log(WARNING, "\t> refused: the reply of %s carries no message of fedcode", name)
            self.record.failed("NoMessage")
            return False
        self.record.ledger.came(name, found[1])
        try:
            if self.record.server.accept(name, found[1]):
                return True
            log(INFO, "\t> %s lacks the base of its message; the next one repairs it", name)
        except FedcodeError as error:
            log(WARNING, "\t> refused: %s", error)
        return False

    # ---- evaluation at clients

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of an evaluation at clients; off unless `fraction_evaluate` says otherwise."""
        if self.fraction_evaluate == 0.0:
            return []
        clients = self._clients(grid, self.fraction_evaluate, self.min_evaluate_nodes)
        count = self._count(len(clients), self.fraction_evaluate, self.min_evaluate_nodes)
        names = draw(clients, count, self.seed, server_round)
        log(INFO, "configure_evaluate: Sampled %s nodes (out of %s)", len(names), len(clients))
        return self._messages(server_round, names, clients, config, MessageType.EVALUATE)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """What the clients measured, averaged."""
        said: dict[str, RecordDict] = {}
        for reply in replies:
            name = self._whose(reply)
            if name is None or reply.has_error():
                why = reason(reply.error) if reply.has_error() else "it was not asked"
                log(WARNING, "\t> %s failed to evaluate: %s", name, why)
                continue
            found = find(reply.content)
            if found is None:
                said[name] = reply.content
            else:
                self._fold(name, reply)  # it lacks the base: the next message repairs it
        return self._metrics([said[name] for name in sorted(said)], self.evaluate_metrics_aggr_fn)

    # ---- both

    @property
    def record(self) -> Record:
        """The run: `record.server` is the server's end, `record.history` the rounds so far."""
        if self._record is None:
            raise ArgumentError("the strategy has no model yet: call start(grid, initial_arrays).")
        return self._record

    def _exchange(self, grid: Grid, messages: Iterable[Message], timeout: float | None) -> Iterable[Message]:
        self._asked = {}
        return exchange(grid, list(messages), timeout, self._asked)

    def _whose(self, reply: Message) -> str | None:
        """The client whose reply this is, or whose place the SuperLink took because its node is gone."""
        about = reply.metadata
        node = self._asked.get(about.reply_to_message_id) if reply.has_error() else None
        return self._roster.client(about.src_node_id if node is None else node)

    def _clients(self, grid: Grid, fraction: float, least: int) -> dict[str, int]:
        """The clients that are there, as soon as they are enough."""
        said = -1
        while True:
            self._roster.greet(grid, self.record.server.hello())
            clients = self._roster.connected(grid)
            if not self._greeted:
                self._roster.check(grid, unwilling=True)
            needed = max(self.min_available_nodes, self._count(len(clients), fraction, least))
            if len(clients) >= needed:
                self._greeted = True
                return clients
            if len(list(grid.get_node_ids())) >= needed:
                self._roster.check(grid)  # enough are there, and they cannot take part: waiting would not help
            if said != len(clients):
                said = len(clients)
                log(INFO, "Waiting for nodes: %s are ready, %s are needed.", said, needed)
            time.sleep(1)

    @staticmethod
    def _count(clients: int, fraction: float, least: int) -> int:
        return max(int(clients * fraction), least)

    def _messages(
        self, number: int, names: Iterable[str], clients: dict[str, int], config: ConfigRecord, kind: str
    ) -> list[Message]:
        config["server-round"] = number
        evaluate = kind == MessageType.EVALUATE
        count = self.record.ledger.evaluated if evaluate else self.record.ledger.sent
        contents: dict[bytes, RecordDict] = {}  # one record for all who stand alike: it is hashed and sent once
        messages: list[Message] = []
        for name in names:
            data = self.record.server.message_for(name, evaluate=evaluate)
            count(name, data)
            if data not in contents:
                records: dict[str, Any] = {self.arrayrecord_key: record_of(data), self.configrecord_key: config}
                if self.weighted_by_key != EXAMPLES:
                    records[KEYS] = ConfigRecord({"examples": self.weighted_by_key})
                contents[data] = RecordDict(records)
            messages.append(Message(contents[data], clients[name], kind))
        return messages

    def _metrics(self, said: list[RecordDict], aggregate: Aggregate) -> MetricRecord | None:
        """The metrics of the replies, averaged; none where they do not fit together: that must not end a run."""
        if not said:
            return None
        try:
            return aggregate(said, self.weighted_by_key)
        except Exception as error:
            log(WARNING, "\t> the clients' metrics cannot be averaged (%s: %s)", type(error).__name__, error)
            return None
