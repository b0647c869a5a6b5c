"""One-dimensional k-means beside sorting, copying, np.searchsorted, flash1dkmeans, scikit-learn and kmeans1d.

    python benchmarks/clustering.py [--json results/clustering.json] [--quick] [--sizes 270000 3200000]

All runs on one thread and is measured by the processor's time, the best of several tries in turn, so that a busy
machine disturbs it less. Two threads are measured by the clock, and by the time of the thread that does most: on a busy
machine only the second says something. The slow peers run where that takes seconds: scikit-learn at 270,000 values, and
with 64 centres at 3.2 million; kmeans1d up to 64 centres at 270,000.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# read when the libraries are loaded
os.environ["FEDCODE_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import flash1dkmeans
import kmeans1d
import numpy as np
from machine import machine
from sklearn.cluster import KMeans

import fedcode

SIZES = (270_000, 2_200_000, 3_200_000, 86_000_000)
CENTERS = (16, 64, 128, 256)
SMALL, LARGE = 300_000, 4_000_000  # up to here the slow peers run, and all but those
TRIES = 7

# what the library promises for so many values and centres: ratios of a peer's time to ours, at least
PROMISED_FOR = (3_200_000, 64)
PROMISED = {"np.sort": 1, "scikit-learn": 500, "flash1dkmeans": 15, "np.searchsorted / snap": 20, "two threads": 1.6}

Works = dict[str, Callable[[], Any]]


def weights(count: int) -> Any:
    """Values like a network's: layers of many widths, heavier tails than a Gaussian's, scales near 1."""
    rng = np.random.default_rng(0)
    values = np.empty(count, np.float32)
    width = 1 << 16
    for start in range(0, count, width):
        part = values[start : start + width]
        part[:] = rng.laplace(size=part.size) if start // width % 3 == 0 else rng.standard_normal(part.size)
        part *= rng.lognormal(-4, 0.7)
    scales = rng.choice(count, count // 1000, replace=False)
    values[scales] = 1 + 0.2 * rng.standard_normal(scales.size)
    return values


def best_times(works: Works, tries: int) -> dict[str, float]:
    """The processor's milliseconds of each, tried in turn, so that all meet the same disturbances."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(tries):
        for name, work in works.items():
            began = time.process_time()
            work()
            best[name] = min(best[name], 1e3 * (time.process_time() - began))
    return best


def two_threads(work: Callable[[], Any], tries: int) -> dict[str, float]:
    """How much faster two threads are: by the clock, and by the time of the calling thread, which does most.

    Two must meet a quiet moment at once, so more tries are needed.
    """
    best: dict[tuple[str, str], float] = {}
    for _ in range(6 * tries if tries > 2 else tries):
        for count in ("1", "2"):
            os.environ["FEDCODE_THREADS"] = count
            clock, own = time.perf_counter(), time.thread_time()
            work()
            for key, took in (("clock", time.perf_counter() - clock), ("busiest thread", time.thread_time() - own)):
                best[key, count] = min(best.get((key, count), float("inf")), took)
    os.environ["FEDCODE_THREADS"] = "1"
    return {key: round(best[key, "1"] / best[key, "2"], 2) for key in ("clock", "busiest thread")}


def squared_error(values: Any, centers: Any) -> float:
    """With every value at its nearest centre."""
    nearest = fedcode.snap(values, np.sort(np.asarray(centers).reshape(-1)).astype(np.float32))
    total = 0.0
    for start in range(0, values.size, 1 << 20):
        wide = values[start : start + (1 << 20)].astype(np.float64)
        total += float(np.square(wide - nearest[start : start + (1 << 20)]).sum())
    return total


def slow_peers(values: Any, k: int) -> dict[str, Callable[[], Any]]:
    """Those that take seconds: each gives its centres."""
    peers: Works = {}
    if values.size <= SMALL or (values.size, k) == PROMISED_FOR:
        column = values.reshape(-1, 1)
        peers["scikit-learn"] = lambda: KMeans(k, n_init=1, random_state=0).fit(column).cluster_centers_
    if values.size <= SMALL and k <= 64:
        peers["kmeans1d"] = lambda: kmeans1d.cluster(values, k).centroids
    return peers


def measure(values: Any, k: int, tries: int) -> dict[str, Any]:
    """One row: what everything took, the ratios, and the squared error above that of the best."""
    codebook = fedcode.cluster(values, k)
    fedcode.snap(values, codebook.centers)
    works: Works = {
        "cluster": lambda: fedcode.cluster(values, k),
        "cluster from earlier centres": lambda: fedcode.cluster(values, k, start=codebook.centers),
        "snap": lambda: fedcode.snap(values, codebook.centers),
        "np.sort": lambda: np.sort(values),
        "copy": lambda: values.copy(),
    }
    took = best_times(works, tries)
    took |= best_times({"np.searchsorted": lambda: np.searchsorted(codebook.centers, values)}, min(tries, 3))
    found = {"fedcode": codebook.centers}
    if values.size <= LARGE:

        def flash() -> None:
            found["flash1dkmeans"] = flash1dkmeans.kmeans_1d(values, k, random_state=0)[0]

        flash()
        took |= best_times({"flash1dkmeans": flash}, min(tries, 3))
    for name, peer in slow_peers(values, k).items():
        began = time.process_time()
        found[name] = peer()
        took[name] = 1e3 * (time.process_time() - began)
    floors = ("np.sort", "copy", "flash1dkmeans", "scikit-learn", "kmeans1d")
    ratios = {name: round(took[name] / took["cluster"], 2) for name in floors if name in took}
    ratios["np.searchsorted / snap"] = round(took["np.searchsorted"] / took["snap"], 1)
    errors = {name: squared_error(values, centers) for name, centers in found.items()}
    tracemalloc.start()
    fedcode.cluster(values, k)
    extra = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "values": values.size,
        "k": k,
        "milliseconds": {name: round(took[name], 2) for name in took},
        "times as long as cluster": ratios,
        "error above the least found, percent": {
            name: round(100 * (error / min(errors.values()) - 1), 3) for name, error in errors.items()
        },
        "extra bytes per byte of input": round(extra / values.nbytes, 2),
        "two threads, times as fast": two_threads(lambda: fedcode.cluster(values, k), tries),
        "two threads, snap, times as fast": two_threads(lambda: fedcode.snap(values, codebook.centers), tries),
    }


def rows(sizes: tuple[int, ...], tries: int) -> Iterator[dict[str, Any]]:
    for size in sizes:
        values = weights(size)
        for k in CENTERS:
            yield measure(values, k, tries if size <= LARGE else min(tries, 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="store what was measured in this file")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="how many values")
    parser.add_argument("--quick", action="store_true", help="leave out 86 million, and try less often")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a peer's own
    sizes = tuple(size for size in options.sizes if size <= LARGE or not options.quick)
    result: dict[str, Any] = {"machine": machine(), "load": os.getloadavg()[0], "quick": options.quick, "rows": []}
    for row in rows(sizes, 3 if options.quick else TRIES):
        result["rows"].append(row)
        print(f"\n{row['values']:,} values, k = {row['k']}")
        for title, cell in row.items():
            if isinstance(cell, dict):
                print(f"  {title}: " + ", ".join(f"{name} {number:g}" for name, number in cell.items()))
            elif title not in ("values", "k"):
                print(f"  {title}: {cell:g}")
        if (row["values"], row["k"]) == PROMISED_FOR:
            threads = max(row["two threads, times as fast"].values())
            reached = row["times as long as cluster"] | {"two threads": threads}
            result["promised"] = {name: {"at least": PROMISED[name], "found": reached[name]} for name in PROMISED}
            for name, promise in result["promised"].items():
                verdict = "reached" if promise["found"] >= promise["at least"] else "NOT reached"
                print(f"  {name}: at least {promise['at least']} promised, {promise['found']} found: {verdict}")
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
