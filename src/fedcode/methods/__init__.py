"""The registry: methods by name, those of this folder and any from outside.

A package registers a method by an entry point in the group `fedcode.methods`, a script by the decorator:

    @fedcode.register
    @dataclass(frozen=True, kw_only=True)
    class Mine(FedAvg):
        name = "mine"
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from functools import cache
from importlib import metadata
from typing import Any, TypeVar

from fedcode.ends import SHOWN, Method
from fedcode.errors import ArgumentError, MessageError

# name: module and class; loaded when first asked for
_BUILT_IN = {
    "fedavg": ("fedavg", "FedAvg"),
    "fedavg_ws": ("fedavg_ws", "FedAvgWS"),
    "fedcode": ("fedcode", "FedCode"),
    "fedpaq": ("fedpaq", "FedPAQ"),
    "fedprox": ("fedprox", "FedProx"),
    "mucsc": ("mucsc", "MUCSC"),
    "delta": ("delta", "Delta"),
    "fedzip": ("fedzip", "FedZip"),
    "fedsparsify": ("fedsparsify", "FedSparsify"),
    "gtopk": ("gtopk", "GTopK"),
    "stc": ("stc", "STC"),
}
_registered: dict[str, type[Method]] = {}
_M = TypeVar("_M", bound=type[Method])


def register(cls: _M) -> _M:
    """Decorator: make a method known by its name.

    >>> from dataclasses import dataclass
    >>> from fedcode.methods.fedavg import FedAvg
    >>> @register
    ... @dataclass(frozen=True, kw_only=True)
    ... class Mine(FedAvg):
    ...     name = "mine"
    >>> method("mine").name
    'mine'
    """
    if cls.name in _BUILT_IN:
        raise ArgumentError(f"{cls.name!r} is a method of fedcode's own; choose another name.")
    _registered[cls.name] = cls
    return cls


def names() -> tuple[str, ...]:
    """The names of all methods.

    >>> "fedcode" in names()
    True
    """
    return tuple(dict.fromkeys([*_BUILT_IN, *_registered, *_entry_points()]))


def class_of(name: str) -> type[Method]:
    """The class of a method's settings; ArgumentError where there is none of this name."""
    if name in _registered:
        return _registered[name]
    if name in _BUILT_IN:
        module, attribute = _BUILT_IN[name]
        found: type[Method] = getattr(importlib.import_module(f"fedcode.methods.{module}"), attribute)
        return found
    if name in _entry_points():
        outside: type[Method] = _entry_points()[name].load()
        return outside
    near = difflib.get_close_matches(name, names(), 1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise ArgumentError(f"there is no method {name!r}; there are {', '.join(names())}.{guess}")


def client_of(name: str) -> type[Method]:
    """The client's functions of the method that a message names."""
    try:
        return class_of(name)
    except ArgumentError as error:
        raise MessageError(f"the message is of a method that this end does not have: {error}") from error


_FIELDS = {shown: name for name, shown in SHOWN.items()}


def method(name: str, **settings: Any) -> Method:
    """A method with its settings.

    >>> method("fedcode", clusters=32).settings()["clusters"]
    32
    """
    cls = class_of(name)
    fields = {_FIELDS.get(setting, setting): value for setting, value in settings.items()}
    known = [field.name for field in dataclasses.fields(cls)]
    for setting, given in zip(settings, fields, strict=True):
        if given not in known or setting in _FIELDS.values():
            shown = sorted(options(name))
            near = difflib.get_close_matches(setting, shown, 1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            raise ArgumentError(f"{name} has no setting {setting!r}; it has {', '.join(shown)}.{guess}")
    return cls(**fields)


def options(name: str) -> dict[str, Any]:
    """The settings of a method with their defaults.

    >>> options("fedavg")["server"]
    'none'
    """
    return method(name).settings()


@cache
def _entry_points() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group="fedcode.methods")}
