"""The settings of every registered method: their types, and how a wrong one is told."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import fedcode
from fedcode import methods
from fedcode.errors import ArgumentError

SETTINGS = [
    (name, {"server_optimizer": "server"}.get(each.name, each.name), each.type)
    for name in methods.names()
    for each in dataclasses.fields(methods.class_of(name))
    if methods.class_of(name).__module__.startswith("fedcode.methods.")
]
CALLED = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a word"}


@pytest.mark.parametrize(("name", "setting", "kind"), SETTINGS)
def test_a_value_of_another_type_is_told_with_what_is_expected(name: str, setting: str, kind: str) -> None:
    wrong: list[Any] = [None, [1], b"1", 1j]
    more: dict[str, list[Any]] = {
        "int": ["64", 64.5, True],
        "float": ["0.5", True],
        "bool": [1, "yes"],
        "str": [1, True],
    }
    for value in wrong + more[kind]:
        with pytest.raises(ArgumentError) as caught:
            fedcode.method(name, **{setting: value})
        assert str(caught.value) == f"{setting} must be {CALLED[kind]}: got {value!r}."


@pytest.mark.parametrize(("name", "setting", "kind"), SETTINGS)
def test_no_number_is_taken_that_is_none(name: str, setting: str, kind: str) -> None:
    if kind == "float":
        for value in (float("nan"), float("inf"), -float("inf")):
            with pytest.raises(ArgumentError, match="got"):
                fedcode.method(name, **{setting: value})


@pytest.mark.parametrize("name", sorted({name for name, _, _ in SETTINGS}))
def test_defaults_are_accepted_and_shown_by_name(name: str) -> None:
    settings = methods.options(name)
    assert fedcode.method(name, **settings).settings() == settings
    assert {setting for other, setting, _ in SETTINGS if other == name} == set(settings)


def test_numbers_of_numpy_are_taken_as_pythons() -> None:
    settings = fedcode.method("delta", clusters=np.int64(32), bits=np.float32(1.5)).settings()
    assert (settings["clusters"], settings["bits"]) == (32, 1.5)
    assert type(settings["clusters"]) is int
    assert type(settings["bits"]) is float


def test_whole_numbers_are_numbers() -> None:
    assert fedcode.method("delta", bits=2).settings()["bits"] == 2
