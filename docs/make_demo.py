"""Put the table of results/demo.json into the README.

fedcode run fedavg fedavg_ws fedzip fedcode delta --json --quiet --out runs/demo > results/demo.json
python docs/make_demo.py
"""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

from fedcode.commands.run import show

ROOT = Path(__file__).parents[1]


def main() -> None:
    stored = json.loads((ROOT / "results" / "demo.json").read_text())
    with redirect_stdout(io.StringIO()) as out:
        show(stored["config"], stored["runs"])
    table = "\n".join(line.rstrip() for line in out.getvalue().splitlines()).strip()
    readme = ROOT / "README.md"
    readme.write_text(re.sub(r"digits, \d+ clients.*?┘", lambda _: table, readme.read_text(), count=1, flags=re.DOTALL))


if __name__ == "__main__":
    main()
