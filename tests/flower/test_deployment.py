"""On a real deployment: TLS, registered nodes, and whatever may break in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fedcode import rundir
from tests.flower.deployment import CREDENTIALS, HERE, Deployment
from tests.flower.proxy import Proxy

pytestmark = pytest.mark.flower

CLIENTS = ["client-0", "client-1", "client-2"]


def down(line: dict[str, Any]) -> dict[str, int]:
    """What each client was sent in a round."""
    return {name: count["down"] for name, count in line["per_client"].items()}


def test_the_quickstart_s_script_runs_to_its_end(tmp_path: Path) -> None:
    script = HERE.parents[1] / "examples/flower-quickstart/deploy.sh"
    with Deployment(tmp_path / "unused") as deployment:
        environment = deployment.environment | {"FEDERATION": str(tmp_path / "here"), "PORT": str(deployment.port)}
        deployment.kill("superlink")
        subprocess.run([str(script)], env=environment, check=True, timeout=900)
    run = rundir.read(tmp_path / "here/runs/fedcode")
    assert [line["replies"] for line in run.history] == [3, 3, 3]
    assert run.summary is not None
    assert run.summary["accuracy"]["final"] > 0.9


def test_nodes_without_a_key_or_with_a_wrong_authority_are_refused(tmp_path: Path) -> None:
    with Deployment(tmp_path) as deployment:
        deployment.call(sys.executable, str(CREDENTIALS), str(tmp_path / "other"), "1")
        deployment.node(0, key="")
        deployment.node(1)  # its key is good, and nobody has registered it
        deployment.node(2, ca=tmp_path / "other/ca.crt")
        assert [deployment.ended(f"node-{node}") for node in range(3)] == [1, 1, 1]
        assert "must be registered" in deployment.log("node-0")
        assert "Failed to activate SuperNode" in deployment.log("node-1")
        assert "CERTIFICATE_VERIFY_FAILED" in deployment.log("node-2")


def test_a_killed_node_a_lost_memory_and_bad_replies_do_not_stop_the_run(tmp_path: Path) -> None:
    """Rounds: 2 a node is killed, 3 it is back, 4 a memory is gone, 5 another damaged, 7 to 10 bad replies."""
    bad = ["garbage", "not_a_number", "another_round", "another_model"]
    with Deployment(tmp_path) as deployment:
        for node in range(3):
            deployment.register(node)
            deployment.node(node)
        deployment.tell({"client-1": {2: "hold"}, "server": {2: "hold", 3: "hold", 4: "hold"}})
        deployment.run(num_server_rounds=11)
        deployment.wait("client-1 trains in round 2")
        deployment.kill("node-1")
        deployment.wait("server holds round 2")
        (memory,) = deployment.memory.iterdir()
        kept = (memory / "client-1").read_bytes()
        deployment.tell({"client-1": {}, "client-2": {7 + index: fault for index, fault in enumerate(bad)}})
        deployment.node(1)
        deployment.release()
        deployment.wait("server holds round 3")
        assert (memory / "client-1").read_bytes() != kept
        (memory / "client-0").unlink()
        deployment.release()
        deployment.wait("server holds round 4")
        (memory / "client-2").write_bytes(os.urandom(500))
        deployment.release()
        deployment.wait("server is done")
        history = deployment.history
        assert [line["clients"] for line in history] == [CLIENTS] * 11
        assert [line["replies"] for line in history] == [3, 2, 3, 2, 2, 3, 2, 2, 2, 2, 3]
        assert history[1]["refused"] == {"NodeFailed": 1}
        assert not any("NodeFailed" in line["refused"] for line in history[2:])
        assert [sum(line["refused"].values()) for line in history] == [0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0]
        whole = history[0]["per_client"]["client-0"]["down"]
        # who came back is sent no more than the others: it has its memory
        assert max(down(history[2]).values()) < whole / 2
        # who lost it is sent the whole once
        assert [name for name in CLIENTS if down(history[4])[name] > whole / 2] == ["client-0"]
        assert [name for name in CLIENTS if down(history[5])[name] > whole / 2] == ["client-2"]
        assert all(max(down(line).values()) < whole / 2 for line in history[6:])


def test_a_superlink_and_a_serverapp_that_are_killed(tmp_path: Path) -> None:
    with Deployment(tmp_path, apart=True) as deployment:
        for node in range(3):
            deployment.register(node)
            deployment.node(node)
        deployment.tell({"client-0": {2: "hold"}, "server": {4: "hold"}})
        deployment.run(num_server_rounds=6)
        pid = int(deployment.wait("server").split()[1])
        deployment.wait("client-0 trains in round 2")
        deployment.kill("superlink")
        deployment.superlink()
        deployment.release()
        deployment.wait("server holds round 4")
        assert [line["replies"] for line in deployment.history] == [3, 3, 3]  # the fourth is not written yet
        federation = rundir.read(deployment.runs[0]).config["federation"]
        os.kill(pid, signal.SIGKILL)
        deployment.tell({"server": {}})
        deployment.run(num_server_rounds=6)
        deployment.wait("server is done")
        assert len(deployment.runs) == 1
        run = rundir.read(deployment.runs[0])
        assert run.config["federation"] == federation
        assert [line["replies"] for line in run.history] == [3] * 6
        assert run.summary is not None
        whole = down(run.history[0])["client-0"]
        assert all(max(down(line).values()) < whole / 2 for line in run.history[1:])


def test_what_goes_over_the_wire_is_the_payload_and_flower_s_own(tmp_path: Path) -> None:
    weights, rounds, nodes = 1_000_000, 3, 2
    with Deployment(tmp_path, nodes=nodes) as deployment, Proxy(deployment.port) as proxy:
        for node in range(nodes):
            deployment.register(node)
            deployment.node(node, through=proxy.port)
        deployment.run(num_server_rounds=rounds, weights=weights, nodes=nodes)
        deployment.wait("server is done")
        wire = dict(proxy.counted)
        payload = {name: sum(line["bytes"][name] for line in deployment.history) for name in ("down", "up")}
    overhead = {name: (wire[name] - payload[name]) / (rounds * nodes) for name in wire}
    print(json.dumps({"payload": payload, "wire": wire, "overhead a client and round": overhead}))
    for name in ("down", "up"):
        assert wire[name] > payload[name]
        assert wire[name] < 4 * weights * rounds * nodes / 4  # the weights themselves do not travel


@pytest.mark.parametrize(("method", "rounds"), [("delta", 2), ("fedavg", 1)])
def test_a_hundred_million_weights(method: str, rounds: int, tmp_path: Path) -> None:
    with Deployment(tmp_path, nodes=2, database=True) as deployment, deployment.watched("superlink") as peaks:
        for node in range(2):
            deployment.register(node)
            deployment.node(node)
        deployment.run(num_server_rounds=rounds, weights=100_000_000, nodes=2, method=method)
        clients = [deployment.wait("reply of client", 1800) for _ in range(2 * rounds)]
        server = deployment.wait("server is done", 1800)
        history = deployment.history
    print(f"{method}: SuperLink {peaks} MB; {server}; {'; '.join(clients)}")
    print([(line["bytes"], line["seconds"]) for line in history])
    assert [line["replies"] for line in history] == [2] * rounds
    assert peaks["own"] > 0
    if method != "fedavg":  # whose messages are of 400 MB each
        assert peaks["own"] < 1000
