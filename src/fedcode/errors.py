"""Every error that fedcode raises, as one tree.

    FedcodeError
    ├── ArgumentError       a caller passed something that cannot be used   (a ValueError too)
    │   └── NonFiniteError  NaN or infinity where finite numbers are needed
    ├── MessageError        bytes that are no valid message                 (a ValueError too)
    │   └── WrongModelError a valid message about another model
    ├── RefusedError        a valid reply that the server must not fold in
    ├── CannotUse           a message that this client cannot use; `.reply` is to be sent back
    ├── DataError           a data set that is missing or damaged
    ├── RunError            a run directory that cannot be used
    ├── WorkerError         a training process that died or failed
    └── MissingExtraError   an optional dependency that is not installed    (an ImportError too)

Each message says what went wrong, what was expected, what was found, and what to do.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


class FedcodeError(Exception):
    """Root of all errors of fedcode.

    >>> import fedcode
    >>> try:
    ...     fedcode.decode(b"no message")
    ... except fedcode.FedcodeError as error:
    ...     print(error)
    10 bytes are too few for a message of fedcode.
    """


class ArgumentError(FedcodeError, ValueError):
    """A caller passed something that cannot be used."""


class NonFiniteError(ArgumentError):
    """NaN or infinity where finite numbers are needed.

    >>> import numpy as np, fedcode
    >>> try:
    ...     fedcode.encode({"bias": np.array([1.0, np.nan])})
    ... except fedcode.NonFiniteError as error:
    ...     print(error)
    1 of the model's 2 values are NaN or infinite, the first in 'bias'. Lower the learning rate, or look at the data.
    """


class MessageError(FedcodeError, ValueError):
    """Bytes that are no valid message."""


class WrongModelError(MessageError):
    """A valid message about another model."""


class RefusedError(FedcodeError):
    """A reply that the server must not fold in."""


class CannotUse(FedcodeError):
    """A message that this client cannot use; send `.reply` back and the server repairs it.

    >>> import numpy as np, fedcode
    >>> server = fedcode.method("fedavg_ws").server({"w": np.ones((3, 4), np.float32)}, known=True)
    >>> try:
    ...     fedcode.receive(server.message_for("client-0"))  # which lost the memory that the server counts on
    ... except fedcode.CannotUse as error:
    ...     server.accept("client-0", error.reply)
    False
    >>> fedcode.receive(server.message_for("client-0")).start.vector.size
    12
    """

    def __init__(self, message: str, reply: bytes) -> None:
        super().__init__(message)
        self.reply = reply

    def __reduce__(self) -> tuple[type[CannotUse], tuple[str, bytes]]:
        return type(self), (str(self), self.reply)  # so that it crosses from a worker's process


class DataError(FedcodeError):
    """A data set that is missing or damaged."""


class RunError(FedcodeError):
    """A run directory that cannot be used."""


class WorkerError(FedcodeError):
    """A training process that died or failed."""


class MissingExtraError(FedcodeError, ImportError):
    """An optional dependency that is not installed."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around imports of what an extra brings: where something is missing, the error names the extra.

    >>> with extra("cli"):
    ...     import json
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "fedcode"):
            raise
        raise MissingExtraError(_missing(missing, name)) from error


def require(module: str, extra: str) -> ModuleType:
    """Import an optional module, or say which extra brings it.

    >>> require("json", "cli").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        top = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != top:
            raise  # the module is there and one of its own imports is broken
        raise MissingExtraError(_missing(top, extra)) from error


def _missing(module: str, extra: str) -> str:
    return f"{module} is needed here and not installed. Run: pip install 'fedcode[{extra}]'"
