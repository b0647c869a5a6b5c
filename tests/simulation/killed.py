"""Run by test_resume: a run killed before its n-th touch of the file system, then gone on with, for many n.

    python killed.py FOLDER METHOD POINTS

prints for every point how many rounds were done and what became of the run that went on, as one line of JSON each;
first of all the run that nobody killed. The processes are forked from here, so that torch is imported once.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from fedcode import rundir
from fedcode.simulation import rounds, run
from tests.simulation.small import Network, config, points

TOUCHES = {"open", "os.rename", "os.remove", "os.mkdir"}


def main(folder: Path, method: str, points_of_time: int) -> None:
    """Kill at points spread evenly over the run, and at the last of all."""
    torch.set_num_threads(1)
    touches = train(folder / "whole", method)
    print(json.dumps(outcome(folder / "whole")), flush=True)
    for number in range(points_of_time):
        point = 1 + number * (touches - 1) // (points_of_time - 1)
        place = folder / f"killed-{point}"
        # some without a checkpoint before the last, as if writing one took long
        every = number % 3 > 0 or point > touches // 2
        status = forked(lambda place=place, point=point, every=every: train(place, method, point, every))
        assert os.WIFSIGNALED(status)
        assert os.WTERMSIG(status) == signal.SIGKILL
        before = rundir.read(place).history if (place / rundir.CONFIG).exists() else []
        assert forked(lambda place=place: train(place, method)) == 0
        print(json.dumps(outcome(place) | {"rounds": len(before)}), flush=True)


def train(place: Path, method: str, point: int | None = None, every: bool = True) -> int:
    """Run to the end, or be killed before that touch of the run's directory; how many there were."""
    touches = 0
    rounds.CHECKPOINT_SHARE = 0 if every else 10**9

    def touched(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal touches
        if event in TOUCHES and str(place) in str(arguments[0]):
            touches += 1
            if touches == point:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(touched)
    for _ in run(config(method), data=points(), model=Network, out=place, resume=True):
        pass
    return touches


def forked(work: Any) -> int:
    """Do it in a process of its own; how that ended."""
    process = os.fork()
    if not process:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(process, 0)[1]


def outcome(place: Path) -> dict[str, Any]:
    """All that a finished run left, times apart."""
    found = rundir.read(place)
    assert found.summary is not None
    untimed = [{**record, "seconds": None} for record in found.history]
    summary = {**found.summary, "seconds": None, "parts": None}
    names = ["model.safetensors", "checkpoint", "partition.json", "config.toml"]
    files = [place / name for name in names] + sorted((place / "memories").glob("*"))
    return {
        "history": digest(json.dumps(untimed).encode()),
        "summary": digest(json.dumps(summary).encode()),
        "files": {str(file.relative_to(place)): digest(file.read_bytes()) for file in files},
        "rest": sorted(file.name for file in place.iterdir() if file.name.endswith(".part")),
    }


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
