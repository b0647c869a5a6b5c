"""How fedcode runs tight loops: numba if it is there, compiled at the first call; plain numpy if not.

Nothing here imports numba until a kernel is called. A kernel releases the GIL, so that chunks of an
array can be worked on by a pool of threads; it never starts threads of its own. `FEDCODE_NUMBA=0`
forces the plain path, `FEDCODE_THREADS` bounds the threads, `NUMBA_CACHE_DIR` says where compiled
kernels are kept.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()
_chunk = threading.local()  # whether this thread is at work on one already


def available() -> bool:
    """Whether kernels are compiled here; if numba cannot be imported, one warning says so.

    >>> available() in (True, False)
    True
    """
    return os.environ.get("FEDCODE_NUMBA", "1") != "0" and _numba() is not None


@functools.cache
def _numba() -> ModuleType | None:
    try:
        import numba
    except Exception as error:  # a numba that does not fit this numpy raises more than ImportError
        warnings.warn(
            f"numba cannot be imported ({error}), so fedcode runs its slower plain path. "
            "Install numba, or set FEDCODE_NUMBA=0 to choose the plain path.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return numba


@functools.cache
def _warn_uncached() -> None:
    warnings.warn(
        "numba finds no directory to keep compiled kernels in, so every process compiles them again. "
        "Set NUMBA_CACHE_DIR to a directory that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )


class Kernel(Generic[P, R]):
    """A function that numba compiles when it is first called; made by `kernel`."""

    def __init__(self, function: Callable[P, R], plain: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.plain = plain
        self._compiled: Any = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not available():
            return self.plain(*args, **kwargs)
        try:
            return self.compiled(*args, **kwargs)  # type: ignore[no-any-return]
        except OSError:  # the cache's directory is there but full or forbidden
            _warn_uncached()
            self._compiled = self._compile(cache=False)
            return self._compiled(*args, **kwargs)  # type: ignore[no-any-return]

    @property
    def compiled(self) -> Any:
        """numba's dispatcher."""
        if self._compiled is None:
            with _lock:
                if self._compiled is None:
                    try:
                        self._compiled = self._compile(cache=True)
                    except RuntimeError:  # neither the package's directory nor home can be written
                        if Path(self.function.__code__.co_filename).exists():
                            _warn_uncached()  # a function typed at a prompt has no file to cache by
                        self._compiled = self._compile(cache=False)
        return self._compiled

    def _compile(self, cache: bool) -> Any:
        numba = _numba()
        assert numba is not None
        return numba.njit(self.function, nogil=True, cache=cache)

    @property
    def _numba_type_(self) -> Any:
        """What numba asks of a global that a kernel names: so kernels can call kernels."""
        return self.compiled._numba_type_


def kernel(plain: Callable[P, R]) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Decorate a loop for numba; `plain` does the same in numpy where numba is missing.

    >>> import numpy as np
    >>> @kernel(plain=lambda x: int(x.sum()))
    ... def total(x):
    ...     sum = 0
    ...     for i in range(x.size):
    ...         sum += x[i]
    ...     return sum
    >>> total(np.arange(5))
    10
    """
    return lambda function: Kernel(function, plain)


def threads() -> int:
    """How many threads kernels may use: `FEDCODE_THREADS`, or the cores of this process.

    >>> threads() >= 1
    True
    """
    asked = os.environ.get("FEDCODE_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_chunks(work: Callable[[int, int], R], size: int, least: int = 1 << 17) -> list[R]:
    """Call `work(start, stop)` on slices of `range(size)`, one a thread, none shorter than `least`.

    The results come in order. How many slices there are depends on the machine: what is built from
    them must not. Within such a call all is one slice, so that threads do not start threads.

    >>> in_chunks(lambda start, stop: stop - start, 10)
    [10]
    """
    many = size >= 2 * least and not getattr(_chunk, "running", False)
    count = max(1, min(threads(), size // least)) if many else 1
    edges = [size * i // count for i in range(count + 1)]
    if count == 1:
        return [work(0, size)]

    def run(start: int, stop: int) -> R:
        _chunk.running = True
        try:
            return work(start, stop)
        finally:
            _chunk.running = False

    # A pool of its own for every call: a lasting one would be dead in a forked child.
    with ThreadPoolExecutor(count - 1) as pool:
        others = [pool.submit(run, *chunk) for chunk in pairwise(edges[1:])]
        first = run(*edges[:2])  # in this thread, which need not be started
        return [first, *(other.result() for other in others)]
