"""Values to codebooks and labels: what comes in, what comes out, the rule, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fedcode
from fedcode.clustering import nearest
from fedcode.errors import ArgumentError, NonFiniteError
from fedcode.row import row_of

Array = npt.NDArray[Any]

RNG = np.random.default_rng(7)
WEIGHTS = (RNG.standard_normal(30_000) * np.repeat(RNG.lognormal(-4, 1, 300), 100)).astype(np.float32)
GREATEST = float(np.finfo(np.float32).max)


def rule(values: Array, centers: Array) -> Array:
    """The rule as it is written down: how many double-precision midpoints lie strictly below the float32 value."""
    wide = centers.astype(np.float64)
    return np.searchsorted((wide[:-1] + wide[1:]) / 2, values.astype(np.float32).astype(np.float64), side="left")


@pytest.fixture(params=["numba", "plain"])
def _path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCODE_NUMBA", str(int(request.param == "numba")))


# What comes in


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", ">f8"])
@pytest.mark.parametrize("k", [5, 300])
def test_every_dtype_is_clustered_as_float32(dtype: str, k: int) -> None:
    values = WEIGHTS.astype(dtype).reshape(100, 3, 100)
    found, expected = fedcode.cluster(values, k), fedcode.cluster(values.astype(np.float32), k)
    assert found.centers.dtype == np.float32
    assert found.labels.shape == values.shape
    error, least = (np.square(book.decode() - values.astype(np.float32)).sum() for book in (found, expected))
    assert error <= least * 1.001
    assert np.array_equal(found.labels.reshape(-1), rule(values.reshape(-1), found.centers))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_tensor_is_clustered_like_its_values(dtype: torch.dtype) -> None:
    tensor = torch.nn.Parameter(torch.from_numpy(WEIGHTS).to(dtype).reshape(300, 100))
    found = fedcode.cluster(tensor, 16)
    wide = tensor.detach().float().numpy()
    assert found.labels.shape == (300, 100)
    assert np.array_equal(found.labels, rule(wide.reshape(-1), found.centers).reshape(wide.shape))
    snapped = fedcode.snap(tensor, found.centers)
    assert (snapped.dtype, snapped.shape) == (dtype, tensor.shape)
    assert torch.equal(snapped, torch.from_numpy(found.decode()).to(dtype))


@pytest.mark.parametrize(
    "cut",
    [lambda x: x.T, lambda x: x[::-1], lambda x: x[::3, 1:], lambda x: x[:, 0], lambda x: x[:1, 0].reshape(())],
    ids=["transposed", "backwards", "strided", "column", "no dimension"],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_layout_in_memory(cut: Callable[[Array], Array], dtype: type) -> None:
    values = cut(WEIGHTS.reshape(150, 200).astype(dtype))
    found, expected = fedcode.cluster(values, 9), fedcode.cluster(values.copy(order="C"), 9)
    assert np.array_equal(found.centers, expected.centers)
    assert np.array_equal(found.labels, expected.labels)
    assert found.labels.shape == values.shape


def test_what_comes_in_stays_as_it_is() -> None:
    for values in (WEIGHTS.copy(), WEIGHTS[:100].copy(), WEIGHTS.astype(np.float64)):
        before = values.copy()
        values.flags.writeable = False
        fedcode.snap(values, fedcode.cluster(values, 4).centers)
        fedcode.cluster(values, bits=1)
        assert np.array_equal(values, before)


# What comes out


@pytest.mark.parametrize(
    ("k", "dtype"), [(2, np.uint8), (np.uint8(64), np.uint8), (256, np.uint8), (257, np.uint16), (4096, np.uint16)]
)
def test_centers_ascend_and_labels_are_as_small_as_they_can_be(k: int, dtype: type) -> None:
    found = fedcode.cluster(WEIGHTS, k)
    assert found.k == found.centers.size == k
    assert (np.diff(found.centers) > 0).all()
    assert found.labels.dtype == dtype
    assert np.array_equal(np.unique(found.labels), np.arange(k))
    assert np.array_equal(found.decode(), found.centers[found.labels])


@pytest.mark.usefixtures("_path")
@pytest.mark.parametrize("k", [2, 64, 1000])
def test_every_label_is_the_nearest_center(k: int) -> None:
    found = fedcode.cluster(WEIGHTS, k)
    assert np.array_equal(found.labels, rule(WEIGHTS, found.centers))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [50, 10_000])
def test_fewer_distinct_values_than_k_are_kept_as_they_are(count: int, size: int) -> None:
    distinct = np.array([-1e30, -2.5, -1e-42, 0.0, 0.1, 3.0, GREATEST], np.float32)[-count:]
    values = RNG.choice(distinct, size)
    values[:count] = distinct
    found = fedcode.cluster(values, 8)
    assert np.array_equal(found.centers, distinct)
    assert np.array_equal(found.decode(), values)


def test_a_value_alone_in_its_cluster_is_its_center_to_the_bit() -> None:
    values = RNG.choice(np.array([-3e20, -1e20, 0.1, 0.2, 1e20], np.float32), 10_000)
    found = fedcode.cluster(values, 4)
    assert np.array_equal(found.centers[[0, 1, 3]], np.array([-3e20, -1e20, 1e20], np.float32))
    assert found.centers[2] == pytest.approx(values[np.abs(values) < 1].mean(dtype=np.float64))


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -3e-45, GREATEST, -GREATEST])
@pytest.mark.parametrize("size", [1, 3, 5000])
def test_a_constant_has_one_center(value: float, size: int) -> None:
    every: list[dict[str, Any]] = [{"k": 2}, {"k": 64}, {"bits": 0.05}, {"bits": 6.0}]
    for options in every:
        found = fedcode.cluster(np.full(size, value, np.float32), **options)
        assert np.array_equal(found.centers, np.array([value], np.float32))
        assert not found.labels.any()


@pytest.mark.parametrize("scale", [1e-44, 1e-40, 1e-36, 1e36])
def test_denormal_and_huge_values(scale: float) -> None:
    values = (RNG.standard_normal(20_000) * scale).astype(np.float32)
    found = fedcode.cluster(values, 8)
    wide, decoded = values.astype(np.float64), found.decode().astype(np.float64)
    signal = 10 * np.log10((wide**2).sum() / ((wide - decoded) ** 2).sum())
    assert 14.3 < signal < 14.8  # a Gaussian at 8 centres: 14.62 dB
    assert np.array_equal(found.labels, rule(values, found.centers))


@pytest.mark.parametrize("outlier", [1e3, 1e9, 1e20, -1e37])
def test_a_huge_outlier_gets_a_center_and_the_rest_the_others(outlier: float) -> None:
    values = RNG.standard_normal(20_000).astype(np.float32)
    least = np.square(fedcode.cluster(values, 15).decode() - values).sum()
    found = fedcode.cluster(np.append(values, np.float32(outlier)), 16)
    assert found.decode()[-1] == np.float32(outlier)
    assert np.square(found.decode()[:-1] - values).sum() <= 1.001 * least


def test_the_same_bits_whatever_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.resize(WEIGHTS, 1_000_000) * np.linspace(0.5, 1, 1_000_000, dtype=np.float32)
    found = []
    for threads in ("1", "2", "3", "5"):
        monkeypatch.setenv("FEDCODE_THREADS", threads)
        books = fedcode.cluster(values, 64), fedcode.cluster(values, bits=1.5)
        found.append([part.tobytes() for book in books for part in (book.centers, book.labels)])
    assert found == found[:1] * 4


def test_the_order_of_a_few_values_does_not_matter() -> None:
    few = WEIGHTS[:4000]
    ordered, backwards = fedcode.cluster(few, 64), fedcode.cluster(few[::-1], 64)
    assert np.array_equal(ordered.centers, backwards.centers)
    assert np.array_equal(ordered.labels, backwards.labels[::-1])


# The rule

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=150, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=20), st.lists(FLOATS, min_size=1, max_size=30))
@example([1.0, 1.0000001], [1.0, 1.0000001])
@example([-GREATEST, GREATEST], [GREATEST, -GREATEST, 0.0, -0.0])
@example([-1e-45, 0.0, 1e-45], [1e-45, -1e-45, 0.0, -0.0])
@example([0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 1.0])
@example([-1.0, 1.0], [0.0, -0.0])
def test_the_rule_holds_to_the_last_bit(centers: list[float], values: list[float]) -> None:
    ascending = np.sort(np.array(centers, np.float32))
    middles = ((ascending[:-1].astype(np.float64) + ascending[1:]) / 2).astype(np.float32)
    edge = np.concatenate([np.array(values, np.float32), ascending, middles])
    with np.errstate(over="ignore"):
        edge = np.concatenate([edge, np.nextafter(edge, np.float32(np.inf)), np.nextafter(edge, np.float32(-np.inf))])
    edge = edge[np.isfinite(edge)]
    expected = rule(edge, ascending)
    assert np.array_equal(nearest(edge, ascending), expected)  # few values are labelled without a table,
    many = np.resize(edge, 3000)  # and many with one
    assert np.array_equal(nearest(many, ascending), rule(many, ascending))
    assert np.array_equal(fedcode.snap(many, ascending), ascending[rule(many, ascending)])


def test_a_tie_goes_to_the_lower_center() -> None:
    centers = np.array([-3, -1, 0, 4], np.float32)
    assert nearest(np.array([-2, -0.5, 2.0]), centers).tolist() == [0, 1, 2]
    assert nearest(np.resize(np.array([-2, -0.5, 2.0]), 9000), centers)[-3:].tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_snap_keeps_dtype_and_shape(dtype: type) -> None:
    values: Array = WEIGHTS.astype(dtype).reshape(30, 1000)
    centers = fedcode.cluster(values, 40).centers
    snapped = fedcode.snap(values, centers)
    assert (snapped.dtype, snapped.shape) == (values.dtype, values.shape)
    assert np.array_equal(snapped, centers.astype(dtype)[rule(values.reshape(-1), centers)].reshape(values.shape))


WITHOUT_NUMBA = """
import sys, warnings
sys.modules["numba"] = None
warnings.simplefilter("ignore")
import numpy as np
from fedcode.clustering import nearest, snap
rng = np.random.default_rng(3)
for scale in (1e-40, 1e-3, 1.0, 1e30):
    values = (rng.standard_normal(50_000) * scale).astype(np.float32)
    for k in (2, 64, 300, 4096):
        centers = np.sort(rng.choice(values, k))
        sys.stdout.buffer.write(nearest(values, centers).tobytes() + snap(values, centers).tobytes())
"""


def test_without_numba_labels_and_snapped_values_are_the_same() -> None:
    plain, compiled = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for code in (WITHOUT_NUMBA, WITHOUT_NUMBA.replace('sys.modules["numba"] = None', ""))
    )
    assert len(plain) == 4 * 50_000 * (1 + 1 + 2 + 2 + 4 * 4)
    assert plain == compiled


# What is refused


@pytest.mark.parametrize("options", [{"k": 4}, {"bits": 2}])
@pytest.mark.parametrize("size", [10, 700_000])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_counted_and_the_first_is_named(options: Any, size: int, bad: float) -> None:
    values = np.ones((2, size // 2), np.float32)
    values.reshape(-1)[[3, size - 1]] = bad
    said = f"2 of {size} values are NaN or infinite as float32, the first at index 3"
    with pytest.raises(NonFiniteError, match=said):
        fedcode.cluster(values, **options)
    for use in (fedcode.snap, nearest):
        with pytest.raises(NonFiniteError, match=said):
            use(values, [0.5, 1.5])


@pytest.mark.usefixtures("_path")
@pytest.mark.parametrize("where", [0, 2047, 2048, 262_143, 262_144, 299_999])
def test_one_nan_anywhere_is_found(where: int) -> None:
    values = np.zeros(300_000, np.float32)
    values[where] = np.nan
    for use in (lambda: fedcode.cluster(values, 4), lambda: fedcode.snap(values, np.array([0, 1], np.float32))):
        with pytest.raises(NonFiniteError, match=f"1 of 300000 .* index {where}"):
            use()


def test_what_overflows_float32_is_refused() -> None:
    with pytest.raises(NonFiniteError, match=r"1 of 2 .* index 1"):
        fedcode.cluster(np.array([1, 1e39]), 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either k or bits: got k=None and bits=None"),
        ({"k": 4, "bits": 2}, "either k or bits: got k=4 and bits=2"),
        ({"k": 1}, "k must be a whole number from 2 to 4096: got 1"),
        ({"k": -3}, "k must be a whole number from 2 to 4096: got -3"),
        ({"k": 4097}, "k must be a whole number from 2 to 4096: got 4097"),
        ({"k": 64.0}, "k must be a whole number from 2 to 4096: got 64.0"),
        ({"k": "64"}, "k must be a whole number from 2 to 4096: got '64'"),
        ({"bits": 0.04}, "bits must be from 0.05 to 6: got 0.04"),
        ({"bits": 6.1}, "bits must be from 0.05 to 6: got 6.1"),
        ({"bits": np.nan}, "bits must be from 0.05 to 6: got nan"),
        ({"k": 4, "start": [2.0, 1.0]}, "one ascending row"),
        ({"k": 4, "start": [[1.0, 2.0]]}, "one ascending row"),
        ({"k": 2, "start": [1.0, np.nan]}, "NaN"),
    ],
)
def test_settings_that_make_no_sense(options: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        fedcode.cluster(WEIGHTS, **options)


@pytest.mark.parametrize("empty", [[], np.zeros((0, 3), np.float32), torch.zeros(0)])
def test_empty_input(empty: Any) -> None:
    values = np.array(empty, np.float32) if isinstance(empty, list) else empty
    for use in (lambda: fedcode.cluster(values, 2), lambda: fedcode.snap(values, [1.0, 2.0])):
        with pytest.raises(ArgumentError, match="there are no values"):
            use()


@pytest.mark.parametrize("values", [np.arange(3), torch.arange(3), np.array(["a"]), np.ones(2, complex)])
def test_what_is_not_floating_point(values: Any) -> None:
    with pytest.raises(ArgumentError, match="must be floating-point numbers: got"):
        fedcode.cluster(values, 2)


@pytest.mark.parametrize("centers", [[2.0, 1.0], [[1.0]], [], [1.0, np.inf]])
def test_centers_that_are_none(centers: Any) -> None:
    with pytest.raises(ArgumentError):
        fedcode.snap(WEIGHTS, np.array(centers, np.float32))


# Memory


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("options", [{"k": 64}, {"k": 4096}, {"bits": 2.0}])
@pytest.mark.parametrize("strided", [False, True])
def test_extra_memory_is_bounded(dtype: type, options: Any, strided: bool) -> None:
    size = 4_000_000
    values: Array = np.resize(WEIGHTS, 2 * size if strided else size).astype(dtype)[:: 2 if strided else 1]
    fedcode.cluster(values[:10_000], **options)
    assert _most_memory(lambda: fedcode.cluster(values, **options)) <= 1.5 * values.nbytes + 16e6


def test_extra_memory_is_bounded_where_values_are_sorted() -> None:
    clumps = np.array([-1e8, -1.0, 1.0, 1e8]).astype(np.float32)
    values = np.resize(clumps, 4_000_000) * np.resize(1 + np.abs(WEIGHTS) / 1000, 4_000_000)
    assert _most_memory(lambda: fedcode.cluster(values, 64)) <= 1.5 * values.nbytes + 16e6
    assert _most_memory(lambda: fedcode.snap(values, clumps)) <= 1.5 * values.nbytes + 16e6


def _most_memory(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_lies_in_memory_is_not_copied() -> None:
    tensor = torch.nn.Parameter(torch.ones(3, 4))
    halves = torch.ones(5, dtype=torch.bfloat16)
    assert np.shares_memory(row_of(tensor).read(0, 12), tensor.detach().numpy())
    assert np.shares_memory(row_of(halves).array, halves.view(torch.uint16).numpy())
    assert np.shares_memory(row_of(WEIGHTS).read(5, 9), WEIGHTS)
