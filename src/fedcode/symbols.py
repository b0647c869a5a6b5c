"""Whole numbers below a known bound, entropy coded: what labels, differences of labels and maps of bits share.

pcodec sorts numbers into bins and leaves two things undone that its caller can do. It spends up to a tenth of a
bit a number to get by with a single bin; moving the upper half of the symbols up (SPLIT) makes that bin too
dear. And it needs a bin for every symbol where neighbours differ much in frequency; numbered by falling
frequency (RANKED), neighbours are alike. Both are used where the histogram says that they pay.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from fedcode.errors import MessageError
from fedcode.kernels import kernel
from fedcode.lookup import look_up
from fedcode.packing import Labels, label_type
from fedcode.reader import Buffer, Reader, varint
from fedcode.streams import compress, decompress, joined, pages

SPLIT, RANKED = 16, 32

# What pcodec's table says of one bin, in bits; and how many bits a number it gives away for a single bin.
BIN = 30
_SINGLE = 0.12

# So few symbols are counted by comparing, which a processor does for many at once; so many may be worth ranking.
_FEW, _MANY = 4, 32


@dataclass(frozen=True, eq=False)
class Survey:
    """How often each symbol of a row occurs, page by page."""

    row: Labels
    k: int
    counts: npt.NDArray[np.int64]  # one row for each of `pages(len(row))`

    @classmethod
    def of(cls, row: Labels, k: int) -> Survey:
        """Count the symbols of a row that holds at least one."""
        edges = np.cumsum([0, *pages(row.size)])
        counts = np.empty((len(edges) - 1, k), np.int64)
        if k <= _FEW:
            _count_few(row, edges, counts)
        else:
            _count(row, edges, counts)
        return cls(row, k, counts)

    @cached_property
    def paged(self) -> npt.NDArray[np.int64]:
        """The counts of the pages that the symbols are coded in: those counted, or several of them joined."""
        bits = float(entropies(self.counts.sum(0, keepdims=True))[0])
        paged: npt.NDArray[np.int64] = np.add.reduceat(self.counts, joined(len(self.counts), bits), axis=0)
        return paged

    @property
    def page_sizes(self) -> list[int]:
        """The sizes of these pages."""
        sizes: list[int] = self.paged.sum(1).tolist()
        return sizes

    @cached_property
    def bits(self) -> npt.NDArray[np.float64]:
        """The order-0 entropy of each page in bits, which no coding by `encode_symbols` can undercut."""
        return entropies(self.paged)

    @property
    def floor(self) -> int:
        """That entropy in bytes, rounded down."""
        return int(self.bits.sum() / 8 * (1 - 1e-9))


def entropies(counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The order-0 entropy of each row of counts, in bits for all that is counted there.

    >>> entropies(np.array([[4, 4], [8, 0]]))
    array([8., 0.])
    """
    totals = counts.sum(1)
    logs = np.log2(np.maximum(counts, 1))
    bits: npt.NDArray[np.float64] = totals * np.log2(np.maximum(totals, 1)) - (counts * logs).sum(1)
    return np.maximum(bits, 0)


def encode_symbols(survey: Survey) -> tuple[int, bytes]:
    """The form, SPLIT and RANKED or neither of them, and the bytes.

    >>> survey = Survey.of(np.arange(2000, dtype=np.uint8) % 5, 5)
    >>> form, data = encode_symbols(survey)
    >>> bool((decode_symbols(data, form, 2000, 5) == survey.row).all())
    True
    """
    form, head, row, k, paged = 0, b"", survey.row, survey.k, survey.paged
    total = survey.counts.sum(0)
    if _ranking_pays(total, len(paged), float(survey.bits.sum())):
        form |= RANKED
        order = _by_frequency(total)
        rank = np.zeros(k, np.int64)
        rank[order] = np.arange(order.size)
        head += varint(order.size) + order.astype(f"<u{label_type(k)().itemsize}").tobytes()
        row = look_up(rank.astype(_stream_type(0, order.size)), row)
        k, paged, total = order.size, paged[:, order], total[order]
    if _single_bin_costs(paged, survey.bits):
        form |= SPLIT
        pivot = _pivot(total)
        head += varint(pivot)
        numbers = np.arange(k)
        row = look_up((numbers + k * (numbers >= pivot)).astype(_stream_type(form, k)), row)
    bodies = (compress(row, survey.page_sizes, level) for level in _levels(paged, float(survey.bits.sum())))
    return form, head + min(bodies, key=len)


def decode_symbols(data: Buffer, form: int, count: int, k: int) -> Labels:
    """The `count` symbols below `k` that `encode_symbols` wrote."""
    reader = Reader(data, "a stream of symbols")
    table: npt.NDArray[Any] | None = None
    used = k
    if form & RANKED:
        used = reader.varint(k)
        table = np.frombuffer(reader.take(used * label_type(k)().itemsize), f"<u{label_type(k)().itemsize}")
        if not used or int(table.max()) >= k:
            raise MessageError(f"a stream's table of {used} symbols does not fit the {k} that there are.")
    pivot = reader.varint(used) if form & SPLIT else 0
    row: Labels = decompress(reader.take(reader.left), count, _stream_type(form, used))
    if form & SPLIT:
        numbers = np.full(2 * used, used, np.int64)  # `used` where the encoder leaves a gap
        numbers[:pivot] = np.arange(pivot)
        numbers[used + pivot :] = np.arange(pivot, used)
        row = look_up(numbers.astype(_stream_type(0, used + 1)), _below(row, 2 * used))
    row = _below(row, used)
    if table is not None:
        row = look_up(table.astype(label_type(k)), row)
    labels: Any = row.astype(label_type(k), copy=False)
    return cast(Labels, labels)


def _below(row: Labels, k: int) -> Labels:
    if k <= np.iinfo(row.dtype).max and int(row.max()) >= k:
        raise MessageError(f"a symbol of a stream is {int(row.max())} where there are {k}.")
    return row


def _stream_type(form: int, k: int) -> npt.DTypeLike:
    top = (2 * k if form & SPLIT else k) - 1
    return np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.uint32


def _by_frequency(total: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The symbols that occur, the most frequent first."""
    return np.argsort(-total, kind="stable")[: int((total > 0).sum())]


def _ranking_pays(total: npt.NDArray[np.int64], page_count: int, bits: float) -> bool:
    """Whether bins fit the symbols so much better in the order of their frequency that a table of it pays."""
    order = _by_frequency(total)
    if order.size < _MANY:
        return False
    table = 8 * label_type(total.size)().itemsize * order.size
    return _binned(total, page_count) > _binned(total[order], page_count) + table + bits / 600


def _levels(paged: npt.NDArray[np.int64], bits: float) -> tuple[int, ...]:
    """pcodec's levels that are worth trying: the number of bins that it chooses from, as a power of two."""
    if paged.shape[1] > 256 and bits > 6 * int(paged.sum()):
        return (9,)  # more bring next to nothing where many symbols are frequent, and take long to choose from
    total = paged.sum(0)
    rarest = int(total[total > 0].min())
    alone = bits + BIN * int((paged > 0).sum())
    # where every symbol can have a bin of its own pcodec makes it so, though the table may cost more than it saves
    dear = rarest << 12 >= int(total.sum()) and alone > _binned(total, len(paged)) + bits / 400
    return (11, 9) if dear else (11,)


def _binned(total: npt.NDArray[np.int64], page_count: int) -> float:
    """About what symbols cost in bits with the best bins: dyadic ranges, each with its own number of offset bits."""
    size = 1 << (total.size - 1).bit_length()
    counts = np.zeros(size)
    counts[: total.size] = total
    low = np.where(counts > 0, np.arange(size), size)
    high = np.where(counts > 0, np.arange(size), -1)
    whole, table = float(counts.sum()), BIN * page_count
    best = _bin_costs(counts, whole, table)
    while best.size > 1:
        counts = counts[::2] + counts[1::2]
        low, high = np.minimum(low[::2], low[1::2]), np.maximum(high[::2], high[1::2])
        offsets = np.ceil(np.log2(np.maximum(high - low + 1, 1)))
        best = np.minimum(best[::2] + best[1::2], _bin_costs(counts, whole, table) + counts * offsets)
    return float(best[0])


def _bin_costs(counts: npt.NDArray[np.float64], whole: float, table: float) -> npt.NDArray[np.float64]:
    costs: npt.NDArray[np.float64] = counts * np.log2(whole / np.maximum(counts, 1)) + table * (counts > 0)
    return costs


def _single_bin_costs(paged: npt.NDArray[np.int64], bits: npt.NDArray[np.float64]) -> bool:
    """Whether pcodec would give away more than a thousandth by coding pages as plain offsets."""
    sizes = paged.sum(1)
    present = paged > 0
    first = present.argmax(1)
    last = paged.shape[1] - 1 - present[:, ::-1].argmax(1)
    width = np.ceil(np.log2(last - first + 1))
    loss = sizes * width - bits
    table = BIN * present.sum(1)
    given_away = loss[(loss < _SINGLE * sizes + table)]
    return float(given_away.sum()) > 0.001 * float(bits.sum()) + 8 * 8


def _pivot(total: npt.NDArray[np.int64]) -> int:
    """The symbol that half of all are below, but not the lowest that occurs."""
    below = np.cumsum(total)
    pivot = int(np.searchsorted(below, below[-1] / 2, side="right"))
    lowest = int((total > 0).argmax())
    return max(pivot, lowest + 1)


def _count_few(row: Labels, edges: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> None:
    for page, (start, stop) in enumerate(itertools.pairwise(edges)):
        for symbol in range(counts.shape[1]):
            counts[page, symbol] = np.count_nonzero(row[start:stop] == symbol)


def _count_plainly(row: Any, edges: Any, counts: Any) -> None:
    for page in range(len(counts)):
        counts[page] = np.bincount(row[edges[page] : edges[page + 1]], minlength=counts.shape[1])


@kernel(plain=_count_plainly)
def _count(row: Any, edges: Any, counts: Any) -> None:
    # Four tables, so that equal neighbours do not wait for each other. A page is shorter than 2^32.
    k = counts.shape[1]
    first, second = np.empty(k, np.uint32), np.empty(k, np.uint32)
    third, fourth = np.empty(k, np.uint32), np.empty(k, np.uint32)
    one = np.uint32(1)
    for page in range(counts.shape[0]):
        first[:], second[:], third[:], fourth[:] = 0, 0, 0, 0
        part = row[edges[page] : edges[page + 1]]
        whole = part.size // 4 * 4
        for i in range(0, whole, 4):
            first[part[i]] += one
            second[part[i + 1]] += one
            third[part[i + 2]] += one
            fourth[part[i + 3]] += one
        for i in range(whole, part.size):
            first[part[i]] += one
        for symbol in range(k):
            counts[page, symbol] = np.int64(first[symbol]) + second[symbol] + third[symbol] + fourth[symbol]
