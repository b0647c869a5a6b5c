"""The page in a browser, as people open it: from a file, headless Chromium."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedcode.report.comparison import Comparison
from fedcode.report.gathering import gather
from fedcode.report.link import Link
from fedcode.report.page import write_page
from tests.report.conftest import write_run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CHARTS = {"volume", "accuracy", "down", "up", "bits", "centers", "weights", "mix", "time"}

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on the path")


class Opened:
    """A page in the browser, and what it complained of or asked for."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page, self.said, self.asked = page, list[str](), list[str]()
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", timeout=60_000)

    def ask(self, code: str) -> Any:
        return self.page.evaluate(code)

    def drawn(self) -> None:
        """Wait for what follows from an event; waiting for a condition is forbidden by the page's own policy."""
        self.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def sizes(self, chart: str) -> dict[str, int]:
        """How many points a chart draws, by its datasets' labels."""
        code = f"Object.fromEntries(fedcode.{chart}.data.datasets.map((set) => [set.label, set.data.length]))"
        return dict(self.ask(code))

    def pixels(self, chart: str) -> int:
        """How many pixels of a chart's canvas are not empty."""
        return int(
            self.ask(
                f"""(() => {{ const c = document.getElementById("{chart}");
                const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
                let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }})()"""
            )
        )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        arguments = ["--disable-gpu", *(["--no-sandbox"] if os.getuid() == 0 else [])]
        started = driver.chromium.launch(executable_path=BROWSER, args=arguments)
        yield started
        started.close()


@pytest.fixture(scope="module")
def report(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, Comparison(gather([study]), Link.of("3g")))
    return path


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[Opened]:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    yield Opened(page, report)
    page.close()


def history(study: Path, name: str) -> list[Any]:
    return [json.loads(line) for line in (study / name / "history.jsonl").read_text().splitlines()]


def test_no_complaint_and_no_request(opened: Opened, report: Path) -> None:
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [report.as_uri()]


def test_every_chart_draws_every_point(opened: Opened, study: Path) -> None:
    assert set(opened.ask("Object.keys(fedcode)")) == CHARTS
    rounds = {name: len(history(study, name)) for name in ("fedavg", "fedcode", "delta")}
    for chart in ("volume", "accuracy", "down", "up", "bits"):
        assert opened.sizes(chart) == rounds, chart
    assert opened.sizes("centers") == {f"centre {n} of 8": rounds["fedcode"] for n in range(1, 9)}
    assert opened.sizes("weights") == {"weights": 120, "centre": 8}
    assert opened.sizes("mix") == {f"class {n}": 3 for n in range(4)}
    assert set(opened.sizes("time").values()) == {3}
    for chart in CHARTS:
        assert opened.pixels(chart) > 1000, chart


def test_points_lie_where_the_history_says(opened: Opened, study: Path) -> None:
    sent = 0.0
    points = opened.ask('fedcode.volume.data.datasets.find((set) => set.label === "delta").data')
    for point, line in zip(points, history(study, "delta"), strict=True):
        sent += (line["bytes"]["down"] + line["bytes"]["up"]) / 2**20
        assert point["x"] == pytest.approx(sent, rel=1e-5)
        assert point["y"] == pytest.approx(100 * line["accuracy"], rel=1e-5)


@pytest.mark.parametrize(("chart", "axis"), [("volume", "x"), ("down", "y"), ("up", "y"), ("bits", "y")])
def test_the_switch_changes_the_scale(opened: Opened, chart: str, axis: str) -> None:
    figure = opened.page.locator("figure", has=opened.page.locator(f"#{chart}"))
    assert opened.ask(f"fedcode.{chart}.scales.{axis}.type") == "logarithmic"
    figure.get_by_role("button", name="Linear").click()
    assert opened.ask(f"fedcode.{chart}.scales.{axis}.type") == "linear"
    assert figure.get_by_role("button", name="Linear").get_attribute("aria-pressed") == "true"
    assert figure.get_by_role("button", name="Log").get_attribute("aria-pressed") == "false"
    figure.get_by_role("button", name="Log").click()
    assert opened.ask(f"fedcode.{chart}.scales.{axis}.type") == "logarithmic"
    assert opened.said == []


def test_few_weights_show_on_a_log_scale(opened: Opened) -> None:
    figure = opened.page.locator("figure", has=opened.page.locator("#weights"))
    assert opened.ask("fedcode.weights.scales.y.type") == "linear"
    figure.get_by_role("button", name="Log").click()
    assert opened.ask("fedcode.weights.scales.y.type") == "logarithmic"
    assert opened.said == []


def test_hovering_shows_the_values(opened: Opened, study: Path) -> None:
    opened.page.locator("#accuracy").scroll_into_view_if_needed()
    place = opened.ask(
        """(() => { const { x, y } = fedcode.accuracy.getDatasetMeta(0).data[3];
        const box = document.getElementById("accuracy").getBoundingClientRect();
        return [box.left + x, box.top + y]; })()"""
    )
    opened.page.mouse.move(*place)
    opened.drawn()
    assert opened.ask("fedcode.accuracy.tooltip.opacity") > 0
    said = opened.ask("fedcode.accuracy.tooltip.body.map((part) => part.lines).flat().join()")
    label = opened.ask("fedcode.accuracy.data.datasets[0].label")
    accuracy = 100 * history(study, label)[3]["accuracy"]
    assert said == f"{label}: {float(f'{accuracy:.4g}'):g} %, round 4"


def test_the_legend_puts_a_run_aside_everywhere(opened: Opened) -> None:
    figure = opened.page.locator("figure", has=opened.page.locator("#bits"))
    button = figure.get_by_role("button", name="fedcode")
    button.click()
    at = opened.ask('fedcode.bits.data.datasets.findIndex((set) => set.label === "fedcode")')
    for chart in ("volume", "accuracy", "bits"):
        assert not opened.ask(f"fedcode.{chart}.isDatasetVisible({at})")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert opened.ask(f"fedcode.volume.isDatasetVisible({at})")


def test_the_keyboard_is_enough(opened: Opened) -> None:
    page = opened.page
    page.keyboard.press("Tab")
    assert opened.ask("document.activeElement.className") == "skip"
    page.locator("#volume").focus()
    first = opened.ask("fedcode.volume.data.datasets[0].label")
    second = opened.ask("fedcode.volume.data.datasets[1].label")
    said = page.locator('output[for="volume"]')
    page.keyboard.press("ArrowRight")
    assert said.text_content().startswith(f"{first}: ")
    assert said.text_content().endswith("round 1")
    page.keyboard.press("End")
    assert said.text_content().endswith("round 6")
    page.keyboard.press("ArrowDown")
    assert said.text_content().startswith(f"{second}: ")
    page.keyboard.press("ArrowLeft")
    assert said.text_content().endswith("round 5")
    page.keyboard.press("Escape")
    assert said.text_content() == ""


def test_screen_readers_find_words(opened: Opened) -> None:
    for chart in CHARTS:
        canvas = opened.page.locator(f"#{chart}")
        assert canvas.get_attribute("role") == "img"
        for name in ("aria-labelledby", "aria-describedby"):
            assert opened.page.locator(f"#{canvas.get_attribute(name)}").text_content(), (chart, name)
    unnamed = opened.ask(
        """[...document.querySelectorAll("button, select")].filter((one) =>
        !(one.textContent.trim() || one.getAttribute("aria-label"))).length"""
    )
    assert unnamed == 0
    assert opened.ask("document.documentElement.lang") == "en"


def test_the_numbers_of_a_chart_can_be_read(opened: Opened) -> None:
    figure = opened.page.locator("figure", has=opened.page.locator("#down"))
    figure.locator("summary").click()
    rows = figure.locator("details tbody tr")
    rows.first.wait_for()
    assert rows.count() == 18


def test_centres_stand_below_the_weights(opened: Opened, study: Path) -> None:
    places = opened.ask(
        """(() => { const { left, right, top, bottom } = fedcode.weights.chartArea;
        return fedcode.weights.getDatasetMeta(1).data.map(({ x, y }) =>
        [(x - left) / (right - left), (y - top) / (bottom - top)]); })()"""
    )
    low, high = opened.ask("[fedcode.weights.scales.x.min, fedcode.weights.scales.x.max]")
    expected = [(value - low) / (high - low) for value in sorted(history(study, "fedcode")[-1]["centers"])]
    assert [x for x, _ in places] == pytest.approx(expected, abs=1e-3)
    assert all(0.9 < y < 1 for _, y in places)


def test_another_run_can_be_chosen(opened: Opened) -> None:
    figure = opened.page.locator("figure", has=opened.page.locator("#weights"))
    figure.locator("select").select_option(label="fedavg")
    assert opened.sizes("weights") == {"weights": 120, "centre": 0}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_can_be_read(browser: Any, report: Path, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    opened = Opened(page, report)
    shades = opened.ask(
        """["color", "backgroundColor"].map((name) => getComputedStyle(document.body)[name].match(/\\d+/g).slice(0, 3)
        .reduce((sum, part) => sum + Number(part), 0) / 3)"""
    )
    assert abs(shades[0] - shades[1]) > 150
    assert (shades[1] > 128) == (scheme == "light")
    ink = opened.ask("fedcode.volume.options.scales.x.ticks.color")
    assert (int(ink[1:3], 16) < 128) == (scheme == "light")
    page.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
    opened.drawn()
    assert opened.ask("fedcode.volume.options.scales.x.ticks.color") != ink
    assert opened.said == []
    page.close()


def test_a_phones_width_does_not_scroll_sideways(browser: Any, report: Path) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 700}, has_touch=True)
    opened = Opened(page, report)
    assert opened.ask("document.documentElement.scrollWidth") <= 360
    assert opened.ask("Math.min(...[...document.querySelectorAll('canvas')].map((one) => one.clientWidth))") > 280
    page.close()


def test_long_names_do_not_widen_the_page(browser: Any, tmp_path: Path) -> None:
    for number in range(3):
        write_run(tmp_path / str(number), label=f"{number}-{'long' * 40}", seed=number)
    path = tmp_path / "report.html"
    write_page(path, Comparison(gather([tmp_path])))
    for width in (360, 1200):
        page = browser.new_page(viewport={"width": width, "height": 700})
        opened = Opened(page, path)
        assert opened.ask("document.documentElement.scrollWidth") <= width
        page.close()


def test_print_has_no_buttons_and_all_charts(opened: Opened) -> None:
    opened.page.emulate_media(media="print")
    assert opened.page.locator(".tools:visible").count() == 0
    assert opened.page.locator("canvas:visible").count() == len(CHARTS)
    assert len(opened.page.pdf()) > 20_000


def test_hostile_names_do_nothing(browser: Any, tmp_path: Path) -> None:
    for number, text in enumerate(
        ("<img src=x onerror=document.title=1>", "</script><script>document.title=1</script>")
    ):
        write_run(tmp_path / str(number), label=text, dataset=text, settings={"x": text})
    path = tmp_path / "report.html"
    write_page(path, Comparison(gather([tmp_path])))
    page = browser.new_page()
    opened = Opened(page, path)
    assert opened.said == []
    assert page.title() != "1"
    assert page.locator("img").count() == 0
    page.locator("figure", has=page.locator("#volume")).locator("summary").click()
    assert page.locator("img").count() == 0
    page.close()


def test_a_thousand_rounds_of_ten_methods_open(browser: Any, long_study: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(path, Comparison(gather([long_study])))
    page = browser.new_page()
    opened = Opened(page, path)
    assert opened.said == []
    assert set(opened.sizes("volume").values()) == {500}
    page.close()


def test_without_scripts_the_table_and_the_settings_are_there(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("table tbody tr").count() == 3
    assert page.locator("pre").first.text_content().startswith("methods = [")
    context.close()
