"""Several methods on the same draw: what a file of settings or a command line says, as one Config a method.

The file is TOML: `methods`, a list of names; whatever `Config` has; and a table of settings a method.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcode import rundir
from fedcode.errors import ArgumentError, DataError, RunError
from fedcode.files import new_file
from fedcode.methods import method, names, options
from fedcode.simulation.config import Config, check_unchanged, of_kind
from fedcode.toml import write_toml

PLAN = "run.toml"
_OF_A_RUN = ("versions", "machine")  # what a run's own config.toml holds besides


def plan(document: Mapping[str, Any]) -> list[Config]:
    """One Config a method.

    >>> [config.label for config in plan({"methods": ["fedavg", "fedcode"], "fedcode": {"clusters": 16}})]
    ['fedavg', 'fedcode']
    """
    common = {name: value for name, value in document.items() if name not in _OF_A_RUN}
    one = common.pop("method", None)
    chosen = common.pop("methods", None) or ([] if one is None else [one])
    if not isinstance(chosen, list) or not all(isinstance(name, str) for name in chosen):
        raise ArgumentError(f'methods is a list of names, as in methods = ["fedavg", "fedcode"]: got {chosen!r}.')
    if not chosen:
        raise ArgumentError(f"name the methods to run; there are {', '.join(names())}.")
    if len(set(chosen)) < len(chosen):
        raise ArgumentError(f"each method can be run once: got {', '.join(chosen)}.")
    if "label" in common and len(chosen) > 1:
        raise ArgumentError("a label is for one method; several are named after themselves.")
    settings = {name: common.pop(name) for name in list(common) if isinstance(common[name], Mapping)}
    own = settings.pop("settings", {})
    for name in settings:
        method(name)  # says so where there is none
        if name not in chosen:
            raise ArgumentError(f"there are settings for {name}, which is not run; run are {', '.join(chosen)}.")
    return [Config.of({**common, "method": name, "settings": {**own, **settings.get(name, {})}}) for name in chosen]


def read_plan(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The document in a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is no TOML: {error}.") from error


def keep_plan(folder: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Leave the document in a directory for runs, for those who go on with them."""
    place = Path(folder)
    if any(place.glob(f"*/{rundir.CONFIG}")) or (place / rundir.CONFIG).exists():
        raise RunError(f"{place} holds runs already. Go on with them (--resume), or choose another directory.")
    try:
        place.mkdir(parents=True, exist_ok=True)
        with new_file(place / PLAN, force=True) as file:
            file.write(write_toml(document).encode())
    except OSError as error:
        raise RunError(f"{place} cannot be written: {error.strerror}. Choose another directory with --out.") from error


def go_on(folder: str | os.PathLike[str], given: Mapping[str, Any]) -> list[Config]:
    """The runs that `keep_plan` was called for, to go on with; what is given anew must be as it was.

    Only how they are computed may change: `workers`, `device`, `compile`, `data_dir`.
    """
    place = Path(folder)
    if not (place / PLAN).is_file():
        above = f" It is one run's own directory: give {place.parent}." if (place.parent / PLAN).is_file() else ""
        raise RunError(f"{place} holds no runs to go on with: there is no {PLAN}.{above}")
    document = read_plan(place / PLAN)
    before, now = plan(document), plan({**document, **given})
    for old, new in zip(before, now, strict=True):
        check_unchanged(old.document(), new, place)
    return now


def save_draw(config: Config, draw: str | os.PathLike[str] | None, folder: str | os.PathLike[str]) -> None:
    """Write the draw that these settings give to a directory; `draw`: one with files to take in its place."""
    from fedcode.simulation.draw import Draw
    from fedcode.simulation.given import given

    drawn = Draw.of(config, given(config))
    (drawn if draw is None else drawn.read(draw)).save(folder)


def with_settings(document: Mapping[str, Any], given: Sequence[str]) -> dict[str, Any]:
    """The document with settings such as "fedcode.clusters=64".

    >>> with_settings({}, ["fedcode.clusters=64"])
    {'fedcode': {'clusters': 64}}
    """
    found = {name: dict(value) if isinstance(value, Mapping) else value for name, value in document.items()}
    for text in given:
        where, equals, value = text.partition("=")
        name, dot, setting = (part.strip() for part in where.partition("."))
        if not (equals and dot and name and setting):
            raise ArgumentError(f"a setting is written METHOD.SETTING=VALUE, as fedcode.clusters=64: got {text!r}.")
        table = found.setdefault(name, {})
        if not isinstance(table, dict):
            raise ArgumentError(f"{name} is no method; a setting is written METHOD.SETTING=VALUE: got {text!r}.")
        table[setting] = _value(name, setting, value.strip())
    return found


def _value(name: str, setting: str, text: str) -> Any:
    """A setting's value, read as what its default is."""
    known = options(name)
    if setting not in known:
        method(name, **{setting: text})  # raises, and says which there are
    value: Any = text
    if isinstance(known[setting], bool):
        value = {"true": True, "false": False}.get(text.lower(), text)
    elif isinstance(known[setting], int | float):
        for kind in (float, int):
            try:
                value = kind(text)
            except ValueError:
                continue
    of_kind(f"{name}.{setting}", value, known[setting])
    return value
