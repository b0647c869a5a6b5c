"""Everything that decides a run, as data."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from fedcode.ends import Method
from fedcode.errors import ArgumentError, RunError
from fedcode.methods import method, options

DATASETS = {"digits": "digits", "cifar10": "resnet20", "cifar100": "resnet20", "speechcommands": "yamnet"}
NETWORKS = ("digits", "resnet20", "mobilenetv2", "yamnet")
PARTITIONS = ("dirichlet", "equal", "shards")
OPTIMIZERS = ("adam", "sgd", "momentum")
PRECISIONS = ("float32", "bf16")
OWN = "own"  # data and models that the caller brought
HOW = frozenset({"workers", "device", "compile", "data_dir"})  # may change while a run is under way


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of one run of one method.

    method, settings: which method, and its own settings. label: the run's name, the method's unless given.
    dataset, network: by name, or "own" for what the caller brings; the network is the data set's usual one unless
    given. data_dir: where archives are looked for. fraction: the share of the training examples that is used.
    clients, partition, beta, minimum: who holds what: "dirichlet" with concentration beta, "equal", or "shards".
    participation: the share of the clients in a round, at least one. known: clients hold the first weights already.
    epochs, batch, optimizer, lr: local training; the optimiser's state is fresh in each round.
    evaluate_every: on the test set, and after the last round. evaluate_clients: send the model to every client for it.
    precision, compile, device: how is computed. workers: processes that train side by side; None chooses, and the
    result is the same for any number.

    >>> Config(method="fedcode", rounds=3).chosen(network="digits").rounds
    3
    """

    method: str = "fedavg"
    settings: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    dataset: str = "digits"
    data_dir: str | None = None
    network: str = ""
    fraction: float = 1.0
    clients: int = 10
    partition: str = "dirichlet"
    beta: float = 10.0
    minimum: int = 10
    participation: float = 1.0
    known: bool = False
    rounds: int = 30
    epochs: int = 4
    batch: int = 128
    optimizer: str = "adam"
    lr: float = 1e-3
    seed: int = 0
    evaluate_every: int = 1
    evaluate_clients: bool = False
    precision: str = "float32"
    compile: bool = False
    device: str = "cpu"
    workers: int | None = None

    def __post_init__(self) -> None:
        self._check_kinds()
        if not self.label:
            object.__setattr__(self, "label", self.method)
        if not self.network:
            object.__setattr__(self, "network", DATASETS.get(self.dataset, OWN))
        for name, choices in (
            ("dataset", (*DATASETS, OWN)),
            ("network", (*NETWORKS, OWN)),
            ("partition", PARTITIONS),
            ("optimizer", OPTIMIZERS),
            ("precision", PRECISIONS),
        ):
            _one_of(name, getattr(self, name), choices)
        for name in ("clients", "rounds", "epochs", "batch", "evaluate_every"):
            _check(getattr(self, name) >= 1, name, "1 or more", getattr(self, name))
        _check(self.workers is None or self.workers >= 1, "workers", "1 or more", self.workers)
        _check(self.lr > 0, "lr", "above 0", self.lr)
        _check(0 < self.participation <= 1, "participation", "above 0 and up to 1", self.participation)
        _check(0 < self.fraction <= 1, "fraction", "above 0 and up to 1", self.fraction)
        _check(self.seed >= 0, "seed", "0 or more", self.seed)
        plain = self.label.replace("-", "").replace("_", "").replace(".", "")
        _check(plain.isalnum() and self.label[0] != ".", "label", "letters, digits, - _ and . alone", self.label)
        self.made()  # whatever is wrong with the method's settings is said now

    def _check_kinds(self) -> None:
        """A file of settings may hold anything."""
        for each in dataclasses.fields(self):
            if each.name not in ("settings", *_OPTIONAL):
                of_kind(each.name, getattr(self, each.name), each.default)
        for name, example in _OPTIONAL.items():
            if getattr(self, name) is not None:
                of_kind(name, getattr(self, name), example)
        if not isinstance(self.settings, Mapping):
            raise ArgumentError(f"settings is a table of the method's settings: got {self.settings!r}.")
        known = options(self.method)
        for name, value in self.settings.items():
            if name in known:
                of_kind(f"{self.method}.{name}", value, known[name])

    @property
    def per_round(self) -> int:
        """How many clients take part in a round."""
        return max(1, round(self.participation * self.clients))

    def made(self) -> Method:
        """The method with its settings."""
        return method(self.method, **self.settings)

    def chosen(self, **changes: Any) -> Self:
        """The same with other settings."""
        return dataclasses.replace(self, **changes)

    def document(self) -> dict[str, Any]:
        """As config.toml has it, the method's defaults written out."""
        return {**dataclasses.asdict(self), "settings": self.made().settings()}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The settings that `document` gave, or that a person wrote; ArgumentError names what is unknown.

        >>> Config.of({"method": "fedcode", "settings": {"clusters": 16}}).made().settings()["clusters"]
        16
        """
        names = [field.name for field in dataclasses.fields(cls)]
        for name in document:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                guess = f" Did you mean {near[0]!r}?" if near else f" There are {', '.join(names)}."
                raise ArgumentError(f"there is no setting {name!r}.{guess}")
        return cls(**document)


_OPTIONAL: Mapping[str, Any] = {"data_dir": "", "workers": 1}  # None unless given; else of these kinds


def of_kind(name: str, value: object, example: object) -> None:
    """ArgumentError unless the value is of the example's kind; a whole number will do for any number.

    >>> of_kind("fedcode.clusters", 64, 32)
    """
    kinds = ((bool, bool, "true or false"), (int, int, "a whole number"), (float, int | float, "a number"))
    for of, allowed, words in (*kinds, (str, str, "a text")):
        if isinstance(example, of):
            if not isinstance(value, allowed) or (isinstance(value, bool) and of is not bool):
                raise ArgumentError(f"{name} is {words}, {example!r} unless given: got {value!r}.")
            return


def check_unchanged(before: Mapping[str, Any], now: Config, place: object) -> None:
    """RunError where a run that is there cannot go on with these settings, which decide what comes of it."""
    document = {name: value for name, value in now.document().items() if name not in HOW}
    for name, value in document.items():
        was = before.get(name)
        if was != value:
            if isinstance(was, Mapping) and isinstance(value, Mapping):
                name, was, value = next(
                    (f"{now.method}.{part}", was.get(part), value.get(part))
                    for part in [*value, *was]
                    if was.get(part) != value.get(part)
                )
            raise RunError(
                f"{place} holds a run with {name} = {was!r}; it cannot go on with {value!r}. "
                "Leave that as it was, or choose another directory."
            )


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        near = difflib.get_close_matches(str(value), choices, 1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise ArgumentError(f"{name} must be one of {', '.join(choices)}: got {value!r}.{guess}")


def _check(condition: bool, name: str, expected: str, got: object) -> None:
    if not condition:
        raise ArgumentError(f"{name} must be {expected}: got {got!r}.")
