"""Writes the measured parts of docs/flower.md from results/flower.json: python docs/make_flower.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("flower.md")
RESULTS = Path(__file__).parents[1] / "results/flower.json"
STOCK = "stock FedAvg"
PART = r"<!-- measured: {} -->\n.*?<!-- end -->"


def page() -> str:
    """The page as it stands, with what was measured put in anew."""
    text, found = PAGE.read_text(), json.loads(RESULTS.read_text())
    for part in (overhead, simulation, link, large):
        body = f"<!-- measured: {part.__name__} -->\n{part(found)}\n<!-- end -->"
        text, count = re.subn(PART.format(part.__name__), body, text, flags=re.DOTALL)
        assert count == 1, part.__name__
    return text


def overhead(found: dict[str, Any]) -> str:
    """What Flower puts on top."""
    one = found["link"]["delta"]
    kilobytes = one["overhead_bytes_a_client_and_round"]
    payload, wire = (sum(one[f"{name}_megabytes"].values()) for name in ("payload", "wire"))
    return (
        f"A counting proxy on the slow links below saw {wire:.1f} MB for {payload:.1f} MB of payload: "
        f"{kilobytes['down'] / 1000:.0f} kB down and\n"
        f"{kilobytes['up'] / 1000:.0f} kB up a client and round, greeting and the app's own files included."
    )


def simulation(found: dict[str, Any]) -> str:
    """A round in the simulation."""
    rows = [
        "| weights | | no training, s a round | to stock | own simulator | 40 steps, s a round | to stock |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, one in found["simulation"].items():
        for name, taken in one["seconds_a_round"].items():
            own = one["own_simulator_seconds_a_round"].get(name)
            cells = [
                f"{int(size) / 1e6:g} M",
                name,
                f"{taken:.2f}",
                f"{one['ratio_to_stock'][name]:.2f}",
                "" if own is None else f"{own:.2f}",
            ]
            longer = "training_seconds_a_round", "training_ratio_to_stock"
            cells += [f"{one[key][name]:.2f}" if key in one else "not run" for key in longer]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def link(found: dict[str, Any]) -> str:
    """A round over a slow link."""
    about = found["link"]
    rows = ["| | s a round | MB over the wire, down | up |", "|---|---|---|---|"]
    for key, name in (("stock", STOCK), ("delta", "delta")):
        wire = about[key]["wire_megabytes"]
        rows.append(f"| {name} | {about[key]['seconds_a_round']:.1f} | {wire['down']:.1f} | {wire['up']:.1f} |")
    return "\n".join([*rows, "", f"So a round of delta is {about['stock_to_delta']:.1f} times faster."])


def large(found: dict[str, Any]) -> str:
    """What a large model takes."""
    about = found["large"]
    rows = [
        "| | SuperLink, MB | with mapped pages | ServerApp, MB | ClientApp, MB | s a round | MB a client, down, up |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in ("fedavg", "delta"):
        one = about[name]
        taken = ", ".join(f"{seconds:.0f}" for seconds in one["seconds_a_round"])
        sent = ", ".join(f"{sizes['down']:.0f} and {sizes['up']:.0f}" for sizes in one["payload_megabytes"])
        keys = "superlink_megabytes", "superlink_megabytes_with_mapped_pages", "server_megabytes", "client_megabytes"
        peaks = " | ".join(str(one[key]) for key in keys)
        rows.append(f"| {name} | {peaks} | {taken} | {sent} |")
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page())
