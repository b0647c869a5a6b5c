"""A network on this processor and the flat vector of its state: in and out without what a strange state needs.

`State.load_into` and `flatten` take whatever comes and check all of it, at every call. A trainer loads one network
with states of one layout over and over: here that is checked once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from fedcode.layout import Kind, Layout
from fedcode.state import State, match


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
        """Whether the module is known to be of this layout, and to hold nothing that needs more than a copy."""
        if self._known is not layout:
            match(self.module, layout)
            devices = {tensor.device.type for tensor in self.module.state_dict().values()}
            if devices != {"cpu"} or any(entry.dtype == "uint64" for entry in layout.entries):
                return False
            self._known = layout
        return True

    def _pairs(self, state: State) -> Iterator[tuple[Tensor, Tensor]]:
        """Each tensor of the module, which may be another one than before, and its part of the state, as a view."""
        tensors, places = self.module.state_dict(), state.layout.places
        # torch warns of memory that it must not write, such as a message's
        vector, counters = (
            torch.from_numpy(part if part.flags.writeable else part.copy()) for part in (state.vector, state.counters)
        )
        for entry in state.layout.entries:
            source = counters if entry.kind == Kind.COUNTER else vector
            yield tensors[entry.name], source[places[entry.name]].view(entry.shape)
