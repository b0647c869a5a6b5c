"""fedcode: federated learning that sends codebooks instead of weights.

>>> import numpy as np
>>> import fedcode
>>> codebook = fedcode.cluster(np.array([0.1, 0.11, 0.9, 0.92], np.float32), k=2)
>>> codebook.centers.round(3).tolist(), codebook.labels.tolist()
([0.10499999672174454, 0.9100000262260437], [0, 0, 1, 1])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcode.client import Task as Task
    from fedcode.client import memory_of as memory_of
    from fedcode.client import receive as receive
    from fedcode.client import reply as reply
    from fedcode.clustering import Codebook as Codebook
    from fedcode.clustering import cluster as cluster
    from fedcode.clustering import snap as snap
    from fedcode.ends import Method as Method
    from fedcode.errors import CannotUse as CannotUse
    from fedcode.errors import FedcodeError as FedcodeError
    from fedcode.errors import NonFiniteError as NonFiniteError
    from fedcode.methods import method as method
    from fedcode.methods import register as register
    from fedcode.model_file import decode as decode
    from fedcode.model_file import encode as encode
    from fedcode.server import RoundReport as RoundReport
    from fedcode.server import Server as Server
    from fedcode.simulation import simulate as simulate

__version__ = "0.1.0"

# Every public name and where it lives. A name is loaded when it is first used, so that importing fedcode
# costs next to nothing and brings in neither numba nor anything heavier.
_PUBLIC = {
    "CannotUse": "errors",
    "Codebook": "clustering",
    "FedcodeError": "errors",
    "Method": "ends",
    "NonFiniteError": "errors",
    "RoundReport": "server",
    "Server": "server",
    "Task": "client",
    "cluster": "clustering",
    "decode": "model_file",
    "encode": "model_file",
    "memory_of": "client",
    "method": "methods",
    "receive": "client",
    "register": "methods",
    "reply": "client",
    "simulate": "simulation",
    "snap": "clustering",
}

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'fedcode' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"fedcode.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
