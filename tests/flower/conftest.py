"""Without Flower its tests are left out, and pytest's first lines say so."""

from importlib.util import find_spec

HERE = find_spec("flwr") is not None
collect_ignore_glob = [] if HERE else ["test_*.py"]


def pytest_report_header() -> str:
    return "flower: its tests run" if HERE else "flower: flwr is not installed, tests/flower is left out"
