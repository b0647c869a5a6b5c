"""What the FedCode paper counts: bits of messages and the data transfer reduction (DTR) of a whole run.

A raw model is 32 P bits. A codebook is 32 K bits and its labels are P ceil(log2 K) bits, whatever really
leaves; headers, statistics and counters are not counted. The paper gives this formula, yet its printed
megabytes fit another count, offered beside it:

                     full message             codebook alone
    "formula"   32 K + P ceil(log2 K)             32 K
    "printed"          P ceil(log2 K)              4 K
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from fedcode.errors import ArgumentError
from fedcode.schedule import full_rounds

Count = Literal["formula", "printed"]

MEGABYTE = 8 * 2**20  # bits: the paper's megabytes are 2^20 bytes


def label_bits(clusters: int) -> int:
    """ceil(log2 K): the bits of one label.

    >>> label_bits(64), label_bits(65)
    (6, 7)
    """
    if clusters < 2:
        raise ArgumentError(f"a codebook has 2 clusters or more, got {clusters}.")
    return (clusters - 1).bit_length()


def raw_bits(parameters: int) -> int:
    """A model of P parameters as it is: 32 P.

    >>> raw_bits(10)
    320
    """
    if parameters < 1:
        raise ArgumentError(f"a model has 1 parameter or more, got {parameters}.")
    return 32 * parameters


def codebook_bits(clusters: int, count: Count = "formula") -> int:
    """A message that holds a codebook alone.

    >>> codebook_bits(64), codebook_bits(64, "printed")
    (2048, 256)
    """
    label_bits(clusters)  # refuses what is no codebook
    return {"formula": 32, "printed": 4}[_known(count)] * clusters


def full_bits(parameters: int, clusters: int, count: Count = "formula") -> int:
    """A message that holds a codebook and a label for each of P parameters.

    >>> full_bits(1000, 64), full_bits(1000, 64, "printed")
    (8048, 6000)
    """
    raw_bits(parameters)  # refuses what is no model
    codebook = codebook_bits(clusters) if _known(count) == "formula" else 0
    return codebook + parameters * label_bits(clusters)


def _known(count: str) -> str:
    if count not in get_args(Count):
        raise ArgumentError(f"the count is one of {', '.join(get_args(Count))}; got {count!r}.")
    return count


@dataclass(frozen=True)
class RunSize:
    """A run of FedCode: M clients that take part in each of R rounds, counted without training anything.

    parameters P, clusters K, downlink F1, uplink F2, start R_cb, rounds R, clients M.

    >>> size = RunSize(parameters=275_572, clusters=64, downlink=0.2, uplink=0.5, start=2, rounds=100)
    >>> size.full_down, size.full_up
    (22, 51)
    >>> round(size.dtr_down, 1), round(size.dtr_up, 1), round(size.dtr_total, 1)
    (24.1, 10.4, 14.6)
    """

    parameters: int
    clusters: int
    downlink: float
    uplink: float
    start: int
    rounds: int
    clients: int = 1
    count: Count = "formula"

    def __post_init__(self) -> None:
        full_bits(self.parameters, self.clusters, self.count)
        if self.rounds < 1 or self.clients < 1:
            raise ArgumentError(
                f"a run has 1 round and 1 client or more; got {self.rounds} rounds, {self.clients} clients."
            )
        full_rounds(self.rounds, self.downlink, self.start)
        full_rounds(self.rounds, self.uplink, self.start)

    @property
    def full_down(self) -> int:
        """Rounds whose broadcast is full."""
        return full_rounds(self.rounds, self.downlink, self.start)

    @property
    def full_up(self) -> int:
        """Rounds whose replies are full."""
        return full_rounds(self.rounds, self.uplink, self.start)

    @property
    def bits_down(self) -> int:
        """Bits from the server to all clients, in all rounds."""
        return self._bits(self.full_down)

    @property
    def bits_up(self) -> int:
        """Bits from all clients to the server, in all rounds."""
        return self._bits(self.full_up)

    @property
    def bits_total(self) -> int:
        """Bits in both directions."""
        return self.bits_down + self.bits_up

    def _bits(self, full: int) -> int:
        whole = full * full_bits(self.parameters, self.clusters, self.count)
        alone = (self.rounds - full) * codebook_bits(self.clusters, self.count)
        return self.clients * (whole + alone)

    @property
    def bits_fedavg(self) -> int:
        """What FedAvg sends in one direction: the raw model every time."""
        return self.clients * self.rounds * raw_bits(self.parameters)

    @property
    def dtr_down(self) -> float:
        """By how much fewer bits leave than FedAvg's, from the server to the clients."""
        return self.bits_fedavg / self.bits_down

    @property
    def dtr_up(self) -> float:
        """The same from the clients to the server."""
        return self.bits_fedavg / self.bits_up

    @property
    def dtr_total(self) -> float:
        """The same in both directions together."""
        return 2 * self.bits_fedavg / self.bits_total

    @property
    def bits_per_parameter(self) -> float:
        """Bits a parameter and message, both directions together; FedAvg's is 32."""
        return 32 / self.dtr_total
