"""Write docs/methods.md out of the methods' docstrings and settings: `.venv/bin/python docs/make_methods.py`.

A test holds that the page is up to date.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

from fedcode.averaging import Averaging
from fedcode.ends import Method
from fedcode.methods import class_of, names, options

PAGE = Path(__file__).with_name("methods.md")

INTRO = """\
# Methods

<!-- Written by docs/make_methods.py from the docstrings of src/fedcode/methods; change those. -->

A method is two ends that turn models into messages and messages into models. Each is one file in `src/fedcode/methods`,
and beside each stands a reference in plain numpy, written from its paper (`tests/methods`): several rounds with three
clients agree number by number in what clients start from, in what messages hold and in what the server has after them;
with absences and lost replies where a method remembers anything.

What all of them share:

- Clients are weighted by the number of examples that they trained on.
- Statistics of normalisation layers travel beside the weights and are averaged; counters travel exactly and merge by
  their maximum. Both are in the bytes counted and in no paper's count.
- `labels` says how labels are sent: `packed`, as the papers count them, `entropy`-coded, or that given what the other
  end holds (`context`). The same weights arrive. `statistics` says whether statistics travel as they are (`exact`) or
  with a scale a tensor, variances by their logarithm (`8bit`).
- `server` takes the mean change as a gradient: `none` (the mean itself), `momentum`, `nesterov` or `adam`, with
  `server_lr` (1; Adam wants some 0.01) and `server_momentum` (0.5; 0.9 is the published value for long runs). Source:
  Hsu et al., Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification, 2019; Reddi
  et al., Adaptive Federated Optimization, ICLR 2021. Every method that averages has it.
- Bytes are those that left. Where a paper gives a count of its own, it is reported beside.

[A method of your own](own-method.md) is one class more.

"""
SHARED = tuple(each.name for each in dataclasses.fields(Averaging))
LEADS = "Hyperparameters|Faithful|Adapted|Kept|Statistics travel|A client that was away|A reply that|A trainer that"


def page() -> str:
    """The page."""
    found = {name: class_of(name) for name in names() if class_of(name).__module__ == f"fedcode.methods.{name}"}
    rows = [f"| [`{name}`](#{name}) | {_sentence(cls)} |" for name, cls in found.items()]
    contents = "\n".join(["| method | |", "|---|---|", *rows])
    return INTRO + contents + "\n" + "".join(_section(name, cls) for name, cls in found.items())


def docstring(cls: type[Method]) -> list[str]:
    """The paragraphs of what a method says of itself."""
    return (sys.modules[cls.__module__].__doc__ or "").strip().split("\n\n")


def _sentence(cls: type[Method]) -> str:
    return " ".join(docstring(cls)[0].split())


def _section(name: str, cls: type[Method]) -> str:
    first = next(i for i, part in enumerate(docstring(cls)) if part.startswith("Hyperparameters"))
    source, flow, said = docstring(cls)[1], docstring(cls)[2:first], docstring(cls)[first:]
    block = "\n\n".join(flow)
    return "\n".join(
        [
            f"\n## {name}\n",
            _sentence(cls) + "\n",
            " ".join(source.split()) + "\n",
            f"```text\n{block}\n```\n",
            *(f"{part}\n" for part in _parts(" ".join(said).replace("\n", " "))),
            *_settings(name, cls),
        ]
    )


def _parts(text: str) -> list[str]:
    """Cut before each of the leads, which become bold where a colon or comma follows."""
    cut = re.split(rf"(?<=[.)]) (?=(?:{LEADS})\b)", " ".join(text.split()))
    return [re.sub(r"^(Hyperparameters|Faithful|Adapted|Kept)\b", r"**\1**", part) for part in cut]


def _settings(name: str, cls: type[Method]) -> list[str]:
    fields = {each.name: each for each in dataclasses.fields(cls) if each.name not in SHARED}
    if not fields:
        return []
    rows = []
    for setting, each in fields.items():
        choices = ", ".join(f"`{choice}`" for choice in each.metadata.get("choices", ()))
        rows.append(f"| `{setting}` | `{_shown(options(name)[setting])}` | {choices} |")
    return ["| setting | default | choices |", "|---|---|---|", *rows, ""]


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page())
