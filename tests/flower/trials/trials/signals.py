"""What the processes of a trial say to the test, and what they are told: pipes and files in one directory."""

from __future__ import annotations

import json
import os
from pathlib import Path


def say(signals: str, what: str) -> None:
    """Tell the test that something has come to pass."""
    pipe = os.open(Path(signals) / "said", os.O_WRONLY)
    os.write(pipe, f"{what}\n".encode())
    os.close(pipe)


def told(signals: str, who: str, number: int) -> str:
    """What the test wants of this client or server in this round."""
    path = Path(signals) / f"{who}.json"
    orders = json.loads(path.read_text()) if path.exists() else {}
    return str(orders.get(str(number), ""))


def hold(signals: str) -> None:
    """Stand still, until the test lets go or ends this process."""
    with (Path(signals) / "held").open() as pipe:
        pipe.read()
