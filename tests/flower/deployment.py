"""A deployment on loopback: a SuperLink over TLS that lets registered nodes in alone, SuperNodes, and an app's runs.

Nothing is waited for by the clock: the app's processes say what comes to pass through a pipe.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from fedcode import rundir

HERE = Path(__file__).parent
APP = HERE / "trials"
CREDENTIALS = HERE.parents[1] / "examples/flower-quickstart/credentials.py"
PATIENCE = 420.0  # seconds until something that should come to pass is taken not to


class Deployment:
    """Processes, each in a group of its own, in `folder`; all end with the `with` block.

    apart: the ServerApp runs beside the SuperLink, whose state is in a database, so that either can be killed alone.
    simulation: no nodes and no TLS, as `flwr run . local` has it, with a SuperLink of the test's own.
    """

    def __init__(
        self, folder: Path, *, nodes: int = 3, apart: bool = False, database: bool = False, simulation: bool = False
    ) -> None:
        self.folder, self.apart, self.database, self.simulation = folder, apart, database or apart, simulation
        self.keys, self.signals, self.memory = folder / "keys", folder / "signals", folder / "memory"
        self.port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.said: list[str] = []
        self.rest = b""
        self.signals.mkdir(parents=True)
        for pipe in ("said", "held"):
            os.mkfifo(self.signals / pipe)
        self.pipe = os.open(self.signals / "said", os.O_RDWR)
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(folder / "flwr"),
            "FEDCODE_MEMORY": str(self.memory),
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
        }
        self.call(sys.executable, str(CREDENTIALS), str(self.keys), str(nodes))
        (folder / "secret").write_bytes(os.urandom(32))
        (folder / "flwr").mkdir()
        trust = "insecure = true" if simulation else f'root-certificates = "{self.keys / "ca.crt"}"'
        connection = f'address = "127.0.0.1:{self.port}"\n{trust}\n'
        (folder / "flwr/config.toml").write_text(f'[superlink]\ndefault = "here"\n\n[superlink.here]\n{connection}')

    def __enter__(self) -> Self:
        self.superlink()
        if self.apart:
            secret = ["--superexec-auth-secret-file", str(self.folder / "secret")]
            self.start(
                "superexec",
                *["flower-superexec", "--runtime-api-address", f"127.0.0.1:{self.port}", *secret],
                *["--root-certificates", str(self.keys / "ca.crt")],
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self.processes):
            self.kill(name)
        os.close(self.pipe)

    # ---- processes

    def superlink(self) -> None:
        """Start the SuperLink, and wait until it answers."""
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)]
        if self.simulation:
            command += ["--insecure", "--simulation"]
        else:
            command += ["--enable-supernode-auth", "--ssl-ca-certfile", str(self.keys / "ca.crt")]
            command += ["--ssl-certfile", str(self.keys / "server.crt"), "--ssl-keyfile", str(self.keys / "server.key")]
        if self.database:
            command += ["--database", str(self.folder / "state.db")]
        if self.apart:
            command += ["--isolation", "process", "--superexec-auth-secret-file", str(self.folder / "secret")]
        self.start("superlink", *command)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.processes["superlink"].poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            select.select([], [], [], 0.1)
        raise AssertionError(f"the SuperLink does not start: {self.log('superlink')}")

    def register(self, node: int) -> None:
        """Let a node in."""
        self.call("flwr", "supernode", "register", str(self.keys / f"node-{node}.pub"), "here")

    def node(
        self, node: int, *, through: int = 0, key: str | None = None, ca: Path | None = None, memory: str = ""
    ) -> None:
        """Start a SuperNode. through: another port than the SuperLink's, a proxy's."""
        command = ["flower-supernode", "--superlink", f"127.0.0.1:{through or self.port}"]
        command += ["--root-certificates", str(ca or self.keys / "ca.crt"), "--port", str(free_port())]
        if key != "":
            command += ["--auth-supernode-private-key", str(self.keys / (key or f"node-{node}"))]
        command += ["--node-config", f"partition-id={node} num-partitions=3"]
        self.start(f"node-{node}", *command)

    def run(self, **config: Any) -> None:
        """Start a run of the app."""
        config = {"signals": str(self.signals), "directory": str(self.folder / "runs")} | config
        words = " ".join(f"{name.replace('_', '-')}={json.dumps(value)}" for name, value in config.items())
        self.call("flwr", "run", str(APP), "here", "--run-config", words)

    def start(self, name: str, *command: str) -> None:
        """Start a process; its output goes to its log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=self.environment, start_new_session=True
            )

    def kill(self, name: str) -> None:
        """End a process and all that it started, without a warning."""
        process = self.processes.pop(name)
        for number in (process.pid, *descendants(process.pid)):
            with suppress(ProcessLookupError):  # it ended by itself
                os.kill(number, signal.SIGKILL)
        process.wait()

    def call(self, *command: str) -> str:
        """Run a command to its end."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def log(self, name: str) -> str:
        """What a process has said so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    @contextmanager
    def watched(self, name: str) -> Iterator[dict[str, int]]:
        """Watch a process's memory; the most so far, in megabytes.

        own: what it holds itself. mapped: with the pages of its database file that it has mapped, which the system may
        drop, and which count once for each of its connections.
        """
        status, peaks, done = Path(f"/proc/{self.processes[name].pid}/status"), {"own": 0, "mapped": 0}, Event()

        def look() -> None:
            while not done.wait(0.1):
                lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
                for peak, line in (("own", "RssAnon"), ("mapped", "VmRSS")):
                    peaks[peak] = max(peaks[peak], int(lines[line].split()[0]) >> 10)

        thread = Thread(target=look)
        thread.start()
        try:
            yield peaks
        finally:
            done.set()
            thread.join()

    def ended(self, name: str) -> int:
        """Wait until a process ends by itself; its exit status."""
        return self.processes[name].wait(PATIENCE)

    # ---- what comes to pass

    def tell(self, orders: Mapping[str, Mapping[int, str]]) -> None:
        """What clients and the server are to do in which round: "hold", "fail" or one of the faults."""
        for who, by_round in orders.items():
            text = json.dumps({str(number): order for number, order in by_round.items()})
            (self.signals / f"{who}.json").write_text(text)

    def wait(self, what: str, patience: float = PATIENCE) -> str:
        """Wait until a line that begins so is said; the line."""
        seen = 0
        end = time.monotonic() + patience
        while True:
            for line in self.said[seen:]:
                if line.startswith(what):
                    self.said.remove(line)
                    return line
                assert not line.startswith("failed"), line
            seen = len(self.said)
            ready, _, _ = select.select([self.pipe], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                logs = "\n".join(f"== {name}\n{self.log(name)[-3000:]}" for name in self.processes)
                raise AssertionError(f"{what!r} did not come to pass; {self.said} did.\n{logs}")
            *lines, self.rest = (self.rest + os.read(self.pipe, 65536)).split(b"\n")
            self.said += [line.decode() for line in lines]

    def release(self) -> None:
        """Let go of whoever holds."""
        (self.signals / "held").write_bytes(b"")

    @property
    def history(self) -> list[dict[str, Any]]:
        """The rounds of the last run's directory."""
        return rundir.read(self.runs[-1]).history

    @property
    def runs(self) -> Sequence[Path]:
        """The runs' directories, in the order in which they began."""
        return sorted((self.folder / "runs").iterdir(), key=lambda path: (len(path.name), path.name))


def descendants(pid: int) -> list[int]:
    """All that a process has started, and what that has started."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
