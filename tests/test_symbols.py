"""Symbols close to their entropy, whatever their frequencies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcode import symbols
from fedcode.coding import decode_labels, encode_labels
from fedcode.errors import MessageError
from fedcode.packing import label_type
from fedcode.reader import varint
from fedcode.streams import PAGE, compress
from fedcode.symbols import RANKED, SPLIT, Survey, decode_symbols, encode_symbols


def narrow(row: Any, k: int) -> Any:
    """The same in the dtype that labels of `k` centres have."""
    return row.astype(label_type(k))


def entropy(row: Any) -> tuple[float, int]:
    """The order-0 entropy of a whole row in bytes, and how many symbols occur in it."""
    counts = np.bincount(row)
    counts = counts[counts > 0]
    total = counts.sum()
    return float((counts * np.log2(total / counts)).sum()) / 8, len(counts)


def sources(count: int, k: int, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Labels as they are, and as somebody would make them to show that this codes badly."""
    for width in (0.02, 0.12, 0.3, 1.0):
        yield f"normal {width}", np.clip(np.rint(rng.normal(k / 2, max(k * width, 0.3), count)), 0, k - 1)
    yield "laplace", np.clip(np.rint(rng.laplace(k / 2, max(k * 0.08, 0.25), count)), 0, k - 1)
    for share in (0.97, 0.5, 0.1):
        yield f"geometric {share}", np.minimum(rng.geometric(share, count) - 1, k - 1)
    for power in (1.0, 1.5, 2.5):
        chances = 1 / np.arange(1, k + 1) ** power
        drawn = rng.choice(k, count, p=chances / chances.sum())
        yield f"power {power}", drawn
        yield f"power {power}, in any order", rng.permutation(k)[drawn]
    yield "even", rng.integers(0, k, count)
    yield "any frequencies", rng.choice(k, count, p=rng.dirichlet(np.full(k, 0.3)))
    for share in (0.9, 0.99):
        yield f"{share} of one", np.where(rng.random(count) < share, k // 2, rng.integers(0, k, count))
    yield "drifting", np.clip(np.rint(rng.normal(np.linspace(0.3, 0.6, count) * k, k * 0.05 + 0.3)), 0, k - 1)


@pytest.mark.parametrize("k", [2, 3, 5, 16, 64, 100, 256, 300, 1000, 4096])
@pytest.mark.parametrize("count", [30_000, 300_000, 1_200_000])
def test_labels_cost_half_a_per_cent_above_their_entropy_at_most(k: int, count: int) -> None:
    if count > 1_000_000 and k not in (3, 64, 300):
        count = 600_000
    tried = 0
    for name, numbers in sources(count, k, np.random.default_rng(k + count)):
        row = narrow(numbers, k)
        least, distinct = entropy(row)
        bits = 8 * least / count
        if 0.01 <= bits <= 8:
            size = len(encode_labels(row, k))
            most = least * (1.005 if bits >= 0.1 else 1.02) + 64 + 4 * distinct
            assert size <= most, f"{name}: {size} bytes for {least:.0f} bytes of entropy, {distinct} distinct"
            tried += 1
    assert tried > 8


def test_long_rows_of_next_to_nothing_cost_two_per_cent_at_most() -> None:
    rng = np.random.default_rng(5)
    for share in (0.01, 0.003, 0.001):
        row = (rng.random(3_000_000) < share).astype(np.uint8)
        least, _ = entropy(row)
        assert len(encode_labels(row, 2)) <= 1.02 * least + 72


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_symbols_come_back_in_any_form(data: st.DataObject) -> None:
    k = data.draw(st.one_of(st.integers(2, 80), st.integers(2, 1 << 16)))
    seed, width = data.draw(st.integers(0, 1000)), data.draw(st.sampled_from((0.3, 3.0, k / 8, 10.0 * k)))
    row = np.clip(np.rint(np.random.default_rng(seed).normal(k / 2, width, data.draw(st.integers(1, 3000)))), 0, k - 1)
    survey = Survey.of(narrow(row, k), k)
    split, ranked = data.draw(st.booleans()), data.draw(st.booleans())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(symbols, "_single_bin_costs", lambda *_: split)
        patch.setattr(symbols, "_ranking_pays", lambda *_: ranked)
        form, coded = encode_symbols(survey)
    assert form == SPLIT * split + RANKED * ranked
    found = decode_symbols(coded, form, row.size, k)
    assert found.dtype == label_type(k)
    assert np.array_equal(found, row)


def test_what_is_like_neighbours_is_not_ranked_and_what_is_not_is() -> None:
    rng = np.random.default_rng(6)
    chances = 1 / np.arange(1, 301) ** 1.5
    falling = rng.choice(300, 1_000_000, p=chances / chances.sum()).astype(np.uint16)
    mixed = rng.permutation(300).astype(np.uint16)[falling]
    form, data = encode_symbols(Survey.of(falling, 300))
    assert not form & RANKED
    form, ranked = encode_symbols(Survey.of(mixed, 300))
    assert form & RANKED
    assert abs(len(ranked) - len(data) - 2 * 300) < 64


def test_few_symbols_of_many_are_ranked_into_a_narrower_stream_and_come_back() -> None:
    rng = np.random.default_rng(7)
    row = rng.permutation(300)[np.minimum(rng.geometric(0.05, 20_000) - 1, 99)].astype(np.uint16)
    form, data = encode_symbols(Survey.of(row, 300))
    assert form & RANKED
    assert np.array_equal(decode_symbols(data, form, row.size, 300), row)


@pytest.mark.parametrize("k", [2, 4, 5, 64, 300])
@pytest.mark.parametrize("count", [1, 7, 1000, PAGE, PAGE + 1, 3 * PAGE + 5])
def test_symbols_are_counted_page_by_page_in_both_ways(k: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    row = narrow(np.random.default_rng(k).integers(0, k, count), k)
    survey = Survey.of(row, k)
    edges = [count * i // len(survey.counts) for i in range(len(survey.counts) + 1)]
    for page, counts in enumerate(survey.counts):
        assert counts.tolist() == np.bincount(row[edges[page] : edges[page + 1]], minlength=k).tolist()
    monkeypatch.setenv("FEDCODE_NUMBA", "0")
    assert np.array_equal(Survey.of(row, k).counts, survey.counts)


def test_joined_pages_are_those_counted() -> None:
    row = np.zeros(5 * PAGE, np.uint8)
    row[::3000] = 1
    survey = Survey.of(row, 2)
    assert len(survey.page_sizes) < 5
    assert sum(survey.page_sizes) == row.size
    assert survey.paged.sum(0).tolist() == survey.counts.sum(0).tolist()
    form, data = encode_symbols(survey)
    assert np.array_equal(decode_symbols(data, form, row.size, 2), row)


def test_the_floor_is_below_every_size() -> None:
    rng = np.random.default_rng(7)
    for k in (2, 16, 300):
        for _, numbers in sources(3000, k, rng):
            survey = Survey.of(narrow(numbers, k), k)
            assert survey.floor <= len(encode_symbols(survey)[1])


def test_the_plain_path_writes_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    rows = [(k, narrow(numbers, k)) for k in (3, 64, 300) for _, numbers in sources(20_000, k, rng)]
    fast = [encode_labels(row, k) for k, row in rows]
    monkeypatch.setenv("FEDCODE_NUMBA", "0")
    for (k, row), data in zip(rows, fast, strict=True):
        assert encode_labels(row, k) == data
        assert np.array_equal(decode_labels(data, row.size, k), row)


def ranked(table: list[int], row: list[int]) -> bytes:
    return varint(len(table)) + np.array(table, np.uint8).tobytes() + compress(np.array(row, np.uint8))


@pytest.mark.parametrize(
    ("form", "data", "says"),
    [
        (0, compress(np.array([0, 5, 1], np.uint8)), "is 5 where there are 5"),
        (RANKED, ranked([], [0, 0, 0]), "table of 0 symbols"),
        (RANKED, ranked([4, 5], [0, 1, 0]), "does not fit the 5"),
        (RANKED, ranked([4, 3], [0, 2, 0]), "is 2 where there are 2"),
        (RANKED, varint(6) + bytes(40), "at most 5"),
        (SPLIT, varint(6) + bytes(40), "at most 5"),
        (SPLIT, varint(2) + compress(np.array([0, 10, 1], np.uint8)), "is 10 where there are 10"),
        (SPLIT, varint(2) + compress(np.array([0, 3, 1], np.uint8)), "is 5 where there are 5"),  # a gap
        (SPLIT, varint(2) + compress(np.array([0, 6, 1], np.uint8)), "is 5 where there are 5"),  # below the pivot
    ],
)
def test_a_stream_that_lies_is_refused(form: int, data: bytes, says: str) -> None:
    with pytest.raises(MessageError, match=says):
        decode_symbols(data, form, 3, 5)
