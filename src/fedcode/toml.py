"""Settings as TOML text; Python reads TOML by itself, but does not write it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fedcode.errors import ArgumentError

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_toml(table: Mapping[str, Any]) -> str:
    """Text that `tomllib.loads` reads back. None is left out, as TOML has no such value.

    >>> print(write_toml({"lr": 0.001, "device": None, "fedcode": {"clusters": 64}}), end="")
    lr = 0.001
    <BLANKLINE>
    [fedcode]
    clusters = 64
    """
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping) and value is not None}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, Mapping):
            where = (*path, _key(key))
            lines += [""] * bool(lines) + [f"[{'.'.join(where)}]", *_lines(value, where)]
    return lines


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    raise ArgumentError(f"a setting is a number, a string, a truth value or a list of these: got {value!r}.")
