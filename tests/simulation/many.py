"""Run by test_scale: ten thousand clients of whom fifty take part in a round, and the memory that this takes.

    python -m tests.simulation.many FOLDER METHOD ROUNDS

prints a line a round: its number, bytes of this process in memory, clients with a memory on the disk, their bytes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from torch import nn

from fedcode.events import RoundDone
from fedcode.simulation import run
from tests.simulation.small import CLASSES, FEATURES, config, points

CLIENTS, A_ROUND = 10_000, 50
HIDDEN = 4000


def main(folder: Path, method: str, rounds: int) -> None:
    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))

    settings = {"clients": CLIENTS, "participation": A_ROUND / CLIENTS, "rounds": rounds, "partition": "equal"}
    examples = points(2 * CLIENTS)
    for event in run(config(method, **settings), data=examples, model=network, out=folder):
        if isinstance(event, RoundDone):
            memories = list((folder / "memories").glob("*"))
            size = sum(memory.stat().st_size for memory in memories)
            print(event.record["round"], resident(), len(memories), size, flush=True)


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
