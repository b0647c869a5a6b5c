"""What every method says of itself, and the page made of it."""

from __future__ import annotations

import re

import pytest

from docs.make_methods import PAGE, docstring, page
from fedcode.methods import class_of, names, options

OWN = [name for name in names() if class_of(name).__module__ == f"fedcode.methods.{name}"]
SHARED = {"server", "server_lr", "server_momentum"}  # said once for all methods


def test_the_page_is_what_its_script_writes() -> None:
    assert PAGE.read_text() == page(), "run .venv/bin/python docs/make_methods.py"


def test_it_has_every_method() -> None:
    assert len(OWN) == 11
    assert re.findall(r"^## (\S+)$", page(), re.MULTILINE) == OWN


@pytest.mark.parametrize("name", OWN)
def test_each_says_where_it_is_from_what_travels_and_what_is_kept(name: str) -> None:
    said = "\n\n".join(docstring(class_of(name)))
    assert re.search(r"^Source: .+", said, re.MULTILINE)
    assert re.search(r"^down\b", said, re.MULTILINE)
    assert re.search(r"^(up|down, up, then)\b", said, re.MULTILINE)
    assert re.search(r"^Hyperparameters\b", said, re.MULTILINE)
    assert re.search(r"^Kept: .*\bserver\b.*\bclient\b|^Kept: as FedAvg", said, re.MULTILINE | re.DOTALL)
    if name != "delta":  # which is of no paper
        assert re.search(r"\bFaithful: .+", said)
        assert re.search(r"\bAdapted: .+", said)


@pytest.mark.parametrize("name", OWN)
def test_each_names_every_setting_of_its_own(name: str) -> None:
    said = "\n".join(docstring(class_of(name)))
    for setting in set(options(name)) - SHARED:
        assert re.search(rf"\b{setting}\b", said), setting
