"""What was encoded already and may be wanted again: the newest of it, bounded in bytes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Encoded(Generic[K, V]):
    """Results by key, each made once; the oldest go where all together take more than `limit` bytes.

    >>> encoded = Encoded(limit=3, size=len)
    >>> encoded.get("a", lambda: b"12"), encoded.get("a", lambda: b"made again")
    (b'12', b'12')
    >>> encoded.get("b", lambda: b"34"), encoded.get("a", lambda: b"made again")
    (b'34', b'made again')
    """

    def __init__(self, limit: int, size: Callable[[V], int]) -> None:
        self.limit = limit
        self.size = size
        self._found: dict[K, V] = {}
        self._total = 0

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The result of this key; made where it is not there. The newest stays, whatever its size."""
        if key not in self._found:
            self._found[key] = make()
            self._total += self.size(self._found[key])
            while self._total > self.limit and len(self._found) > 1:
                self._total -= self.size(self._found.pop(next(iter(self._found))))
        return self._found[key]
