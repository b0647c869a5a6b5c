"""The page as a file: small, closed, and safe with whatever a run's directory says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from fedcode.report import again, series
from fedcode.report.comparison import Comparison
from fedcode.report.gathering import gather
from fedcode.report.link import Link
from fedcode.report.page import page, verdict, write_page
from fedcode.simulation import plan
from tests.report.conftest import write_run

LIMIT = 3_000_000


def data_of(text: str) -> Any:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert match
    return json.loads(match[1])


def test_the_data_is_what_the_runs_say(study: Path) -> None:
    data = data_of(page(Comparison(gather([study]))))
    runs = {run["label"]: run for run in data["runs"]}
    lines = [json.loads(line) for line in (study / "fedcode" / "history.jsonl").read_text().splitlines()]
    run = runs["fedcode"]
    assert run["round"] == [line["round"] for line in lines]
    assert run["accuracy"] == pytest.approx([100 * line["accuracy"] for line in lines], rel=1e-5)
    assert run["down"] == [line["bytes"]["down"] for line in lines]
    sent = [line["bytes"]["down"] + line["bytes"]["up"] for line in lines]
    assert run["megabytes"] == pytest.approx([sum(sent[: n + 1]) / 2**20 for n in range(6)], rel=1e-5)
    assert run["bits"] == pytest.approx([8 * count / 3000 for count in sent], rel=1e-5)
    assert run["seconds"] == {"training": 3.0, "method": 0.6, "evaluation": 1.2, "other": 0.3}
    assert run["centers"]["of"] == 8
    assert len(run["centers"]["lines"]) == 8
    assert [line[0] for line in run["centers"]["lines"]] == pytest.approx(lines[0]["centers"], rel=1e-4)
    assert sum(run["weights"]["count"]) == 20 * 24 + 20  # the mean and the counter are not trained
    assert run["weights"]["centers"] == pytest.approx(lines[-1]["centers"], rel=1e-4)
    assert runs["fedavg"]["centers"] is None
    assert data["mixes"] == [{"runs": list(runs), "classes": [[5, 6, 7, 0], [5, 6, 7, 1], [5, 6, 7, 2]], "clients": 3}]


def test_the_page_asks_for_nothing(study: Path) -> None:
    text = page(Comparison(gather([study])))
    assert "default-src 'none'" in text
    assert "sourceMappingURL" not in text
    outside = re.sub(r"<script>.*?</script>", "", text, flags=re.S)  # the library's own names its home in a comment
    assert not re.search(r"https?://|@import|url\(|<link(?! rel=\"icon\" href=\"data:,\")|<img|<iframe", outside)


def test_the_policy_names_the_pages_scripts_and_no_other(study: Path) -> None:
    text = page(Comparison(gather([study])))
    policy = re.search(r"script-src ([^;]*);", text)
    assert policy
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert policy[1].split() == [f"'sha256-{digest}'" for digest in digests]
    assert len(scripts) == 2


def test_a_run_that_sent_nothing_is_no_division_by_zero(tmp_path: Path) -> None:
    write_run(tmp_path / "fedavg", "fedavg")
    history = write_run(tmp_path / "silent") / "history.jsonl"
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    silent = [line | {"accuracy": 0.99, "bytes": {"down": 0, "up": 0, "evaluate": 0}} for line in lines]
    history.write_text("".join(json.dumps(line) + "\n" for line in silent))
    said = verdict(Comparison(gather([tmp_path])))
    assert said.startswith("silent was the cheapest")
    assert said.endswith("MB.")


def test_the_page_says_what_matters_first(study: Path) -> None:
    comparison = Comparison(gather([study]))
    assert re.match(
        r"delta was the cheapest to reach 80 % of FedAvg's best accuracy \(\d\d\.\d\d %\): 0\.0\d MB both ways, all "
        r"clients\. fedavg needed \d\.\d\d MB, \d\d\.\d times as much\.$",
        verdict(comparison),
    )


def test_a_thousand_rounds_of_ten_methods_fit(long_study: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(path, Comparison(gather([long_study]), Link.of("4g")))
    assert path.stat().st_size < LIMIT
    data = data_of(path.read_text())
    assert [len(run["round"]) for run in data["runs"]] == [series.POINTS] * 10
    assert all(run["round"][0] == 1 and run["round"][-1] == 1000 for run in data["runs"])
    assert "the charts draw 500 rounds" in path.read_text()


HOSTILE = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "${title} $data &amp; \u2028 \ud7ff"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_run_says_stays_text(tmp_path: Path, text: str) -> None:
    write_run(tmp_path / "fedavg", "fedavg", label=text, dataset=text, settings={"a": text})
    summary = tmp_path / "fedavg" / "summary.json"
    found = json.loads(summary.read_text()) | {"machine": {text: text}, "versions": {"x": text}}
    summary.write_text(json.dumps(found))
    made = page(Comparison(gather([tmp_path])), title=text)
    assert "<script>alert" not in made
    assert "<img" not in made
    assert data_of(made)["runs"][0]["label"] == text


def test_a_damaged_model_costs_its_histogram_alone(tmp_path: Path) -> None:
    write_run(tmp_path / "fedavg", "fedavg")
    run = write_run(tmp_path / "fedcode")
    content = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").write_bytes(content[: len(content) // 2])
    text = page(Comparison(gather([tmp_path])))
    runs = {one["label"]: one for one in data_of(text)["runs"]}
    assert runs["fedcode"]["weights"] is None
    assert runs["fedavg"]["weights"] is not None
    assert f"{run / 'model.safetensors'} is cut short" in text


def test_a_model_that_is_not_finite_is_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "fedcode")
    save_file({"w": np.array([[1.0, np.nan]], np.float32)}, run / "model.safetensors")
    assert "some that are not finite" in page(Comparison(gather([run])))


def test_settings_of_the_page_run_again(tmp_path: Path) -> None:
    write_run(tmp_path / "fedavg", "fedavg", settings={"server": "none"})
    write_run(tmp_path / "fedcode", settings={"clusters": 16})
    write_run(tmp_path / "later", rounds=9, settings={"clusters": 8})
    groups = {tuple(sorted(labels)): text for labels, text in again.settings(gather([tmp_path]).traces)}
    assert set(groups) == {("fedavg", "fedcode"), ("later",)}
    configs = plan.plan(tomllib.loads(groups["fedavg", "fedcode"]))
    assert sorted((config.method, config.rounds) for config in configs) == [("fedavg", 6), ("fedcode", 6)]
    assert next(config for config in configs if config.method == "fedcode").settings["clusters"] == 16


def test_pages_are_the_same_each_time(study: Path) -> None:
    assert page(Comparison(gather([study]))) == page(Comparison(gather([study])))


def test_thinning_keeps_the_ends_and_what_must_stay() -> None:
    for count in (1, 2, 499, 500, 501, 1000, 12345):
        kept = series.thinned(count, 500, [count // 3])
        assert len(kept) <= 500
        assert kept == sorted(set(kept))
        assert {0, count // 3, count - 1} <= set(kept)


@pytest.mark.parametrize("value", [None, True, [], {}, "x", -1, 0, 1e308, 10**400, [[]], {"a": []}, "</script>"])
def test_no_value_of_a_file_ends_in_a_traceback(tmp_path: Path, value: Any) -> None:
    write_run(tmp_path / "fedavg", "fedavg", rounds=2)
    run = write_run(tmp_path / "fedcode", rounds=2)
    summary, history = json.loads((run / "summary.json").read_text()), (run / "history.jsonl").read_text()
    shown = 0
    for name in summary:
        (run / "summary.json").write_text(json.dumps(summary | {name: value}))
        shown += _shows(tmp_path)
    (run / "summary.json").write_text(json.dumps(summary))
    first, second = (json.loads(line) for line in history.splitlines())
    for name in second:
        (run / "history.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(second | {name: value})}\n")
        shown += _shows(tmp_path)
    assert shown == len(summary) + len(second)  # FedAvg's run is there whatever the other says


def _shows(place: Path) -> bool:
    comparison = Comparison(gather([place]), Link.of("4g"))
    documents = [comparison.document(trace) for trace in comparison.gathering.traces]
    return "fedavg" in page(comparison) and "fedavg" in {document["label"] for document in documents}


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_count_beyond_all_measure_is_no_traceback(tmp_path: Path, digits: int) -> None:
    write_run(tmp_path / "fedavg", "fedavg", rounds=2)
    run = write_run(tmp_path / "fedcode", rounds=2)
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(config.replace("clients = 3", f"clients = {'9' * digits}"))
    assert _shows(tmp_path)
