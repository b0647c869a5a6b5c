"""A layout as bytes: whatever a model is made of comes back, and bytes that lie are refused before they cost much."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcode.errors import ArgumentError, MessageError
from fedcode.layout import DTYPES, FLOATS, MAX_VALUES, Entry, Kind, Layout
from fedcode.reader import text, varint


def entries() -> st.SearchStrategy[Entry]:
    def made(name: str, shape: list[int], dtype: str, kind: Kind) -> Entry:
        return Entry(name, tuple(shape), dtype, kind if dtype in FLOATS else Kind.COUNTER)

    names = st.text(st.characters(codec="utf-8"), max_size=20)
    kinds = st.sampled_from([Kind.WEIGHT, Kind.STATISTIC, Kind.VARIANCE])
    return st.builds(made, names, st.lists(st.integers(0, 9), max_size=5), st.sampled_from(DTYPES), kinds)


@settings(deadline=None)
@given(st.lists(entries(), max_size=12, unique_by=lambda entry: entry.name), st.data())
def test_any_layout_comes_back(found: list[Entry], data: st.DataObject) -> None:
    tied = list(found)
    for index, entry in enumerate(found):
        if data.draw(st.booleans()):
            tied.append(Entry(f"{entry.name} again {index}", entry.shape, entry.dtype, entry.kind, entry.name))
    names = [entry.name for entry in tied]
    layout = Layout(tuple(entry for entry in tied if names.count(entry.name) == 1 or entry.tied is None))
    back = Layout.from_bytes(layout.to_bytes())
    assert back == layout
    assert back.fingerprint == layout.fingerprint
    places = sorted((place.start, place.stop) for name, place in back.places.items() if _floats(back, name))
    covered = 0
    for start, stop in dict.fromkeys(places):
        assert start in (covered, stop)
        covered = max(covered, stop)
    assert covered == back.values == sum(e.size for e in back.entries if e.tied is None and e.kind != Kind.COUNTER)


def _floats(layout: Layout, name: str) -> bool:
    return next(entry.kind != Kind.COUNTER for entry in layout.entries if entry.name == name)


def test_the_fingerprint_tells_apart_all_that_matters() -> None:
    one = Entry("w", (2, 3), "float32", Kind.WEIGHT)
    two = Entry("v", (2, 3), "float32", Kind.WEIGHT)
    layouts = [
        Layout(()),
        Layout((one,)),
        Layout((one, two)),
        Layout((two, one)),
        Layout((one, Entry("v", (2, 3), "float32", Kind.WEIGHT, "w"))),
        Layout((Entry("w", (3, 2), "float32", Kind.WEIGHT),)),
        Layout((Entry("w", (6,), "float32", Kind.WEIGHT),)),
        Layout((Entry("w", (2, 3), "float16", Kind.WEIGHT),)),
        Layout((Entry("w", (2, 3), "float32", Kind.STATISTIC),)),
    ]
    assert len({layout.fingerprint for layout in layouts}) == len(layouts)
    assert len(layouts[0].fingerprint) == 8


def test_a_large_model_takes_few_bytes() -> None:
    rows = [Entry(f"layers.{i}.attention.weight", (4096, 4096), "bfloat16", Kind.WEIGHT) for i in range(2000)]
    layout = Layout(tuple(rows))
    assert len(layout.to_bytes()) < 8 * len(rows)
    assert Layout.from_bytes(layout.to_bytes()) == layout


def test_a_layout_that_shrinks_too_well_is_stored_as_it_is() -> None:
    """Otherwise its reader would take it for an attack."""
    layout = Layout(tuple(Entry("x" * i, (1,), "float32", Kind.WEIGHT) for i in range(1, 2000)))
    assert Layout.from_bytes(layout.to_bytes()) == layout


@pytest.mark.parametrize("data", [3, "text", None])
def test_what_is_no_bytes_is_an_error_of_the_caller(data: Any) -> None:
    with pytest.raises(ArgumentError, match="the layout is read from bytes, got"):
        Layout.from_bytes(data)


# ---- bytes that lie


def entry(
    name: str = "w", kind: int = 0, dtype: int = 0, tied: int = 0, shape: Sequence[int] = (2,), dimensions: int = -1
) -> bytes:
    """One entry as bytes, which may say anything."""
    out = text(name) + bytes((kind, dtype)) + varint(tied)
    return out + varint(len(shape) if dimensions < 0 else dimensions) + b"".join(map(varint, shape))


def packed(*rows: bytes, count: int = -1, size: int = -1, end: bytes = b"") -> bytes:
    """Entries as a layout."""
    plain = varint(len(rows) if count < 0 else count) + b"".join(rows) + end
    return varint(len(plain) if size < 0 else size) + zlib.compress(plain)


def test_what_is_true_is_read() -> None:
    assert Layout.from_bytes(packed(entry())).entries == (Entry("w", (2,), "float32", Kind.WEIGHT),)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "cut short"),
        (b"\x05", "the layout is damaged"),
        (b"\x05zzzzz", "the layout is damaged"),
        (packed(entry())[:-1], "the layout is damaged"),
        (packed(entry()) + b"x", "does not hold just"),
        (packed(entry(), size=3), "does not hold just the 3 bytes"),
        (packed(entry(), size=300), "does not hold just the 300 bytes"),
        (varint(1 << 27), "at most 67108864 is possible"),
        (varint(1 << 20) + zlib.compress(bytes(1 << 20)), "declares 1048576 bytes in a stream of"),
        (packed(count=1 << 21), "holds 2097152 where at most 1048576"),
        (packed(count=1 << 20), "declares 1048576 entries in a stream of"),
        (packed(entry(), count=2), "cut short"),
        (packed(entry(), end=b"\0"), "1 bytes too many"),
        (packed(entry(), entry()), "names 'w' twice"),
        (packed(entry(kind=4)), "kind or dtype that does not exist"),
        (packed(entry(dtype=13)), "kind or dtype that does not exist"),
        (packed(entry(kind=3)), "calls 'w', float32, a counter"),
        (packed(entry(dtype=4)), "calls 'w', int64, a weight"),
        (packed(entry(tied=1)), "holds 1 where at most 0"),
        (packed(entry(), entry("v", tied=1, shape=(3,))), "ties 'v' to an entry that it cannot be the same as"),
        (packed(entry(), entry("v", tied=1), entry("u", tied=2)), "ties 'u'"),
        (packed(entry(dimensions=33)), "holds 33 where at most 32"),
        (packed(entry(shape=(MAX_VALUES + 1,))), "where at most 1099511627776"),
        (packed(entry(shape=(1 << 30, 1 << 30))), "more values than any model has"),
        (packed(entry(shape=(0, 1 << 30, 1 << 30))), "more values than any model has"),
        (packed(*(entry(str(i), shape=(1 << 39,)) for i in range(3))), "up to '2' hold more values"),
        (packed(b"\x01\xff" + bytes(5)), "not UTF-8"),
        (packed(entry("x" * 5000)), "holds 5000 where at most 4096"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_lies_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(MessageError, match=said):
        Layout.from_bytes(data)
