"""A model's state as one flat float32 vector, its counters and its layout; and back.

A state comes in as a torch Module, a `state_dict`, or any mapping of names to arrays or tensors. torch is
never imported here: it is there already where a tensor came in.

float64 travels as float32 and comes back as float64: values are then rounded to float32.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.errors import ArgumentError, NonFiniteError, WrongModelError, require
from fedcode.layout import DTYPES, FLOATS, MAX_DIMENSIONS, MAX_NAME, Entry, Kind, Layout

Vector = npt.NDArray[np.float32]
Counters = npt.NDArray[np.int64]
Trained = Callable[[str], bool] | Collection[str]


@dataclass(frozen=True, eq=False)
class State:
    """A model's values.

    vector: float32, `layout.values` long: weights, then statistics. counters: int64, `layout.counters` long.

    >>> state = flatten({"w": np.ones((2, 3), np.float32), "steps": np.array(7)})
    >>> state.vector.shape, state.counters
    ((6,), array([7]))
    >>> state.arrays()["w"].shape
    (2, 3)
    """

    layout: Layout
    vector: Vector
    counters: Counters

    @property
    def weights(self) -> Vector:
        """The trained part of the vector, as a view."""
        return self.vector[: self.layout.weights]

    @property
    def statistics(self) -> Vector:
        """The part of the vector that is not trained, as a view."""
        return self.vector[self.layout.weights :]

    def check_finite(self) -> State:
        """This state, or NonFiniteError naming the first entry that holds NaN or infinity."""
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = not np.isfinite(np.dot(self.vector, self.vector))  # one pass, no temporary
        if suspicious:
            bad = ~np.isfinite(self.vector)
            if bad.any():
                first = int(bad.argmax())
                where = next(entry.name for entry in self.layout.entries if _holds(self.layout, entry, first))
                raise NonFiniteError(
                    f"{int(bad.sum())} of the model's {bad.size} values are NaN or infinite, the first in "
                    f"{where!r}. Lower the learning rate, or look at the data."
                )
        return self

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Numpy arrays by name, in their own dtypes (bfloat16 as float32); tied names share one."""
        found: dict[str, npt.NDArray[Any]] = {}
        for entry in self.layout.entries:
            if entry.tied is not None:
                found[entry.name] = found[entry.tied]
                continue
            dtype = np.dtype("float32" if entry.dtype == "bfloat16" else entry.dtype)
            with np.errstate(over="ignore"):  # beyond float16 is infinite, as in torch
                found[entry.name] = self._values(entry).astype(dtype).reshape(entry.shape)
        return found

    def tensors(self, device: Any = None) -> dict[str, Any]:
        """The state as torch tensors by name, each in its own dtype and memory. Tied names share one."""
        torch = require("torch", "train")
        # one crossing to a device, not one a tensor
        vector, counters = (torch.from_numpy(_writable(part)).to(device) for part in (self.vector, self.counters))
        found: dict[str, Any] = {}
        for entry in self.layout.entries:
            if entry.tied is not None:
                found[entry.name] = found[entry.tied]
                continue
            source = counters if entry.kind == Kind.COUNTER else vector
            place = self.layout.places[entry.name]
            found[entry.name] = source[place].to(getattr(torch, entry.dtype), copy=True).reshape(entry.shape)
        return found

    def like(self, template: Any) -> dict[str, Any]:
        """The state as the template has it: arrays for arrays, tensors for tensors, each on its device."""
        items = _items(template)
        devices = {value.device for value in items.values() if _is_tensor(value)}
        if not devices:
            return dict(self.arrays())
        if len(devices) == 1 and all(_is_tensor(value) for value in items.values()):
            return self.tensors(devices.pop())
        arrays, tensors = self.arrays(), self.tensors()
        return {
            name: tensors[name].to(items[name].device) if _is_tensor(items.get(name)) else array
            for name, array in arrays.items()
        }

    def load_into(self, module: Any) -> None:
        """Load the state into a torch Module, in place."""
        module.load_state_dict(self.like(module))

    def _values(self, entry: Entry) -> npt.NDArray[Any]:
        place = self.layout.places[entry.name]
        return self.counters[place] if entry.kind == Kind.COUNTER else self.vector[place]


def flatten(state: Any, *, trained: Trained | None = None) -> State:
    """A model's state as one flat vector with its layout.

    A torch Module says itself what is trained (`requires_grad`). In a mapping integers are counters,
    `*.running_mean` and `*.running_var` statistics, and the rest is trained unless `trained` (names, or a
    function of a name) says otherwise.

    >>> flatten({"w": np.zeros((3, 2)), "bn.running_var": np.ones(3)}).layout.weights
    6
    """
    if isinstance(state, State):
        return state
    items = _items(state)
    if trained is None and hasattr(state, "named_parameters"):
        trained = {name for name, value in state.named_parameters(remove_duplicate=False) if value.requires_grad}
    elif trained is not None and not callable(trained):
        _check_names(trained, items)
    layout = _layout(items, trained)
    return State(layout, *_gather(items, layout))


def match(state: Any, layout: Layout) -> State:
    """The state's values in a layout that is already known; WrongModelError where names or shapes differ.

    >>> known = flatten({"w": np.zeros(3, np.float32)})
    >>> match({"w": np.ones(3)}, known.layout).vector
    array([1., 1., 1.], dtype=float32)
    """
    if isinstance(state, State):
        if state.layout.fingerprint != layout.fingerprint:
            raise WrongModelError("the state has another layout than the model that it is to be a state of.")
        return state
    items = _items(state)
    expected = {entry.name: entry.shape for entry in layout.entries}
    got = {name: tuple(value.shape) for name, value in items.items()}
    if expected != got:
        differing = [name for name in [*expected, *got] if expected.get(name) != got.get(name)]
        name = differing[0]
        raise WrongModelError(
            f"the state does not fit the model: {name!r} is {got.get(name, 'missing')}, expected "
            f"{expected.get(name, 'no such entry')} ({len(set(differing))} entries differ)."
        )
    for entry in layout.entries:
        if (_dtype_name(entry.name, items[entry.name]) in FLOATS) != (entry.dtype in FLOATS):
            raise WrongModelError(f"{entry.name!r} should be {entry.dtype}, got {items[entry.name].dtype}.")
    return State(layout, *_gather(items, layout))


def _items(state: Any) -> dict[str, Any]:
    """Names to arrays or tensors, whatever was given."""
    if isinstance(state, State):
        return dict(state.arrays())
    mapping = state.state_dict() if hasattr(state, "state_dict") else state
    if not isinstance(mapping, Mapping):
        raise ArgumentError(
            "a model's state is expected: a torch Module, a state_dict, or a mapping of names to arrays; "
            f"got {type(state).__name__}."
        )
    for name, value in mapping.items():
        if not isinstance(name, str):
            raise ArgumentError(f"names of a state are strings, got {name!r}.")
        if not _is_tensor(value) and not isinstance(value, np.ndarray | np.generic):
            raise ArgumentError(f"{name!r} should be an array or a tensor, got {type(value).__name__}. Leave it out.")
    return {name: np.asarray(value) if isinstance(value, np.generic) else value for name, value in mapping.items()}


def _check_names(trained: Collection[str], items: dict[str, Any]) -> None:
    if isinstance(trained, str):
        raise ArgumentError(
            f"trained= takes a collection of names or a function of a name, got the string {trained!r}."
        )
    unknown = [name for name in trained if name not in items]
    if unknown:
        raise ArgumentError(
            f"trained= names {unknown[0]!r}, which the state does not hold ({len(unknown)} such names)."
        )


def _writable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array if array.flags.writeable else array.copy()  # torch warns of memory that it must not write


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _dtype_name(name: str, value: Any) -> str:
    # numpy's name of a dtype is the same in either byte order
    dtype: str = str(value.dtype).removeprefix("torch.") if _is_tensor(value) else value.dtype.name
    if dtype not in DTYPES:
        raise ArgumentError(f"{name!r} is of {dtype}; a model's state may hold {', '.join(DTYPES)}.")
    if _is_tensor(value) and (value.is_sparse or value.is_meta):
        raise ArgumentError(
            f"{name!r} is sparse or on the meta device; a model's state holds tensors with their values."
        )
    return dtype


def _address(value: Any) -> tuple[object, ...]:
    """What two names of one tensor have in common, and two tensors never."""
    if _is_tensor(value):
        where = (value.device, value.data_ptr()) if value.numel() else (id(value),)
        return (*where, tuple(value.shape), value.stride(), value.dtype)
    where = (value.__array_interface__["data"][0],) if value.size else (id(value),)
    return (*where, value.shape, value.strides, value.dtype.str)


def _check_entry(name: str, shape: tuple[int, ...]) -> None:
    """What a layout can say on the wire."""
    if len(name.encode()) > MAX_NAME:
        raise ArgumentError(
            f"the name {name[:40]!r}... has {len(name.encode())} bytes; at most {MAX_NAME} can be sent."
        )
    if len(shape) > MAX_DIMENSIONS:
        raise ArgumentError(f"{name!r} has {len(shape)} dimensions; at most {MAX_DIMENSIONS} can be sent.")


def _layout(items: dict[str, Any], trained: Trained | None) -> Layout:
    entries: list[Entry] = []
    first_at: dict[tuple[object, ...], str] = {}
    for name, value in items.items():
        dtype = _dtype_name(name, value)
        _check_entry(name, tuple(value.shape))
        twin = first_at.setdefault(_address(value), name)
        if twin == name:
            kind, tied = kind_of(name, dtype, trained), None
        else:  # a tied tensor is what it was under its first name
            kind, tied = next(entry.kind for entry in entries if entry.name == twin), twin
        entries.append(Entry(name, tuple(value.shape), dtype, kind, tied))
    return Layout(tuple(entries))


def kind_of(name: str, dtype: str, trained: Trained | None = None) -> Kind:
    """What an entry of this name and dtype is, by the rule of `flatten`.

    >>> kind_of("norm.running_var", "float32").name, kind_of("norm.weight", "float32").name
    ('VARIANCE', 'WEIGHT')
    """
    if dtype not in FLOATS:
        return Kind.COUNTER
    last = name.rpartition(".")[2]
    if trained is None:
        is_trained = last not in ("running_mean", "running_var")
    else:
        is_trained = trained(name) if callable(trained) else name in trained
    if is_trained:
        return Kind.WEIGHT
    return Kind.VARIANCE if last == "running_var" else Kind.STATISTIC


def _gather(items: dict[str, Any], layout: Layout) -> tuple[Vector, Counters]:
    vector = np.empty(layout.values, np.float32)
    counters = np.empty(layout.counters, np.int64)
    on_device: list[tuple[npt.NDArray[Any], Any]] = []
    for entry in layout.entries:
        if entry.tied is not None or not entry.size:
            continue
        value, place = items[entry.name], layout.places[entry.name]
        target: npt.NDArray[Any] = (counters if entry.kind == Kind.COUNTER else vector)[place]
        if _is_tensor(value) and value.device.type != "cpu":
            on_device.append((target, value.detach()))
        elif _is_tensor(value):
            sys.modules["torch"].from_numpy(target).copy_(value.detach().reshape(-1))
        else:
            with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite and is reported as such
                target[:] = value.reshape(-1)
        if entry.dtype == "uint64" and target.min() < 0:
            raise ArgumentError(f"{entry.name!r} holds a counter above 2^63 - 1, which does not fit.")
    for is_counter in (False, True):
        _cross([(target, value) for target, value in on_device if (target.dtype == np.int64) is is_counter])
    return vector, counters


def _cross(pairs: list[tuple[npt.NDArray[Any], Any]]) -> None:
    """Copy tensors from their devices: one crossing each for floats and for counters, not one a tensor."""
    if not pairs:
        return
    torch = sys.modules["torch"]
    first = pairs[0][1].device
    dtype = torch.int64 if pairs[0][0].dtype == np.int64 else torch.float32
    joined = torch.cat([value.reshape(-1).to(first, dtype) for _, value in pairs]).cpu().numpy()
    at = 0
    for target, _ in pairs:
        target[:] = joined[at : at + target.size]
        at += target.size


def _holds(layout: Layout, entry: Entry, index: int) -> bool:
    place = layout.places[entry.name]
    return entry.kind != Kind.COUNTER and place.start <= index < place.stop


__all__ = ["Counters", "State", "Trained", "Vector", "flatten", "kind_of", "match"]
