"""Values of any dtype and layout as one row of float32, and rows that come a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from fedcode.errors import NonFiniteError
from fedcode.row import BLOCK, row_of
from fedcode.streamed import streamed

SIZE = 2 * BLOCK + 1000
VALUES = np.random.default_rng(2).standard_normal(SIZE)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f2", ">f4", "longdouble"])
def test_blocks_are_native_float32(dtype: str) -> None:
    row = row_of(VALUES.astype(dtype))
    found = [(place, block.copy()) for place, block in row.blocks(0, row.size)]
    assert [place for place, _ in found] == [0, BLOCK, 2 * BLOCK]
    assert {block.dtype for _, block in found} == {np.dtype(np.float32)}
    assert all(block.dtype.isnative and block.flags.c_contiguous for _, block in found)
    assert np.array_equal(np.concatenate([block for _, block in found]), VALUES.astype(dtype).astype(np.float32))


def test_bfloat16_is_widened_exactly() -> None:
    tensor = torch.from_numpy(VALUES).to(torch.bfloat16)
    row = row_of(tensor)
    assert row.brain
    assert np.array_equal(row.read(7, 500, 3), tensor.float().numpy()[7:500:3])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_slice_of_a_strided_array_is_in_reading_order(dtype: type) -> None:
    array: npt.NDArray[Any] = VALUES[:600].astype(dtype).reshape(20, 30).T
    assert np.array_equal(row_of(array).read(3, 100, 7), array.reshape(-1)[3:100:7].astype(np.float32))


def test_extremes() -> None:
    assert row_of(VALUES).extremes() == (float(np.float32(VALUES.min())), float(np.float32(VALUES.max())))


@pytest.mark.parametrize("places", [[0], [BLOCK - 1, BLOCK], [2 * BLOCK + 999], list(range(100, SIZE, 1000))])
def test_what_is_not_finite_is_counted_over_all_blocks(places: list[int]) -> None:
    values = VALUES.astype(np.float32)
    values[places] = [np.nan, np.inf, -np.inf][len(places) % 3]
    with pytest.raises(NonFiniteError, match=f"^{len(places)} of {SIZE} .* the first at index {places[0]}. "):
        row_of(values).extremes()


def test_each_adds_up_over_blocks_whatever_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    row = row_of(VALUES.astype(np.float32))
    sizes = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("FEDCODE_THREADS", threads)
        seen: list[int] = []

        def work(block: npt.NDArray[np.float32], seen: list[int] = seen) -> int:
            seen.append(block.size)
            return int((block > 0).sum())

        assert row.each(work, 100_000) == int((VALUES.astype(np.float32) > 0).sum())
        sizes.append(sorted(seen))
    assert sizes == [sorted([SIZE % 100_000] + [100_000] * (SIZE // 100_000))] * 3


def test_a_stream_reads_like_the_row_that_it_is() -> None:
    values = VALUES.astype(np.float32)
    whole = row_of(values)

    def source() -> Iterator[Any]:
        buffer = np.empty(70_001, np.float32)
        for place in range(0, SIZE, buffer.size):
            part = values[place : place + buffer.size]
            buffer[: part.size] = part
            yield buffer[: part.size]
            buffer[:] = np.nan  # whoever keeps a block finds it overwritten

    stream = streamed(source, SIZE)
    assert (stream.size, stream.shape, stream.extremes()) == (SIZE, (SIZE,), whole.extremes())
    for start, stop, step in ((0, SIZE, 1), (0, SIZE, 333), (70_000, 70_003, 1), (69_999, 400_000, 70_001), (5, 5, 1)):
        assert np.array_equal(stream.read(start, stop, step), values[start:stop:step])
    assert stream.each(lambda block: int((block > 0).sum())) == int((values > 0).sum())
    assert stream.over(lambda start, stop: (start, stop)) == [(0, SIZE)]
