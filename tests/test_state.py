"""A model's state as one vector and a layout, and back without loss."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn

from fedcode.errors import ArgumentError, MissingExtraError, NonFiniteError, WrongModelError
from fedcode.layout import DTYPES, FLOATS, MAX_NAME, Kind
from fedcode.state import State, flatten, match


class Net(nn.Module):
    """A module with one of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.first = nn.Linear(6, 5, bias=False)
        self.second = nn.Linear(6, 5, bias=False)
        self.second.weight = self.first.weight  # tied
        self.frozen = nn.Linear(2, 2)
        self.frozen.requires_grad_(False)
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("scale", torch.tensor(2.5))
        self.register_buffer("none", torch.zeros(0, 3))


def same(ours: Any, theirs: Any) -> None:
    """Equal in dtype, shape and every bit."""
    assert (ours.dtype, tuple(ours.shape)) == (theirs.dtype, tuple(theirs.shape))
    if isinstance(ours, torch.Tensor):
        assert ours.device == theirs.device
        ours, theirs = (
            one.detach().view(torch.int16) if one.dtype == torch.bfloat16 else one for one in (ours, theirs)
        )
        ours, theirs = ours.numpy(), theirs.numpy()
    assert ours.tobytes() == theirs.tobytes()


# ---- in


def test_a_module_its_state_dict_and_its_arrays_are_one_state() -> None:
    module = Net()
    ours = flatten(module)
    mapping = {name: tensor.detach() for name, tensor in module.state_dict().items()}
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad} | {"second.weight"}
    of_tensors = flatten(mapping, trained=trained)
    of_arrays = flatten({name: tensor.numpy() for name, tensor in mapping.items()}, trained=trained)
    for other in (of_tensors, of_arrays):
        assert other.layout == ours.layout
        np.testing.assert_array_equal(other.vector, ours.vector)
        np.testing.assert_array_equal(other.counters, ours.counters)
    assert (ours.vector.dtype.name, ours.counters.dtype.name) == ("float32", "int64")


def test_a_module_says_what_is_trained() -> None:
    kinds = {entry.name: entry.kind for entry in flatten(Net()).layout.entries}
    assert kinds == {
        "conv.weight": Kind.WEIGHT,
        "conv.bias": Kind.WEIGHT,
        "norm.weight": Kind.WEIGHT,
        "norm.bias": Kind.WEIGHT,
        "norm.running_mean": Kind.STATISTIC,
        "norm.running_var": Kind.VARIANCE,
        "norm.num_batches_tracked": Kind.COUNTER,
        "first.weight": Kind.WEIGHT,
        "second.weight": Kind.WEIGHT,
        "frozen.weight": Kind.STATISTIC,
        "frozen.bias": Kind.STATISTIC,
        "mask": Kind.COUNTER,
        "scale": Kind.STATISTIC,
        "none": Kind.STATISTIC,
    }


def test_in_a_mapping_the_name_and_the_dtype_say_it_unless_the_caller_does() -> None:
    state = {
        "w": np.ones((2, 2)),
        "a.running_mean": np.ones(1),
        "running_var": np.ones(1),
        "my_running_var": np.ones(1),
        "steps": np.array(3, np.int16),
        "flags": np.array([True]),
    }

    def kinds(**options: Any) -> list[str]:
        return [entry.kind.name for entry in flatten(state, **options).layout.entries]

    assert kinds() == ["WEIGHT", "STATISTIC", "VARIANCE", "WEIGHT", "COUNTER", "COUNTER"]
    assert kinds(trained=["running_var"]) == ["STATISTIC", "STATISTIC", "WEIGHT", "STATISTIC", "COUNTER", "COUNTER"]
    assert kinds(trained=lambda name: "a" in name) == kinds(trained={"a.running_mean", "running_var", "my_running_var"})


def test_the_vector_holds_matrices_vectors_statistics_variances_and_counters_stand_apart() -> None:
    state = {
        "running_var": np.array([5.0]),
        "bias": np.array([3.0, 4.0]),
        "steps": np.array([9, 8]),
        "running_mean": np.array([-1.0]),
        "w": np.array([[1.0, 2.0]]),
        "temperature": np.array(7.0),
    }
    flat = flatten(state)
    assert flat.vector.tolist() == [1, 2, 3, 4, 7, -1, 5]
    assert flat.counters.tolist() == [9, 8]
    assert (flat.layout.matrices, flat.layout.weights, flat.layout.values, flat.layout.counters) == (2, 5, 7, 2)
    assert flat.weights.tolist() == [1, 2, 3, 4, 7]
    assert flat.statistics.tolist() == [-1, 5]
    assert [entry.name for entry, _ in flat.layout.tensors] == ["w", "bias", "temperature"]
    assert [entry.name for entry, _ in flat.layout.statistics] == ["running_mean", "running_var"]


def test_tied_tensors_appear_once_and_come_back_tied() -> None:
    module = Net()
    flat = flatten(module)
    assert flat.layout.weights == sum(p.numel() for p in module.parameters() if p.requires_grad)
    back = flat.tensors()
    assert back["second.weight"] is back["first.weight"]
    array = np.arange(3.0)
    found = flatten({"a": array, "b": array, "c": array.copy(), "d": array[:2], "e": np.zeros(0), "f": np.zeros(0)})
    assert [entry.tied for entry in found.layout.entries] == [None, "a", None, None, None, None]
    again = found.arrays()
    assert again["b"] is again["a"]
    assert found.layout.values == 8


def test_any_memory_layout_and_byte_order_is_read() -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    state = {
        "fortran": np.asfortranarray(array),
        "strided": np.arange(48, dtype=np.float32)[::2].reshape(2, 3, 4),
        "big": array.astype(">f4"),
        "read only": np.frombuffer(array.tobytes(), np.float32).reshape(2, 3, 4),
        "permuted": torch.from_numpy(array.copy()).permute(2, 0, 1),
        "last": torch.from_numpy(array.copy()[None]).to(memory_format=torch.channels_last),
    }
    found = flatten(state).arrays()
    for name in ("fortran", "big", "read only"):
        np.testing.assert_array_equal(found[name], array)
    np.testing.assert_array_equal(found["strided"], 2 * array)
    np.testing.assert_array_equal(found["permuted"], array.transpose(2, 0, 1))
    np.testing.assert_array_equal(found["last"], array[None])


# ---- out


def test_a_module_comes_back_as_it_was() -> None:
    module, other = Net(), Net()
    with torch.no_grad():
        for value in module.state_dict().values():
            value.copy_(torch.randn(value.shape) if value.is_floating_point() else value + 3)
    flatten(module).load_into(other)
    ours, theirs = other.state_dict(), module.state_dict()
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        same(ours[name], tensor)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_finite_half_comes_back_bit_for_bit(dtype: torch.dtype) -> None:
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(dtype)
    finite = every[torch.isfinite(every)]
    flat = flatten({"w": finite}).check_finite()
    assert flat.layout.entries[0].dtype == str(dtype).removeprefix("torch.")
    same(flat.tensors()["w"], finite)
    array = flat.arrays()["w"]
    assert array.dtype == (np.float16 if dtype == torch.float16 else np.float32)
    np.testing.assert_array_equal(array, finite.float().numpy())


def test_float64_travels_as_float32_and_comes_back_as_float64() -> None:
    values = np.array([1 / 3, 1e-300, 2.0**24 + 1])
    found = flatten({"w": values}).arrays()["w"]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, values.astype(np.float32).astype(np.float64))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 0, 4), (1, 1, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_empty_and_zero_dimensional_tensors(shape: tuple[int, ...], dtype: str) -> None:
    array = np.ones(shape, dtype)
    found = flatten({"x": array, "y": torch.from_numpy(array.copy()), "z": np.float32(3)})
    same(found.arrays()["x"], array)
    same(found.tensors()["y"], torch.from_numpy(array))
    assert found.arrays()["z"].shape == ()


def test_nothing_at_all() -> None:
    flat = flatten({})
    assert (flat.vector.size, flat.counters.size, flat.arrays()) == (0, 0, {})


def names() -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8"), max_size=12)


def arrays() -> st.SearchStrategy[npt.NDArray[Any]]:
    shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
    dtypes = st.sampled_from([name for name in DTYPES if name not in ("bfloat16", "float64", "uint64")])
    return dtypes.flatmap(
        lambda name: hnp.arrays(
            np.dtype(name),
            shapes,
            elements={"allow_nan": False, "allow_infinity": False} if name in FLOATS else None,
        )
    )


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(names(), arrays(), max_size=6))
def test_any_mapping_comes_back(state: dict[str, npt.NDArray[Any]]) -> None:
    flat = flatten(state)
    found = flat.arrays()
    assert list(found) == list(state)
    for name, array in state.items():
        same(found[name], array)
    tensors = flatten(flat.tensors())
    assert tensors.layout.fingerprint == flat.layout.fingerprint or any(not array.size for array in state.values())
    np.testing.assert_array_equal(tensors.vector, flat.vector)


def test_like_gives_what_the_template_holds() -> None:
    flat = flatten({"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)})
    arrays = flat.like({"a": np.zeros(2), "b": np.zeros(3)})
    assert all(isinstance(value, np.ndarray) for value in arrays.values())
    mixed = flat.like({"a": np.zeros(2), "b": torch.zeros(3)})
    assert [type(mixed[name]) for name in ("a", "b")] == [np.ndarray, torch.Tensor]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_tensors_come_back_to_their_devices() -> None:
    state = {"w": torch.randn(3, 4, device="cuda"), "half": torch.ones(2, device="cuda").bfloat16()}
    state |= {"steps": torch.tensor(5, device="cuda"), "here": torch.ones(1)}
    found = flatten(state).like(state)
    for name, tensor in state.items():
        assert found[name].device == tensor.device
        same(found[name].cpu(), tensor.cpu())


def test_the_module_s_own_memory_is_neither_kept_nor_changed() -> None:
    module = Net()
    before = module.conv.weight.detach().clone()
    flat = flatten(module)
    flat.vector[:] = 0
    assert torch.equal(module.conv.weight, before)
    tensors = flat.tensors()
    tensors["conv.weight"].fill_(3)
    assert not flat.vector.any()


# ---- a known layout


def test_values_in_a_known_layout() -> None:
    known = flatten(Net()).layout
    module = Net()
    found = match(module, known)
    assert found.layout is known
    np.testing.assert_array_equal(found.vector, flatten(module).vector)
    shuffled = dict(reversed(list(module.state_dict().items())))
    np.testing.assert_array_equal(match(shuffled, known).vector, found.vector)
    assert match(found, known) is found


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"w": np.ones((3, 2)), "n": np.array(1)}, r"'w' is \(3, 2\), expected \(2, 3\) \(1 entries differ\)"),
        ({"w": np.ones((2, 3))}, "'n' is missing"),
        ({"w": np.ones((2, 3)), "n": np.array(1), "more": np.ones(1)}, "expected no such entry"),
        ({"w": np.ones((2, 3), np.int32), "n": np.array(1)}, "'w' should be float32, got int32"),
        ({"w": np.ones((2, 3)), "n": np.array(1.0)}, "'n' should be int64, got float64"),
    ],
)
def test_another_model_is_an_error(state: dict[str, Any], said: str) -> None:
    known = flatten({"w": np.ones((2, 3), np.float32), "n": np.array(7)}).layout
    with pytest.raises(WrongModelError, match=said):
        match(state, known)


def test_a_state_of_another_layout_is_an_error() -> None:
    with pytest.raises(WrongModelError, match="another layout"):
        match(flatten({"w": np.ones(3)}), flatten({"w": np.ones(4)}).layout)


# ---- what cannot be a state


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (3, "a model's state is expected: a torch Module, a state_dict, or a mapping of names to arrays; got int"),
        ({1: np.ones(1)}, "names of a state are strings, got 1"),
        ({"w": [1.0]}, "'w' should be an array or a tensor, got list. Leave it out"),
        ({"w": np.ones(1, np.complex64)}, "'w' is of complex64; a model's state may hold float32"),
        ({"w": np.array(["x"])}, "'w' is of str"),
        ({"w": torch.ones(2).to_sparse()}, "sparse or on the meta device"),
        ({"w": torch.ones(2, device="meta")}, "sparse or on the meta device"),
        ({"n": np.array([2**63], np.uint64)}, r"'n' holds a counter above 2\^63 - 1"),
        ({"x" * (MAX_NAME + 1): np.ones(1)}, "at most 4096 can be sent"),
        ({"w": np.ones((1,) * 33)}, "33 dimensions; at most 32 can be sent"),
    ],
)
def test_what_cannot_be_a_state(state: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        flatten(state)


@pytest.mark.parametrize(("trained", "said"), [("w", "got the string 'w'"), (["v"], "names 'v', which the state does")])
def test_names_of_what_is_trained_must_be_names(trained: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        flatten({"w": np.ones(1)}, trained=trained)


def test_numbers_that_are_none_are_counted_and_placed() -> None:
    state = flatten({"a": np.ones(3), "b": np.array([1, np.nan, np.inf, 2]), "running_mean": np.array([-np.inf])})
    with pytest.raises(NonFiniteError, match="3 of the model's 8 values are NaN or infinite, the first in 'b'"):
        state.check_finite()
    with pytest.raises(NonFiniteError, match="'w'"):
        flatten({"w": np.array([1e300])}).check_finite()  # float64 beyond float32
    large = flatten({"w": np.full(5, 3e38, np.float32)})  # whose square is beyond float32
    assert large.check_finite() is large


def test_without_torch_arrays_work_and_tensors_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    flat: State = flatten({"w": np.ones(2)})
    monkeypatch.setitem(sys.modules, "torch", None)
    assert flatten({"w": np.ones(2)}).arrays()["w"].tolist() == [1, 1]
    with pytest.raises(MissingExtraError, match=r"pip install 'fedcode\[train\]'"):
        flat.tensors()
