"""In Flower's simulation, with Ray."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedcode
from fedcode import rundir
from fedcode.methods import names
from tests.flower.deployment import Deployment
from tests.flower.simulated import SETTINGS

pytestmark = pytest.mark.flower

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/flower-quickstart"
TEN = "num-supernodes=10 client-resources-num-cpus=1"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rounds of every method."""
    folder = tmp_path_factory.mktemp("simulated")
    command = [sys.executable, "-m", "tests.flower.simulated", str(folder), *names()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize("method", names())
def test_every_method_gives_the_model_of_the_project_s_own_simulator(method: str, simulated: Path) -> None:
    ours = fedcode.simulate(method, **SETTINGS)
    run = rundir.read(simulated / method)
    assert [line["replies"] for line in run.history] == [3, 3, 3]
    got = np.load(simulated / f"{method}.npz")
    assert list(got) == list(ours.state)
    if method == "fedsparsify":
        return  # the simulator's training obeys the mask at every step, a user's only at the end
    for name, value in ours.state.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name, strict=True)
    for theirs, own in zip(run.history, ours.history, strict=True):
        for column in ("clients", "bytes", "messages", "paper_bits", "per_client", "centers", "examples"):
            assert theirs[column] == own[column], column
        assert theirs["training_loss"] == pytest.approx(own["training_loss"])


def test_the_files_of_a_run_have_the_simulator_s_entries(simulated: Path, tmp_path: Path) -> None:
    fedcode.simulate("fedcode", out=tmp_path / "own", **SETTINGS)
    own, theirs = rundir.read(tmp_path / "own"), rundir.read(simulated / "fedcode")
    assert own.history[0].keys() == theirs.history[0].keys()
    assert own.summary is not None
    assert theirs.summary is not None
    assert own.summary.keys() == theirs.summary.keys()
    for figure in ("bytes", "megabytes", "messages", "dtr", "paper_dtr", "bits_per_parameter", "parameters", "rounds"):
        assert own.summary[figure] == theirs.summary[figure], figure
    assert (simulated / "fedcode/model.safetensors").stat().st_size == (
        tmp_path / "own/model.safetensors"
    ).stat().st_size


def accuracies(app: Path, deployment: Deployment) -> list[float]:
    """The accuracies that a run of an app with ten nodes logs."""
    said = deployment.call("flwr", "run", str(app), "here", "--stream", "--federation-config", TEN)
    return [float(number) for number in re.findall(r"'accuracy': (0\.\d+), 'loss'", said)]


def changed(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for before, after in changes:
        assert text.count(before) == 1, f"{before} in {path}"
        text = text.replace(before, after)
    path.write_text(text)


def test_an_app_of_flower_s_documentation_takes_two_lines(tmp_path: Path) -> None:
    """The quickstart without fedcode, then with the two lines and nothing else changed."""
    app = tmp_path / "app"
    shutil.copytree(EXAMPLE, app, ignore=shutil.ignore_patterns("federation", "__pycache__"))
    client, server = app / "quickstart/client_app.py", app / "quickstart/server_app.py"
    changed(
        client,
        ("from fedcode.flower import codebook_mod\n", ""),
        ("app = ClientApp(mods=[codebook_mod])", "app = ClientApp()"),
    )
    changed(server, ("from fedcode.flower import FedCode\n", "from flwr.serverapp.strategy import FedAvg\n"))
    text = re.sub(r"FedCode\(.*?\n    \)", "FedAvg(fraction_evaluate=0.0)", server.read_text(), flags=re.DOTALL)
    server.write_text(text)
    assert not re.search("from fedcode|FedCode|codebook", client.read_text() + server.read_text())
    with Deployment(tmp_path / "here", simulation=True) as deployment:
        assert accuracies(app, deployment)[-1] > 0.9
        changed(
            client,
            ("app = ClientApp()", "app = ClientApp(mods=[codebook_mod])"),
            (
                "from flwr.clientapp import ClientApp\n",
                "from flwr.clientapp import ClientApp\nfrom fedcode.flower import codebook_mod\n",
            ),
        )
        changed(
            server,
            ("from flwr.serverapp.strategy import FedAvg\n", "from fedcode.flower import FedCode\n"),
            ("FedAvg(fraction_evaluate=0.0)", "FedCode(fraction_evaluate=0.0)"),
        )
        assert accuracies(app, deployment)[-1] > 0.9
        assert len(list(deployment.memory.glob("*/client-*"))) == 10  # it was fedcode that ran


@pytest.mark.parametrize("example", ["flower-quickstart", "flower-sklearn"])
def test_the_examples_run_as_their_readme_says(example: str, tmp_path: Path) -> None:
    with Deployment(tmp_path, simulation=True) as deployment:
        (tmp_path / "flwr/config.toml").write_text(
            f'[superlink.local]\naddress = "127.0.0.1:{deployment.port}"\ninsecure = true\n'
        )
        readme = (ROOT / "examples" / example / "README.md").read_text()
        assert f"flwr run . local --stream --federation-config '{TEN}'" in readme
        directory = f'directory="{tmp_path / "runs"}"'
        app = str(ROOT / "examples" / example)
        command = ["flwr", "run", app, "local", "--stream", "--federation-config", TEN, "--run-config", directory]
        deployment.call(*command)
    (folder,) = (tmp_path / "runs").iterdir()
    run = rundir.read(folder)
    assert run.summary is not None
    assert run.summary["accuracy"]["final"] > 0.9
    assert all(line["replies"] == 10 for line in run.history)
