"""A plan: one experiment at one scale, with these seeds; which cells that are, and what the paper's count says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

from fedcode.errors import ArgumentError
from fedcode.experiments.catalogue import NON_IID, Experiment, Row, experiment
from fedcode.experiments.cell import DIGITS, SCALES, TITLES, Cell
from fedcode.methods import class_of
from fedcode.paper_count import Count, RunSize


@dataclass(frozen=True)
class Line:
    """One line of a table as it is run: a cell for every seed, and those that it is compared with.

    row: the line of the catalogue that it was made from, at the paper's scale.
    """

    label: str
    cells: tuple[Cell, ...]
    against: tuple[Cell, ...]
    row: Row

    def counted(self, count: Count = "formula") -> RunSize | None:
        """The paper's count over the paper's own rounds; None for a method that it gives none for."""
        cell = self.row.cell
        settings = dict(cell.settings)
        if cell.method == "fedavg_ws":
            settings = {"clusters": settings.get("clusters", 64), "downlink": 1.0, "uplink": 1.0, "start": 0}
        elif cell.method != "fedcode" or settings.get("codebook_rounds", "sent") != "sent":
            return None
        return RunSize(
            parameters(cell.network, cell.classes),
            settings["clusters"],
            settings["downlink"],
            settings["uplink"],
            settings["start"],
            self.row.counted or cell.rounds,
            cell.clients_per_round,
            count,
        )


@dataclass(frozen=True)
class Plan:
    """What `fedcode reproduce NAME` was asked for. dataset, rounds: None for the experiment's own.

    beta: Dirichlet's concentration for what is non-IID, in the place of the experiment's own.

    >>> plan = Plan("codebook-silence", dataset="digits", seeds=(0, 1))
    >>> [line.label for line in plan.lines()], len(plan.cells())
    (['FedAvg', 'FedCode', 'FedCode, codebook rounds silent'], 6)
    """

    name: str
    scale: str = "small"
    dataset: str | None = None
    rounds: int | None = None
    beta: float | None = None
    seeds: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    everything: bool = False
    experiment: Experiment = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "experiment", experiment(self.name))
        if self.scale not in SCALES:
            raise ArgumentError(f"the scale is one of {', '.join(SCALES)}: got {self.scale!r}.")
        if self.rounds is not None and self.rounds < 1:
            raise ArgumentError(f"a run has 1 round or more: got {self.rounds}.")
        if self.beta is not None and not self.beta > 0:
            raise ArgumentError(f"beta is above 0: got {self.beta}.")
        for method in self.methods:
            class_of(method)  # says so where there is none
        if {row.cell.dataset for row in self.experiment.rows(self.everything)} == {self.dataset}:
            object.__setattr__(self, "dataset", None)  # it is the experiment's own
        if not self.seeds:
            object.__setattr__(self, "seeds", self.experiment.seeds)

    def lines(self) -> list[Line]:
        """The lines of the table, each once."""
        rows = list(self.experiment.rows(self.everything))
        if any(row.cell.dataset == self.dataset for row in rows):
            rows = [row for row in rows if row.cell.dataset == self.dataset]
        lines: dict[str, Line] = {}
        for row in rows:
            cells = self._cells(row.cell)
            label = row.label.format(dataset=cells[0].title)
            wanted = not self.methods or row.against is None or row.cell.method in self.methods
            if wanted and label not in lines:
                lines[label] = Line(label, cells, self._cells(row.against) if row.against else (), row)
        return list(lines.values())

    def cells(self) -> list[Cell]:
        """Every cell to run, each once: all of one seed before the next, what others are compared with first."""
        lines = self.lines()
        several = [
            [cell for line in lines for cell in (*line.against[n : n + 1], line.cells[n])]
            for n in range(len(self.seeds))
        ]
        return list(dict.fromkeys(cell for of_seed in several for cell in of_seed))

    def _cells(self, cell: Cell) -> tuple[Cell, ...]:
        moved = (cell.on(self.dataset) if self.dataset else cell).at(self.scale)
        if self.rounds is not None:
            moved = replace(moved, rounds=self.rounds)
        if self.beta is not None and cell.beta == NON_IID:
            moved = replace(moved, beta=self.beta)
        return tuple(replace(moved, seed=seed) for seed in self.seeds)

    @property
    def key(self) -> str:
        """What tells plans of one experiment apart: their results never share a table.

        >>> Plan("small-iid", dataset="digits").key, Plan("small-iid", scale="paper", rounds=2).key
        ('digits', 'paper, 2 rounds')
        """
        parts = [DIGITS] if self.dataset == DIGITS else [self.scale, *([self.dataset] if self.dataset else [])]
        parts += [f"{self.rounds} round{'s'[: self.rounds > 1]}"] if self.rounds else []
        parts += [f"beta {self.beta:g}"] if self.beta else []
        return ", ".join(parts)

    @property
    def shown(self) -> str:
        """The key as people read it.

        >>> Plan("figure-epochs", dataset="cifar10", rounds=2).shown, Plan("figure-epochs", dataset="digits").shown
        ('small scale, CIFAR-10, 2 rounds', 'digits')
        """
        first, *others = self.key.split(", ")
        return ", ".join([first if first == DIGITS else f"{first} scale", *(TITLES.get(part, part) for part in others)])

    def and_also(self, other: Plan) -> Plan:
        """Both plans of one key as one."""
        assert (self.name, self.key) == (other.name, other.key)
        methods = () if not (self.methods and other.methods) else _union(self.methods, other.methods)
        everything = self.everything or other.everything
        return replace(self, seeds=_union(self.seeds, other.seeds), methods=methods, everything=everything)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        document = asdict(self)
        del document["experiment"]
        return document

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Plan:
        """What `document` gave.

        >>> plan = Plan("small-iid", rounds=3)
        >>> Plan.of(plan.document()) == plan
        True
        """
        return cls(**{**document, "seeds": tuple(document["seeds"]), "methods": tuple(document["methods"])})


@cache
def parameters(network: str, classes: int) -> int:
    """P: how many trained parameters a network has.

    >>> parameters("resnet20", 10)
    269722
    """
    import torch

    from fedcode import models

    with torch.device("meta"):  # shapes alone
        made = getattr(models, network)(classes)
    return sum(values.numel() for values in made.parameters())


def _union(a: Iterable[Any], b: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted({*a, *b}))
