"""pack, unpack and inspect on real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import fedcode
from fedcode import checkpoint, safetensors_file
from fedcode.cli import main

KEPT = ("norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "empty")


def state() -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    return {
        "w": torch.randn(300, 70, generator=rng),
        "brain": torch.randn(100, 30, generator=rng).bfloat16(),
        "half": torch.randn(11, generator=rng).half(),
        "double": torch.randn(3, generator=rng, dtype=torch.float64),
        "norm.running_mean": torch.randn(7, generator=rng),
        "norm.running_var": torch.rand(7, generator=rng) + 0.5,
        "norm.num_batches_tracked": torch.tensor(12),
        "empty": torch.zeros(0, 2),
    }


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_file(state(), path)
    return path


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_there_and_back(model: Path, tmp_path: Path) -> None:
    packed, back = tmp_path / "model.fedcode", tmp_path / "back.safetensors"
    assert main(["pack", str(model), str(packed), "-k", "256", "-q"]) == 0
    assert main(["unpack", str(packed), str(back), "-q"]) == 0
    found, original = load_file(back), state()
    assert found.keys() == original.keys()
    for name, expected in original.items():
        assert (found[name].shape, found[name].dtype) == (expected.shape, expected.dtype)
        if name in KEPT:
            assert torch.equal(found[name], expected)
        else:
            assert (found[name].double() - expected.double()).abs().max() < 0.5
    assert packed.stat().st_size < model.stat().st_size / 3


@pytest.mark.parametrize("option", [["-k", "64"], ["--bits", "2.5"], []])
def test_the_file_is_what_encode_makes(model: Path, tmp_path: Path, option: list[str]) -> None:
    packed = tmp_path / "model.fedcode"
    assert main(["pack", str(model), str(packed), "-q", *option]) == 0
    stored = load_file(model)  # in the order of the file
    bits = 2.5 if "--bits" in option else None
    assert packed.read_bytes() == fedcode.encode(stored, None if bits else 64, bits=bits)


def test_shards_are_packed_as_one(tmp_path: Path) -> None:
    names = list(state())
    places: dict[str, str] = {}
    for number, part in enumerate((names[:2], names[2:])):
        save_file({name: state()[name] for name in part}, tmp_path / f"model-{number}.safetensors")
        places |= dict.fromkeys(part, f"model-{number}.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    packed = tmp_path / "model.fedcode"
    assert main(["pack", str(index), str(packed), "-q"]) == 0
    found = fedcode.decode(packed.read_bytes(), tensors=True)
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        n: tuple(t.shape) for n, t in state().items()
    }


def test_inspect_as_json(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "model.fedcode"
    assert main(["pack", str(model), str(packed), "-k", "64", "--json"]) == 0
    made = printed(capsys)
    assert main(["inspect", str(packed), "--json"]) == 0
    found = printed(capsys)
    assert made == found | {"original": sum(t.numel() * t.element_size() for t in state().values())}
    size = packed.stat().st_size
    assert found["size"] == size == found["header"] + sum(found["sections"].values())
    assert found["sections"]["centers"] == 4 * found["centers"] == 256
    assert found["weights"] == 300 * 70 + 3000 + 11 + 3
    assert found["bits_per_weight"] == pytest.approx(8 * size / found["weights"])
    assert main(["inspect", str(packed), "--against", str(model), "--json", "-q"]) == 0
    assert printed(capsys)["error_db"] == pytest.approx(found["error_db"], abs=1e-4)


def test_inspect_as_a_table(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "model.fedcode"
    main(["pack", str(model), str(packed), "-q"])
    capsys.readouterr()
    assert main(["inspect", str(packed)]) == 0
    said = capsys.readouterr().out
    for word in ("24,014", "bits a weight", "dB", "labels", "layout"):
        assert word in said


def test_an_output_is_not_replaced_unasked(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed, back = tmp_path / "model.fedcode", tmp_path / "back.safetensors"
    back.write_bytes(b"mine")
    assert main(["pack", str(model), str(packed), "-q"]) == 0
    before = packed.read_bytes()
    assert main(["pack", str(model), str(packed), "-k", "4", "-q"]) == 2
    assert main(["unpack", str(packed), str(back), "-q"]) == 2
    assert "--force" in capsys.readouterr().err
    assert (packed.read_bytes(), back.read_bytes()) == (before, b"mine")
    assert main(["pack", str(model), str(packed), "-k", "4", "-q", "--force"]) == 0
    assert packed.read_bytes() != before


def test_what_is_packed_is_not_written_over(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = model.read_bytes()
    (tmp_path / "link").symlink_to(model)
    for source, out in ((model, model), (tmp_path, model), (model, tmp_path / "link"), (tmp_path / "link", model)):
        assert main(["pack", str(source), str(out), "-q", "--force"]) == 2
        assert "is what is to be packed" in capsys.readouterr().err
    assert model.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["pack", "none.safetensors", "out"], 3, "there is no file"),
        (["pack", "model.safetensors", "no/out"], 2, "there is no directory"),
        (["pack", "model.safetensors", "out", "-k", "1"], 2, "from 2 to 4096"),
        (["pack", "model.safetensors", "out", "-k", "4", "--bits", "2"], 2, "not both"),
        (["pack", "bad.fedcode", "out"], 3, "no safetensors file"),
        (["pack", "model.pt", "out"], 3, "save_file(torch.load('model.pt', weights_only=True), 'model.safetensors')"),
        (["pack", "old.pt", "out"], 3, "is a file of torch.save, which is not read here as it may hold code"),
        (["pack", "nan.safetensors", "out"], 2, "'w' holds NaN or infinity, first at index 4"),
        (["pack", "int8.safetensors", "out"], 3, "quantised already"),
        (["unpack", "bad.fedcode", "out"], 3, "bad.fedcode cannot be read"),
        (["unpack", "none.fedcode", "out"], 3, "there is no file"),
        (["inspect", "none.fedcode"], 3, "there is no file"),
        (["inspect", "good.fedcode", "--against", "other.safetensors"], 3, "another model"),
    ],
)
def test_errors_say_why_and_leave_nothing(
    arguments: list[str],
    code: int,
    said: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(model.parent)
    Path("bad.fedcode").write_bytes(b"nothing of ours" * 10)
    torch.save(state(), "model.pt")
    torch.save(state(), "old.pt", _use_new_zipfile_serialization=False)
    Path("good.fedcode").write_bytes(fedcode.encode({"w": np.ones(3, np.float32)}))
    save_file({"w": torch.tensor([0, 1, 2, 3, float("nan")])}, "nan.safetensors")
    save_file({"w": torch.zeros((1 << 22) + 1, dtype=torch.int8)}, "int8.safetensors")
    save_file({"v": torch.zeros(3)}, "other.safetensors")
    before = sorted(tmp_path.iterdir())
    assert main([*arguments, "-q"]) == code
    got = capsys.readouterr()
    assert said in got.err
    assert got.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_labels_that_lie_leave_no_half_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The labels are read while the output is written."""
    from fedcode.wire import Message, Section

    whole = Message.from_bytes(fedcode.encode({"w": np.arange(99, dtype=np.float32)}, 8))
    sections = dict(whole.sections) | {Section.LABELS: bytes(whole.section(Section.LABELS)) + b"\0"}
    packed = tmp_path / "bad.fedcode"
    packed.write_bytes(Message(whole.kind, "", layout=whole.layout, sections=sections).to_bytes())
    assert main(["unpack", str(packed), str(tmp_path / "out"), "-q"]) == 3
    assert "too many" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [packed]


PEAK = """
import resource, sys
from pathlib import Path
from fedcode.cli import main

def peak():
    status = Path("/proc/self/status")
    if status.exists():  # there ru_maxrss is no less than what the parent had when it forked
        return next(1024 * int(line.split()[1]) for line in status.open() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

assert main(sys.argv[1:]) == 0
print(peak(), file=sys.stderr)
"""


def peak(*arguments: str) -> int:
    """The most memory that a process with this command ever had, in bytes."""
    got = subprocess.run([sys.executable, "-c", PEAK, *arguments], capture_output=True, text=True, check=True)
    return int(got.stderr.split()[-1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_memory_stays_within_one_copy(dtype: torch.dtype, tmp_path: Path) -> None:
    model, packed, back = tmp_path / "m.safetensors", tmp_path / "m.fedcode", tmp_path / "back.safetensors"

    def peaks(rows: int) -> list[int]:
        rng = torch.Generator().manual_seed(0)
        save_file({f"w{i}": torch.randn(rows, 1000, generator=rng).to(dtype) for i in range(4)}, model)
        return [
            peak("pack", str(model), str(packed), "-qf", "--json"),
            peak("unpack", str(packed), str(back), "-qf"),
        ]

    # what libraries and compiled kernels take does not grow with the model: a small one measures it
    for small, large in zip(peaks(500), peaks(6_000), strict=True):
        assert large - small < 1.2 * model.stat().st_size


def test_long_work_says_how_far_it_is(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed, back = tmp_path / "model.fedcode", tmp_path / "back.safetensors"
    assert main(["pack", str(model), str(packed)]) == 0
    assert capsys.readouterr().err == "reading ...\ncoding ...\n"
    assert main(["unpack", str(packed), str(back)]) == 0
    assert capsys.readouterr().err.startswith("writing ...\n")
    assert main(["inspect", str(packed), "--against", str(model)]) == 0
    assert capsys.readouterr().err == "comparing ...\n"
    assert main(["pack", str(model), str(packed), "-qf"]) == 0
    assert capsys.readouterr().err == ""


def test_every_stage_comes_to_its_end(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcode.stored.BLOCK", 1000)
    monkeypatch.setattr("fedcode.streamed.BLOCK", 1000)
    said: list[tuple[str, int, int]] = []
    checkpoint.pack(safetensors_file.read(model), 16, progress=lambda *step: said.append(step))
    for stage in ("reading", "coding"):
        steps = [(done, total) for name, done, total in said if name == stage]
        last = [done for done, total in steps if done == total]
        assert {total for _, total in steps} == {24_014}
        assert last
        assert len(steps) >= 24


def test_in_a_terminal_there_are_bars(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["pack", str(model), str(tmp_path / "out"), "--json"]) == 0
    got = capsys.readouterr()
    assert json.loads(got.out)["centers"] == 64
    assert "reading" in got.err


FULL = """
import resource, signal, sys
from fedcode.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("there", [False, True])
def test_a_write_that_fails_leaves_what_was_there(there: bool, model: Path, tmp_path: Path) -> None:
    packed, out = tmp_path / "model.fedcode", tmp_path / "out"
    packed.write_bytes(fedcode.encode(state()))
    if there:
        out.write_bytes(b"before")
    before = sorted(tmp_path.iterdir())
    for arguments in (["pack", str(model), str(out), "-qf"], ["unpack", str(packed), str(out), "-qf"]):
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "FEDCODE_NUMBA": "0"}  # no cache is written
        command = [sys.executable, "-c", FULL, *arguments]
        got = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert got.returncode == 3, got.stderr
        assert "File too large" in got.stderr
        assert sorted(tmp_path.iterdir()) == before
        assert not there or out.read_bytes() == b"before"


def test_a_sharded_bfloat16_checkpoint_comes_back_in_its_dtype(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    parts = {f"model-{i}.safetensors": {f"w{i}": torch.full((4, 5), i + 0.5).bfloat16()} for i in range(3)}
    for name, part in parts.items():
        save_file(part, folder / name)
    places = {tensor: name for name, part in parts.items() for tensor in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    packed, back = tmp_path / "m.fedcode", tmp_path / "back.safetensors"
    assert main(["pack", str(folder), str(packed), "-k", "8", "-q"]) == 0
    assert main(["unpack", str(packed), str(back), "-q"]) == 0
    found = load_file(back)
    for part in parts.values():
        for name, tensor in part.items():  # so few values are each a centre of their own
            assert found[name].dtype == torch.bfloat16
            assert torch.equal(found[name], tensor)
