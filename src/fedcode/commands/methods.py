"""`fedcode methods`: the methods, their settings and defaults."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from typing import Annotated, Any

import typer

from fedcode.commands import console


def methods(
    name: Annotated[str | None, typer.Argument(help="Say everything about this one.")] = None,
    as_json: console.Json = False,
) -> None:
    """List the methods with their settings and defaults.

    \b
    Examples:
      fedcode methods
      fedcode methods fedcode
    """
    from fedcode.methods import names, options

    chosen = names() if name is None else (name,)
    if as_json:
        console.document({each: {"about": about(each)[0], "settings": options(each)} for each in chosen})
        return
    if name is not None:
        print(about(name)[1])
        console.table(f"{name}'s settings", ("setting", "default", "choices"), _rows(name), numbers=False)
        return
    console.table(
        "Methods",
        ("method", "what it sends", "settings and defaults"),
        [(each, about(each)[0], _line(options(each))) for each in chosen],
        numbers=False,
    )


def about(name: str) -> tuple[str, str]:
    """The first sentence of a method's description, and the whole.

    >>> about("fedavg")[0].startswith("FedAvg: whole models as they are")
    True
    """
    from fedcode.methods import class_of

    cls = class_of(name)
    own = sys.modules[cls.__module__].__doc__ if cls.__module__.startswith("fedcode.") else cls.__doc__
    text = inspect.cleandoc(own or name)
    return " ".join(text.split("\n\n")[0].split()), text


def _rows(name: str) -> list[tuple[str, str, str]]:
    from fedcode.methods import class_of, options

    choices = {each.name: each.metadata.get("choices", ()) for each in dataclasses.fields(class_of(name))}
    choices["server"] = choices.get("server_optimizer", ())  # the field's name, where a method has a function `server`
    return [(setting, str(default), ", ".join(choices.get(setting, ()))) for setting, default in options(name).items()]


def _line(settings: dict[str, Any]) -> str:
    return ", ".join(f"{setting}={default}" for setting, default in settings.items())
