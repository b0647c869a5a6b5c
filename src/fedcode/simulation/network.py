"""A network on this processor and the flat vector of its state: in and out without what a strange state needs.

`State.load_into` and `flatten` take whatever comes and check all of it, at every call. A trainer loads one network
with states of one layout over and over: here that is checked once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from fedcode.layout import Entry, Kind, Layout
from fedcode.state import State, match

Owner = dict[str, Tensor | None]  # a module's parameters or buffers by name


class Network:
    """A module whose state is loaded and read in one layout at a time.

    >>> from fedcode.state import flatten
    >>> module = nn.Linear(2, 1)
    >>> network, state = Network(module), flatten(nn.Linear(2, 1))
    >>> network.load(state)
    >>> bool((network.state(state.layout).vector == state.vector).all())
    True
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._known: Layout | None = None
        self._entries: list[tuple[Owner, str, Entry]] = []  # the tensors may be replaced, their owners stay

    def load(self, state: State) -> None:
        """Put the state into the module."""
        if not self._plain(state.layout):
            state.load_into(self.module)
            return
        with torch.no_grad():
            for tensor, values in self._pairs(state):
                tensor.copy_(values)

    def state(self, layout: Layout) -> State:
        """The module's state."""
        if not self._plain(layout):
            return match(self.module, layout)
        state = State(layout, np.empty(layout.values, np.float32), np.empty(layout.counters, np.int64))
        with torch.no_grad():
            for tensor, values in self._pairs(state):
                values.copy_(tensor)
        return state

    def _plain(self, layout: Layout) -> bool:
        """Whether the module is known to be of this layout, and its state to be its tensors and nothing else."""
        if self._known is not layout:
            match(self.module, layout)
            self._known, self._entries = None, []
            tensors = self.module.state_dict()
            for entry in layout.entries:
                path, _, name = entry.name.rpartition(".")
                owner = _owner(self.module, path, name)
                tensor = None if owner is None else owner[name]
                if owner is None or tensor is None or not _same(tensor, tensors[entry.name]) or entry.dtype == "uint64":
                    return False
                self._entries.append((owner, name, entry))
            self._known = layout
        return True

    def _pairs(self, state: State) -> Iterator[tuple[Tensor, Tensor]]:
        """Each tensor of the module and its part of the state, as a view."""
        places = state.layout.places
        # torch warns of memory that it must not write, such as a message's
        vector, counters = (
            torch.from_numpy(part if part.flags.writeable else part.copy()) for part in (state.vector, state.counters)
        )
        for owner, name, entry in self._entries:
            tensor, source = owner[name], counters if entry.kind == Kind.COUNTER else vector
            assert tensor is not None
            yield tensor, source[places[entry.name]].view(entry.shape)


def _owner(module: nn.Module, path: str, name: str) -> Owner | None:
    """Where a submodule keeps this tensor; None where the name is made in another way."""
    try:
        found = module.get_submodule(path)
    except AttributeError:
        return None
    owners: list[Owner] = [found._parameters, found._buffers]  # type: ignore[list-item]
    return next((owner for owner in owners if name in owner), None)


def _same(tensor: Tensor, other: Tensor) -> bool:
    """Whether both are the same memory of this processor."""
    return tensor.device.type == "cpu" and (tensor.data_ptr(), tensor.shape) == (other.data_ptr(), other.shape)
