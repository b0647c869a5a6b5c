"""docs/reproduction.md is what the results make, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedcode.errors import DataError
from fedcode.experiments.catalogue import EXPERIMENTS
from fedcode.experiments.page import DISCUSSION, OPENING, SCALES, _sections, number, page, write_page
from fedcode.experiments.results import Results
from tests.experiments.conftest import SMALL, Made

ROOT = Path(__file__).parents[2]


def test_the_page_in_docs_is_current() -> None:
    current = page(Results(ROOT / "results"))
    assert (ROOT / "docs/reproduction.md").read_text(encoding="utf-8") == current, (
        "run: fedcode reproduce --document docs/reproduction.md"
    )


def test_every_experiment_is_discussed_and_nothing_else() -> None:
    assert set(_sections(DISCUSSION.read_text(encoding="utf-8"))) == {OPENING, *EXPERIMENTS}


def test_the_page_says_of_each_experiment_what_was_not_run(made: Made) -> None:
    text = page(made.results, "")
    sections = _sections(text)
    assert list(sections) == list(EXPERIMENTS)
    for name, section in sections.items():
        if name in ("codebook-silence", "figure-bounds"):
            continue
        assert "Not run: " + "; ".join(title[0].lower() + title[1:] for title in SCALES.values()) in section
    assert "Not run: the paper's scale; the small scale." in sections["codebook-silence"]
    assert "(digits, 2 rounds)" in sections["codebook-silence"]


def test_a_number_in_the_words_comes_from_a_table(made: Made, tmp_path: Path) -> None:
    words = "## codebook-silence\n\nIt is {codebook-silence|digits, 2 rounds|FedCode|DTR total}.\n"
    record = made.results.records[SMALL.cells()[1].key]
    assert f"It is {record['summary']['dtr']['total']:.1f}." in page(made.results, words)
    write_page(tmp_path / "page.md", made.results)
    assert (tmp_path / "page.md").read_text() == page(made.results)


def test_a_paragraph_about_what_was_not_measured_is_left_out_and_a_misspelt_number_an_error(made: Made) -> None:
    words = "## frontier\n\nHere.\n\nAt {codebook-silence|paper|FedCode|best %} or so.\n\nThere.\n"
    text = page(made.results, words)
    assert "Here.\n\nThere." in text
    assert "or so" not in text
    assert number(made.results, "codebook-silence", SMALL.key, "FedAvg", "to FedAvg") is None
    for wrong in (("nothing", "small", "FedCode", "best %"), ("codebook-silence", SMALL.key, "FedCode", "bets %")):
        with pytest.raises(DataError, match="which no table has"):
            number(made.results, *wrong)
