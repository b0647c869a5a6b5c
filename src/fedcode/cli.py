"""The command `fedcode`.

How it is laid out
    cli.py               the list of commands, and what holds for all of them: errors, exit codes, interruption
    commands/NAME.py     one command, or a few that belong together
    commands/console.py  how commands speak: a document for programs, a table for people, progress, remarks

To add a command, write a function in a file of `commands` and a line in `COMMANDS`. Its docstring is its help, its
parameters are its arguments and options (typer), and it returns nothing. A file of `commands` imports at its top
typer, the console and light modules of the core alone: all of them are imported whichever command runs, so that
whatever takes time (numba, torch, rich) is imported inside the function. A group, as in `fedcode data list`, is a
`typer.Typer` in the place of the function.

A result goes to stdout, everything else to stderr. A command with `--json` prints one JSON document there and
nothing besides. It raises an error of the `FedcodeError` tree, which becomes one sentence and an exit code here.

Exit codes
    0    done
    1    a mistake in fedcode itself: the traceback says where
    2    the command line, or a value in it, cannot be used
    3    a file, a data set or a run's directory is missing, damaged, or cannot be written
    4    an optional dependency is not installed: the sentence says how to install it
    5    it could not be carried through: a worker died, a message was refused
    130  interrupted (141: nobody reads the output any more; 143: terminated)
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from fedcode.errors import ArgumentError, DataError, FedcodeError, MessageError, MissingExtraError, RunError, require

if TYPE_CHECKING:
    import typer

# A command's name, the file of `commands` that holds it and the panel of the help that lists it, in the order of
# the help. The function is called as the command, with an underscore for a hyphen.
MODELS, RUNS, PAPER, MACHINE = "One model", "Federated learning", "The paper", "This machine"
COMMANDS = (
    ("pack", "pack", MODELS),
    ("unpack", "pack", MODELS),
    ("inspect", "inspect", MODELS),
    ("run", "run", RUNS),
    ("report", "report", RUNS),
    ("plot", "plot", RUNS),
    ("methods", "methods", RUNS),
    ("data", "data", RUNS),
    ("reproduce", "reproduce", PAPER),
    ("size", "size", PAPER),
    ("doctor", "doctor", MACHINE),
)

DONE, MISTAKE, USAGE, DATA, EXTRA, FAILED, INTERRUPTED, UNREAD = 0, 1, 2, 3, 4, 5, 130, 141

_CODES: tuple[tuple[type[BaseException], int], ...] = (  # the first that fits
    (ArgumentError, USAGE),
    (MessageError, DATA),
    (DataError, DATA),
    (RunError, DATA),
    (MissingExtraError, EXTRA),
    (FedcodeError, FAILED),
    (OSError, DATA),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (that of the process unless given) and return its exit code."""
    try:
        require("typer", "cli")
        require("rich", "cli")
        with _remarks(), _terminated():
            code = _run(sys.argv[1:] if arguments is None else arguments)
            sys.stdout.flush()
            return code
    except BrokenPipeError:
        _forget_stdout()
        return UNREAD
    except KeyboardInterrupt:
        _say("interrupted.")
        return INTERRUPTED
    except (FedcodeError, OSError) as error:
        _say(_sentence(error))
        return next(code for kind, code in _CODES if isinstance(error, kind))


def app() -> typer.Typer:
    """The command with all that it can do; typer's own objects, as completion and tests need them."""
    import typer

    from fedcode.commands import overview

    whole = typer.Typer(
        name="fedcode",
        callback=overview.fedcode,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, file, panel in COMMANDS:
        found = getattr(importlib.import_module(f"fedcode.commands.{file}"), name.replace("-", "_"))
        if isinstance(found, typer.Typer):
            whole.add_typer(found, name=name, rich_help_panel=panel, no_args_is_help=True)
        else:
            whole.command(name, rich_help_panel=panel, no_args_is_help=_needs_arguments(found))(found)
    return whole


def _needs_arguments(command: Any) -> bool:
    """Whether the command alone can only be a question for its help."""
    import inspect

    return any(parameter.default is parameter.empty for parameter in inspect.signature(command).parameters.values())


def _run(arguments: Sequence[str]) -> int:
    import click

    try:
        code = app()(list(arguments), prog_name="fedcode", standalone_mode=False)
        if code == INTERRUPTED:  # typer makes this of a KeyboardInterrupt
            _say("interrupted.")
        return code if isinstance(code, int) else DONE
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()  # the help
        return error.exit_code
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "fedcode"
        _say(f"{_ended(error.format_message())} See {where} --help.")
        return error.exit_code
    except click.Abort:
        _say("interrupted.")
        return INTERRUPTED
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # click ends the process with 1 on it
            raise BrokenPipeError from end
        raise


def _sentence(error: FedcodeError | OSError) -> str:
    if isinstance(error, FedcodeError):
        return str(error)
    place = f"{error.filename}: " if error.filename else ""
    return _ended(f"{place}{error.strerror or error}")


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


def _say(sentence: str) -> None:
    print(f"fedcode: {sentence}", file=sys.stderr)


@contextmanager
def _remarks() -> Iterator[None]:
    """Warnings as a line for people, without the place in the source."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        _say(f"note: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def _terminated() -> Iterator[None]:
    """A request to end unwinds the stack, so that no half-written file stays behind."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    numbers = [signal.SIGTERM, signal.SIGHUP]
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] == signal.SIG_DFL:  # nohup's wish to ignore it stands
            signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def _forget_stdout() -> None:
    """Python would try once more to write what nobody reads, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
