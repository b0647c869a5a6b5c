"""Labels replaced by what a table says of them: centres, other labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedcode.kernels import in_chunks, kernel


def look_up(table: npt.NDArray[Any], labels: npt.NDArray[Any], out: npt.NDArray[Any] | None = None) -> Any:
    """`table[labels]` for a row of labels that are known to be in the table, into `out` where it is given.

    >>> look_up(np.array([5.0, 7.0]), np.array([1, 0, 1], np.uint8))
    array([7., 5., 7.])
    """
    if out is None:
        out = np.empty(labels.shape, table.dtype)
    in_chunks(lambda start, stop: _look_up(table, labels[start:stop], out[start:stop]), labels.size, 1 << 21)
    return out


def _plain(table: Any, labels: Any, out: Any) -> None:
    out[:] = table[labels]


@kernel(plain=_plain)
def _look_up(table: Any, labels: Any, out: Any) -> None:
    for i in range(labels.size):
        out[i] = table[labels[i]]
