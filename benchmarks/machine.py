"""The machine and the versions a benchmark ran on: every stored result carries them."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

LIBRARIES = (
    "fedcode",
    "numpy",
    "numba",
    "pcodec",
    "torch",
    "scikit-learn",
    "safetensors",
    "flwr",
    "zstandard",
    "constriction",
    "flash1dkmeans",
    "kmeans1d",
    "ckmeans",
)


def machine() -> dict[str, object]:
    """Return the processor, cores, memory, platform, versions and date of this run, ready for JSON.

    >>> sorted(machine())
    ['cores', 'cpu', 'date', 'memory_gb', 'platform', 'python', 'versions']
    """
    return {
        "cpu": _cpu_name(),
        "cores": _usable_cores(),
        "memory_gb": _memory_gb(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": _versions(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _usable_cores() -> int:
    # a container may be allowed fewer cores than the machine has
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_gb() -> float | None:
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    return round(memory / 2**30, 1)


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    import json

    print(json.dumps(machine(), indent=2))
