"""Make docs/images out of real runs: `make screenshots`, or `.venv/bin/python docs/make_screenshots.py [RUNS]`.

RUNS: a directory that `fedcode run` left, runs/screenshots unless given (`make screenshots` runs it). Takes playwright
and a Chromium on the path.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from rich.console import Console

from fedcode import rundir
from fedcode.events import ClientDone, RoundDone, RoundStarted, RunDone, RunStarted
from fedcode.report.comparison import Comparison
from fedcode.report.figures import plot
from fedcode.report.gathering import gather
from fedcode.report.link import Link
from fedcode.report.live import Live
from fedcode.report.page import write_page

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
README = (ROOT / "results" / "small-iid.json", ("dataset=cifar10", "scale=paper", "epochs=4"))


def main(runs: Path) -> None:
    """All of them."""
    IMAGES.mkdir(exist_ok=True)
    plot("volume", gather([README[0]], README[1]), IMAGES / "accuracy-megabytes.svg")
    page = runs / "report.html"
    write_page(page, Comparison(gather([runs]), Link.of("nb-iot")))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        shoot(browser, page, "page-light", 1280, 1330)
        shoot(browser, page, "page-dark", 1280, 1330, color_scheme="dark")
        shoot(browser, page, "page-phone", 390, 1180, device_scale_factor=1.5)
        browser.close()
    (IMAGES / "live.svg").write_text(live(runs), encoding="utf-8")


def chromium() -> str:
    """The browser's command."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    sys.exit("there is no Chromium on the path: on Debian, apt install chromium")


def shoot(browser: Any, page: Path, name: str, width: int, height: int, **how: Any) -> None:
    """What a window of this size shows of a page first."""
    shown = browser.new_page(viewport={"width": width, "height": height}, **how)
    shown.goto(page.resolve().as_uri())
    shown.wait_for_selector("html[data-ready]")
    shown.screenshot(path=IMAGES / f"{name}.png")
    shown.close()


def live(runs: Path) -> str:
    """The live view as it was in the midst of the last run."""
    view = Live()
    folders = sorted((path.parent for path in runs.glob(f"*/{rundir.CONFIG}")), key=lambda one: one.stat().st_ctime)
    for folder in folders:
        run = rundir.read(folder)
        history = run.history if folder != folders[-1] else run.history[: len(run.history) * 2 // 3]
        view.on(RunStarted(run.config, run.config["clients"], run.config["rounds"], 0))
        for record in history:
            view.on(RoundDone(record, {}))
        if folder != folders[-1]:
            view.on(RunDone({}))
    names = rundir.read(folders[-1]).history[0]["clients"]
    view.on(RoundStarted(len(history) + 1, names))
    for name in names[:3]:
        view.on(ClientDone(len(history) + 1, name, 1, 0.0, 0.0))
    console = Console(width=100, record=True, file=io.StringIO(), force_terminal=True)
    console.print(view)
    return console.export_svg(title="fedcode run", unique_id="live")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "runs" / "screenshots")
