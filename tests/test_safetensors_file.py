"""The format against its reference implementation, and against files that are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fedcode import safetensors_file
from fedcode.errors import DataError
from fedcode.layout import Entry, Kind
from fedcode.pieces import joined

STATE = {
    "w": torch.randn(3, 5),
    "half": torch.randn(7).half(),
    "brain": torch.randn(4, 2).bfloat16(),
    "double": torch.randn(2, dtype=torch.float64),
    "steps": torch.tensor(3),
    "mask": torch.tensor([True, False, True]),
    "small": torch.tensor([-3, 4], dtype=torch.int8),
    "empty": torch.zeros(0, 4),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_file(STATE, path)
    return path


def values(tensor: safetensors_file.Tensor) -> Any:
    pieces = list(tensor.pieces())
    return np.concatenate(pieces).reshape(tensor.shape) if pieces else np.empty(tensor.shape)


def assert_same(checkpoint: safetensors_file.Checkpoint) -> None:
    assert set(checkpoint.by_name) == set(STATE)
    for name, expected in STATE.items():
        tensor = checkpoint.by_name[name]
        assert tensor.dtype == str(expected.dtype).removeprefix("torch.")
        wide = expected.float() if expected.dtype == torch.bfloat16 else expected
        np.testing.assert_array_equal(values(tensor), wide.numpy())


def test_it_reads_what_the_reference_writes(file: Path) -> None:
    checkpoint = safetensors_file.read(file)
    assert_same(checkpoint)
    assert checkpoint.size == sum(tensor.numel() * tensor.element_size() for tensor in STATE.values())


def test_the_reference_reads_what_it_writes(file: Path, tmp_path: Path) -> None:
    checkpoint = safetensors_file.read(file)
    entries = [Entry(tensor.name, tensor.shape, tensor.dtype, Kind.WEIGHT) for tensor in checkpoint.tensors]
    entries.append(Entry("tied", (3, 5), "float32", Kind.WEIGHT, tied="w"))
    out = tmp_path / "out.safetensors"
    with out.open("x+b") as target:
        safetensors_file.write(target, entries[::-1], lambda entry: checkpoint.by_name[entry.name].pieces())
    found = load_file(out)
    assert found.keys() == STATE.keys() | {"tied"}
    for name, expected in (STATE | {"tied": STATE["w"]}).items():
        assert found[name].dtype == expected.dtype
        assert torch.equal(found[name], expected), name


def test_pieces_make_the_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_file, "_PIECE", 2)
    assert_same(safetensors_file.read(file))


def test_bfloat16_rounds_to_the_nearest_even() -> None:
    numbers = torch.randn(10_000) * torch.logspace(-30, 30, 10_000)
    narrowed = safetensors_file._narrowed(numbers.numpy())
    assert np.array_equal(narrowed, numbers.bfloat16().view(torch.uint16).numpy())


def sharded(folder: Path) -> Path:
    names = list(STATE)
    places: dict[str, str] = {}
    for number, part in enumerate((names[:3], names[3:])):
        shard = f"model-{number}.safetensors"
        save_file({name: STATE[name] for name in part}, folder / shard)
        places |= dict.fromkeys(part, shard)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return index


def test_shards_are_one_checkpoint(tmp_path: Path) -> None:
    assert_same(safetensors_file.read(sharded(tmp_path)))
    assert_same(safetensors_file.read(tmp_path))


def test_a_shard_is_missing_or_wrong(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    (tmp_path / "model-1.safetensors").unlink()
    with pytest.raises(DataError, match=r"model-1\.safetensors is missing"):
        safetensors_file.read(index)
    index.write_text(json.dumps({"weight_map": {"other": "model-0.safetensors"}}))
    with pytest.raises(DataError, match="does not hold 'other'"):
        safetensors_file.read(index)
    unusable: tuple[object, ...] = ({}, {"weight_map": 3}, [], {"weight_map": {"w": "../model-0.safetensors"}})
    for bad in unusable:
        index.write_text(json.dumps(bad))
        with pytest.raises(DataError, match=r"no weight_map|plain file name"):
            safetensors_file.read(index)


def test_a_directory_must_be_clear(file: Path, tmp_path: Path) -> None:
    assert_same(safetensors_file.read(tmp_path))
    file.with_name("other.safetensors").write_bytes(file.read_bytes())
    with pytest.raises(DataError, match=r"found: model\.safetensors, other\.safetensors"):
        safetensors_file.read(tmp_path)
    with pytest.raises(DataError, match="no file"):
        safetensors_file.read(tmp_path / "none.safetensors")


def headers() -> Iterator[tuple[bytes, str]]:
    tensor = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    yield b"", "no safetensors file"
    yield (1 << 60).to_bytes(8, "little"), "does not fit"
    yield _file(b"{]"), "cannot be read"
    yield _file(b"[]"), "cannot be read"
    yield _file(b"[" * 5000), "cannot be read"
    yield _file({"w": {}}), "cannot be read"
    yield _file({"w": tensor | {"shape": [-2]}}), "cannot be read"
    yield _file({"w": tensor | {"shape": [3]}}), "as many as its shape"
    yield _file({"w": tensor | {"data_offsets": [8, 16]}}), "cut short"
    yield _file({"w": tensor | {"shape": [1 << 40], "data_offsets": [0, 1 << 42]}}), "cut short"
    yield _file({"w": tensor | {"dtype": "F8_E4M3"}}), "F8_E4M3"


def _file(header: object) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(8)


@pytest.mark.parametrize(("data", "said"), list(headers()))
def test_files_that_are_none(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    with pytest.raises(DataError, match=said) as caught:
        safetensors_file.read(path)
    assert str(path) in str(caught.value)


def test_a_file_that_shrinks_while_it_is_read(file: Path) -> None:
    checkpoint = safetensors_file.read(file)
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(DataError, match="became shorter"):
        list(map(values, checkpoint.tensors))


def test_joined_pieces_are_the_tensor(file: Path) -> None:
    tensor = safetensors_file.read(file).by_name["w"]
    np.testing.assert_array_equal(joined(tensor.pieces(), 15, np.float32), STATE["w"].numpy().reshape(-1))
