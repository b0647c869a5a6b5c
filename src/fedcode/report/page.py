"""One self-contained page about runs: a table, charts, settings. It opens from a file and asks no network for anything.

Everything that comes out of a run's directory is somebody else's text: it reaches the page escaped, or as JSON that
the script puts into text nodes, attributes and the canvas, never into markup. The page's own policy forbids requests
and any script but its own two, which it names by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template

from fedcode import __version__
from fedcode.files import new_file
from fedcode.report import again, series
from fedcode.report.comparison import Comparison
from fedcode.report.trace import Trace

ASSETS = Path(__file__).with_name("assets")


def write_page(path: Path, comparison: Comparison, title: str | None = None) -> None:
    """Write the page about these runs, in the place of one that is there."""
    with new_file(path, force=True) as file:
        file.write(page(comparison, title).encode("utf-8", "replace"))


def page(comparison: Comparison, title: str | None = None) -> str:
    """The page as HTML."""
    traces = comparison.gathering.traces
    remarks = list(comparison.gathering.remarks)
    data = {
        "runs": [series.of_run(trace, remarks) for trace in traces],
        "mixes": series.class_mixes(traces),
    }
    library, script = _asset("chart.js").partition("//# sourceMappingURL")[0], _asset("page.js")
    thin = any(trace.rounds > series.POINTS for trace in traces)
    return Template(_asset("page.html")).substitute(
        title=html.escape(title or heading(traces)),
        verdict=html.escape(verdict(comparison)),
        remarks=_list(remarks),
        table=comparison.html(),
        notes="".join(f"<p>{html.escape(note)}</p>" for note in [*comparison.legend("Bold"), *comparison.notes]),
        thin=f"<p>Of longer runs the charts draw {series.POINTS} rounds, evenly spaced, the best among them.</p>"
        * thin,
        settings=_settings(traces),
        version=html.escape(__version__),
        data=_embedded(data),
        style=_asset("page.css"),
        scripts=" ".join(_hashed(text) for text in (library, script)),
        library=library,
        script=script,
    )


def heading(traces: Sequence[Trace]) -> str:
    """What the runs have in common, as a title.

    >>> heading([Trace.of({"method": "fedavg", "dataset": "digits", "clients": 10, "rounds": 30}, [], None, "here")])
    'digits, 10 clients, 30 rounds'
    """
    parts = []
    for name, words in (("dataset", "{}"), ("network", "{}"), ("clients", "{} clients"), ("rounds", "{} rounds")):
        found = {str(trace.config.get(name)) for trace in traces if trace.config.get(name) is not None}
        if len(found) == 1 and not (
            name == "network" and found <= {str(trace.config.get("dataset")) for trace in traces}
        ):
            parts.append(words.format(found.pop()))
    return ", ".join(parts) or "Runs of fedcode"


def verdict(comparison: Comparison) -> str:
    """The figure that matters, as a sentence: who came how cheaply to 80 % of FedAvg's best."""
    fedavg, wanted = comparison.gathering.fedavg, comparison.target
    reached = {}
    for trace in comparison.gathering.traces:
        rounds = None if wanted is None else trace.until(wanted)
        if rounds is not None:
            reached[trace.label] = float(trace.megabytes[rounds - 1])
    if not reached:
        return "No run has an accuracy yet."
    first = min(reached, key=lambda label: reached[label])
    text = f"{first} was the cheapest to reach {comparison.wanted}: {reached[first]:,.2f} MB both ways, all clients."
    if fedavg is not None and fedavg.label in reached and fedavg.label != first:
        base = reached[fedavg.label]
        times = f", {base / reached[first]:,.1f} times as much" if reached[first] else ""
        text += f" {fedavg.label} needed {base:,.2f} MB{times}."
    return text


def _settings(traces: Sequence[Trace]) -> str:
    groups, parts = again.settings(traces), []
    for labels, text in groups:
        words = html.escape(", ".join(labels))
        body = f"<p>Save as <code>{again.FILE}</code>:</p>{again.paragraph(text)}"
        few = f"<h3>{words}</h3>{body}"
        parts.append(few if len(groups) <= 2 else f"<details><summary>{words}</summary>{body}</details>")
    parts.append(f"<p>Then:</p>{again.paragraph(again.command())}")
    places = dict.fromkeys(again.where(trace) for trace in traces)
    parts += [f'<p class="where">Run with {html.escape(place)}.</p>' for place in places if place]
    return "".join(parts)


def _list(remarks: Sequence[str]) -> str:
    if not remarks:
        return ""
    items = "".join(f"<li>{html.escape(remark)}</li>" for remark in dict.fromkeys(remarks))
    return (
        f'<section class="remarks" aria-labelledby="remarks"><h2 id="remarks">Not whole</h2><ul>{items}</ul></section>'
    )


def _embedded(data: object) -> str:
    """JSON that can stand in a script element: no text in it can end that element."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hashed(script: str) -> str:
    """A script as a policy names it, so that the browser runs this one and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")
