"""Try hostile inputs on everything that reads bytes from outside, and say what came of it.

    .venv/bin/python tests/fuzz.py --inputs 1000000 --json results/fuzz.json

A failure is printed with the input in hex, and the command then ends with 1. `--only` chooses readers by a part of
their names; another `--seed` makes other inputs.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from machine import machine  # noqa: E402

from tests.hostile import Outcome, run  # noqa: E402


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes that share the inputs")
    parser.add_argument("--only", default="", help="readers whose names contain this")
    parser.add_argument("--json", type=Path, help="where to store the figures")
    given = parser.parse_args()
    shares = [given.inputs * (i + 1) // given.workers - given.inputs * i // given.workers for i in range(given.workers)]
    seeds = [given.seed + i for i in range(given.workers)]
    if given.workers == 1:
        outcome = run(given.inputs, given.seed, given.only)
    else:
        with ProcessPoolExecutor(given.workers, get_context("spawn")) as pool:
            outcome = sum(pool.map(run, shares, seeds, [given.only] * given.workers), Outcome())
    found = {"seed": given.seed, "workers": given.workers, **vars(outcome), "machine": machine()}
    print(f"{outcome.inputs:,} inputs in {outcome.seconds:.0f} s: {dict(outcome.by_result)}")
    print(f"slowest {outcome.slowest_ms:.0f} ms ({outcome.slowest}), memory +{outcome.memory_growth_mb:.0f} MB")
    for where, what in outcome.failures.items():
        print(f"FAILURE {where}\n    {what[:200]}")
    if given.json:
        given.json.parent.mkdir(exist_ok=True)
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())
