"""The command as a whole: help, errors, exit codes, interruption; and `size` and `doctor`."""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedcode import __version__, cli, errors
from fedcode.cli import COMMANDS, main
from fedcode.commands import doctor

SIZE = ["size", "--params", "275572", "--clusters", "64", "--downlink", "0.2", "--uplink", "0.5", "--start", "2"]
SIZE += ["--rounds", "100"]
PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}


@pytest.fixture(autouse=True)
def plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fedcode {__version__}\n"


@pytest.mark.parametrize("name", [name for name, _, _ in COMMANDS])
def test_every_command_explains_itself_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    said = capsys.readouterr().out
    assert "Usage: fedcode" in said
    assert f"fedcode {name}" in said.split("Example", 1)[1]
    assert "\\b" not in said  # click's mark that lines stay apart


def test_defaults_survive_the_markup_of_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"[default: {default}]" in said for default in ("30", "0.001", "adam"))
    assert main(["pack", "--help"]) == 0
    assert "[default: 64]" in capsys.readouterr().out


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f" {name} " in said for name, _, _ in COMMANDS)
    assert "Exit codes" in said


def test_without_arguments_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == cli.USAGE
    got = capsys.readouterr()
    assert "Usage: fedcode" in got.out + got.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["packk"], "fedcode: No such command 'packk'"),
        (["size", "--parms", "3"], "fedcode: No such option '--parms'. Did you mean '--params'?"),
        ([*SIZE, "--clients", "many"], "'many' is not a valid integer. See fedcode size --help."),
        ([*SIZE, "--clients", "0"], "fedcode: a run has 1 round and 1 client or more"),
        ([*SIZE, "--uplink", "1.5"], "fedcode: a frequency is a share of the rounds"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == cli.USAGE
    got = capsys.readouterr()
    assert said in got.err
    assert got.err.count("\n") == 1
    assert got.out == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NonFiniteError("x."), 2),
        (errors.MessageError("x."), 3),
        (errors.DataError("x."), 3),
        (errors.RunError("x."), 3),
        (errors.MissingExtraError("x."), 4),
        (errors.WorkerError("x."), 5),
        (errors.RefusedError("x."), 5),
        (PermissionError(13, "x"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(doctor, "examine", fail)
    assert main(["doctor"]) == code
    got = capsys.readouterr()
    assert got.out == ""
    assert "Traceback" not in got.err
    if code != 130:
        assert got.err == "fedcode: x.\n"


def test_every_error_of_the_tree_has_a_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 8
    for kind in kinds:
        assert any(issubclass(kind, known) for known, _ in cli._CODES)


def test_a_mistake_in_fedcode_shows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(doctor, "examine", fail)
    with pytest.raises(ZeroDivisionError):
        main(["doctor"])


def test_a_command_is_where_the_list_says() -> None:
    for name, file, _ in COMMANDS:
        module = importlib.import_module(f"fedcode.commands.{file}")
        assert hasattr(module, name.replace("-", "_"))


WAITING = """
import sys, time
from pathlib import Path
from fedcode import files
from fedcode.cli import main
from fedcode.commands import doctor

def examine():
    with files.new_file(Path(sys.argv[1])) as file:
        file.write(b"half")
        print("waiting", flush=True)
        time.sleep(60)

doctor.examine = examine
sys.exit(main(["doctor"]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interruption_leaves_no_half_file(number: int, code: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WAITING, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number)
        _, said = process.communicate()
    assert process.returncode == code
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "fedcode.cli", *SIZE, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
    assert (process.returncode, said) == (cli.UNREAD, "")


def test_completion_is_offered() -> None:
    environment = {"_FEDCODE_COMPLETE": "complete_bash", "COMP_WORDS": "fedcode insp", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "fedcode.cli"]
    got = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert got.stdout.split() == ["inspect"]


def test_size_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SIZE, "--clients", "10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["full_rounds"] == {"down": 22, "up": 51}
    assert found["dtr"] == pytest.approx({"down": 24.2, "up": 10.4, "total": 14.6}, abs=0.15)
    assert found["bits"]["total"] == found["bits"]["down"] + found["bits"]["up"]
    assert found["bits_per_parameter"] == pytest.approx(32 / found["dtr"]["total"])


def test_size_by_the_printed_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SIZE, "--clients", "10", "--count", "printed", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["count"] == "printed"
    assert found["bits"]["total"] / 8 / 2**20 == pytest.approx(143.92, abs=0.05)


def test_size_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SIZE, "--clients", "10"]) == 0
    said = capsys.readouterr().out
    assert "24.1" in said
    assert "formula" in said


def test_doctor_says_what_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "parts", lambda: {"core": ["numpy"], "report": ["numpy", "no-such-project"]})
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parts"]["report"]["missing"] == ["no-such-project"]
    assert found["parts"]["core"]["installed"].keys() == {"numpy"}
    assert found["fedcode"] == __version__
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "lacks no-such-project" in said
    assert "pip install 'fedcode[report]'" in said
