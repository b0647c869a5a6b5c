"""docs/reproduction.md: everything that was measured, beside what the paper says, and what we make of it.

The words stand in discussion.md beside this file, a section for each experiment under its name. They hold no
numbers of their own: `{experiment|plan|line|column}` stands for what a table of the results says, and a paragraph
that asks for what was not measured is left out.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from fedcode.errors import DataError
from fedcode.experiments.catalogue import EXPERIMENTS
from fedcode.experiments.cell import DIGITS
from fedcode.experiments.count_tables import counted
from fedcode.experiments.plan import Plan
from fedcode.experiments.results import Results
from fedcode.experiments.table import NOTHING
from fedcode.experiments.tables import measured
from fedcode.files import new_file

DISCUSSION = Path(__file__).with_name("discussion.md")
OPENING = "opening"
SCALES = {"paper": "The paper's scale", "small": "The small scale", DIGITS: "The digits"}
_NUMBER = re.compile(r"\{([^{}|]+)\|([^{}|]+)\|([^{}|]+)\|([^{}|]+)\}")


def write_page(path: Path, results: Results) -> None:
    """Write the page about everything in the results."""
    with new_file(path, force=True) as file:
        file.write(page(results).encode())


def page(results: Results, discussion: str | None = None) -> str:
    """The page as markdown. discussion: the words, otherwise than in discussion.md."""
    said = _sections(DISCUSSION.read_text(encoding="utf-8") if discussion is None else discussion)
    parts = ["# The paper's experiments, and what we measured", *_words(said.get(OPENING, ""), results)]
    for name in EXPERIMENTS:
        parts += [f"## {name}", f"{EXPERIMENTS[name].title}.", *_words(said.get(name, ""), results)]
        parts += _tables(name, results)
    return "\n\n".join(parts) + "\n"


def number(results: Results, name: str, key: str, line: str, head: str) -> str | None:
    """What the first table of a plan that has this column says of this line; None where it was not measured."""
    plan = results.plans.get(name, {}).get(key)
    if plan is None and name in EXPERIMENTS:
        return None
    tables = [] if plan is None else [*measured(plan, results), *counted(plan)]
    for table in tables:
        for texts in table.texts() if head in table.heads else []:
            if texts[0] == line:
                found = texts[table.heads.index(head)]
                return None if found == NOTHING else found
    raise DataError(f"{DISCUSSION.name} asks for {name}|{key}|{line}|{head}, which no table has.")


def _words(text: str, results: Results) -> Iterator[str]:
    """The paragraphs with their numbers; one that speaks of what was not measured is left out."""
    for paragraph in re.split(r"\n{2,}", text):
        found = {match[0]: number(results, *match.groups()) for match in _NUMBER.finditer(paragraph)}
        if None in found.values() or not paragraph.strip():
            continue
        for asked, value in found.items():
            paragraph = paragraph.replace(asked, str(value))
        yield textwrap.fill(paragraph, 120, break_long_words=False, break_on_hyphens=False)


def _tables(name: str, results: Results) -> Iterator[str]:
    for table in counted(Plan(name)):
        yield f"**{table.title}**"
        yield table.filled().markdown()
    plans = results.plans.get(name, {})
    if EXPERIMENTS[name].shows == "bounds":  # nothing to train
        return
    missing = [title for scale, title in SCALES.items() if not any(_scale(plan) == scale for plan in plans.values())]
    for scale in SCALES:
        for plan in (plan for plan in plans.values() if _scale(plan) == scale):
            for table in measured(plan, results):
                yield f"**{table.title}**"
                yield table.filled().markdown()
    if missing:
        yield f"Not run: {'; '.join(title[0].lower() + title[1:] for title in missing)}."


def _scale(plan: Plan) -> str:
    return DIGITS if plan.dataset == DIGITS else plan.scale


def _sections(text: str) -> dict[str, str]:
    """The parts of a text under its `## ` headings.

    >>> _sections("## opening\\n\\nHello.\\n## frontier\\nBye.\\n")
    {'opening': 'Hello.', 'frontier': 'Bye.'}
    """
    found = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name, _, words = part.partition("\n")
        found[name.strip()] = words.strip()
    return found
