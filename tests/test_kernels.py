"""Loops with and without numba, and slices shared out among threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fedcode.kernels import in_chunks, threads

# Two loops in a file of their own, and what a process that runs both is warned of.
LOOPS = """
import warnings
import numpy as np
from fedcode.kernels import kernel

@kernel(plain=lambda x: int(x.sum()))
def total(x):
    found = 0
    for i in range(x.size):
        found += x[i]
    return found

@kernel(plain=lambda x: total(x) + 1)
def one_more(x):
    return total(x) + 1

def run():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [total(np.arange(n)) + one_more(np.arange(n)) for n in (4, 5)] == [13, 21]
    print([f"{one.category.__name__}: {str(one.message).partition(',')[0]}" for one in caught])
"""
NO_NUMBA = "import sys; sys.modules['numba'] = None\n"
FULL_DISK = """
from numba.core import caching
def refuse(*_, **__): raise OSError(28, "No space left on device")
caching.IndexDataCacheFile.save = refuse
"""


def run(code: str, directory: Path, **environment: str) -> str:
    """What a fresh Python prints that finds the loops in a directory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "FEDCODE", "XDG"))}
    (directory / "loops.py").write_text(LOOPS)
    paths = {"PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=kept | paths | environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_one_warning_where_numba_is_missing(tmp_path: Path) -> None:
    found = run(NO_NUMBA + "import loops; loops.run()", tmp_path)
    assert found.count("RuntimeWarning: numba cannot be imported") == found.count("Warning") == 1


def test_no_warning_where_the_plain_path_is_asked_for(tmp_path: Path) -> None:
    assert run(NO_NUMBA + "import loops; loops.run()", tmp_path, FEDCODE_NUMBA="0") == "[]"


def test_no_warning_where_all_is_well_and_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert run("import loops; loops.run()", tmp_path) == "[]"
    hits = "import loops; loops.run(); print(sum(loops.total.compiled.stats.cache_hits.values()))"
    assert run(hits, tmp_path) == "[]\n1"


def test_one_warning_where_no_directory_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").touch()  # nobody, not even root, makes a directory where there is a file
    found = run("import loops; loops.run()", tmp_path, HOME="/dev/null", NUMBA_CACHE_DIR="")
    assert found.count("RuntimeWarning: numba finds no directory") == found.count("Warning") == 1


def test_one_warning_where_the_disk_is_full(tmp_path: Path) -> None:
    found = run(FULL_DISK + "import loops; loops.run()", tmp_path)
    assert found.count("RuntimeWarning: numba finds no directory") == found.count("Warning") == 1


@pytest.fixture
def _four_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCODE_THREADS", "4")


def both(start: int, stop: int) -> tuple[int, int]:
    return start, stop


@pytest.mark.usefixtures("_four_threads")
class TestChunks:
    def test_slices_cover_the_whole_in_order(self) -> None:
        assert in_chunks(both, 10, 1) == [(0, 2), (2, 5), (5, 7), (7, 10)]
        assert in_chunks(both, 10, 5) == [(0, 5), (5, 10)]
        assert in_chunks(both, 10, 11) == [(0, 10)]
        assert in_chunks(both, 0, 1) == [(0, 0)]

    def test_slices_are_worked_on_at_once(self) -> None:
        meeting = threading.Barrier(4)  # nobody passes before all four are there
        assert sorted(in_chunks(lambda *_: meeting.wait(60), 4, 1)) == [0, 1, 2, 3]

    def test_the_first_slice_is_done_by_the_caller(self) -> None:
        names = in_chunks(lambda *_: threading.current_thread().name, 4, 1)
        assert names[0] == threading.current_thread().name
        assert names[0] not in names[1:]

    def test_threads_start_no_threads(self) -> None:
        assert in_chunks(lambda *_: in_chunks(both, 8, 1), 4, 1) == [[(0, 8)]] * 4
        assert len(in_chunks(both, 8, 1)) == 4

    @pytest.mark.parametrize("bad", range(4))
    def test_an_error_in_a_slice_reaches_the_caller_when_all_are_done(self, bad: int) -> None:
        done = []

        def work(start: int, stop: int) -> None:
            if start == bad:
                raise ValueError(f"slice {start} to {stop}")
            done.append(start)

        with pytest.raises(ValueError, match=f"slice {bad} to"):
            in_chunks(work, 4, 1)
        assert sorted(done) == [i for i in range(4) if i != bad]
        assert len(in_chunks(both, 4, 1)) == 4  # no thread is held to be at work any more

    def test_of_two_errors_the_first_is_raised(self) -> None:
        def work(start: int, stop: int) -> None:
            raise ValueError(f"slice {start} to {stop}")

        with pytest.raises(ValueError, match="slice 0 to 1"):
            in_chunks(work, 4, 1)


@pytest.mark.parametrize(("asked", "found"), [("3", 3), ("0", None), ("-2", None), ("many", None), ("", None)])
def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch, asked: str, found: int | None) -> None:
    monkeypatch.delenv("FEDCODE_THREADS", raising=False)
    usual = threads()
    monkeypatch.setenv("FEDCODE_THREADS", asked)
    assert threads() == (found or usual)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_can_work(tmp_path: Path) -> None:
    code = """
import os, numpy as np, fedcode
values = np.random.default_rng(0).standard_normal(600_000).astype(np.float32)
here = fedcode.cluster(values, 16).labels.tobytes()
child = os.fork()
if not child:
    os._exit(2 + (fedcode.cluster(values, 16).labels.tobytes() == here))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(code, tmp_path, FEDCODE_THREADS="4") == "3"
