"""What `import fedcode` offers, by name: each is documented by an example that runs."""

from __future__ import annotations

import doctest
import inspect
import sys

import pytest

import fedcode

NAMES = [
    "CannotUse",
    "Codebook",
    "FedcodeError",
    "Method",
    "NonFiniteError",
    "RoundReport",
    "Server",
    "Task",
    "cluster",
    "decode",
    "encode",
    "memory_of",
    "method",
    "receive",
    "register",
    "reply",
    "simulate",
    "snap",
]


def test_these_are_the_names() -> None:
    assert fedcode.__all__ == [*NAMES, "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_an_example_that_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcode.methods._registered", {})  # an example registers a method
    found = getattr(fedcode, name)
    text = inspect.getdoc(found) or ""
    assert inspect.getdoc(type(found)) != text, "the docstring is its type's"
    module = sys.modules[found.__module__]
    test = doctest.DocTestParser().get_doctest(text, dict(vars(module)), name, module.__file__, 0)
    assert test.examples, "there is no example"
    assert any(example.want for example in test.examples), "the examples show nothing"
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert result.failed == 0, "".join(said)


@pytest.mark.parametrize("name", NAMES)
def test_every_function_and_method_says_what_it_takes_and_gives(name: str) -> None:
    found = getattr(fedcode, name)
    functions = [found] if inspect.isfunction(found) else [f for _, f in inspect.getmembers(found, inspect.isfunction)]
    for function in functions:
        if not function.__module__.startswith("fedcode") or function.__name__.startswith("_"):
            continue
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, function
        for parameter in signature.parameters.values():
            assert parameter.name == "self" or parameter.annotation is not inspect.Parameter.empty, function


def test_every_error_is_of_one_tree() -> None:
    for name in NAMES:
        found = getattr(fedcode, name)
        if isinstance(found, type) and issubclass(found, BaseException):
            assert issubclass(found, fedcode.FedcodeError)
            assert issubclass(found, Exception)
