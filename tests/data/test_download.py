"""Downloads from a server on loopback: checked, continued, kept; and archives that must not be trusted."""

from __future__ import annotations

import hashlib
import re
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fedcode import data
from fedcode.cli import main
from fedcode.data import archives, download
from fedcode.data.archives import Archive
from fedcode.errors import ArgumentError, DataError
from tests.data.official import cifar, member, pack, speech


@dataclass
class Publisher:
    """What the server has, what it was asked for, and how it fails."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    stop_after: int | None = None  # bytes of a body before the connection ends
    ranges: bool = True

    def archive(self, path: Path, folder: str) -> Archive:
        """A local file as this publisher offers it."""
        content = path.read_bytes()
        self.files["/" + path.name] = content
        return Archive(f"{self.address}/{path.name}", hashlib.sha256(content).hexdigest(), len(content), folder)


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    state = Publisher()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            if self.path not in state.files:
                self.send_error(404)
                return
            content = state.files[self.path]
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and state.ranges else 0
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            stop = None if state.stop_after is None else start + state.stop_after
            self.wfile.write(content[start:stop])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        state.address = f"http://127.0.0.1:{server.server_address[1]}"
        yield state
        server.shutdown()
        thread.join()


@pytest.fixture
def offered(tmp_path: Path, publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    """CIFAR-10 with 20 images a file, and Speech Commands with three clips a word."""
    made = tmp_path / "made"
    train = speech(made)
    test = made / "speech_commands_test_set_v0.02"
    images = pack(cifar(made), made / "cifar-10-binary.tar.gz")
    # the speech archives have no folder of their own inside
    sounds = [pack(folder, made / f"{folder.name}.tar.gz", inside=".") for folder in (train, test)]
    monkeypatch.setitem(archives.ARCHIVES, "cifar10", (publisher.archive(images, "cifar-10-batches-bin"),))
    monkeypatch.setitem(
        archives.ARCHIVES,
        "speechcommands",
        tuple(publisher.archive(path, path.name.removesuffix(".tar.gz")) for path in sounds),
    )
    return publisher


def test_what_was_fetched_is_what_the_loaders_read(tmp_path: Path, offered: Publisher) -> None:
    heard: list[tuple[str, int, int]] = []
    [folder] = download.get("cifar10", tmp_path / "here", progress=lambda *heard_now: heard.append(heard_now))
    assert folder == tmp_path / "here" / "cifar-10-batches-bin"
    assert data.cifar10(tmp_path / "here").examples == 100
    size = len(offered.files["/cifar-10-binary.tar.gz"])
    stage = "downloading cifar-10-binary.tar.gz"
    assert heard[0] == (stage, 0, size)
    assert (stage, size, size) in heard
    assert len(download.get("speechcommands", tmp_path / "here")) == 2
    assert data.speechcommands(tmp_path / "here").classes == 12


def test_without_a_directory_it_goes_where_the_loaders_look(
    tmp_path: Path, offered: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    download.get("cifar10")
    assert (tmp_path / "cache/fedcode/cifar-10-batches-bin").is_dir()
    monkeypatch.setenv("FEDCODE_DATA", str(tmp_path / "named"))
    download.get("cifar10")
    assert data.cifar10(tmp_path / "named").examples == 100
    assert len(offered.asked) == 2


def test_what_is_here_is_not_fetched_again(tmp_path: Path, offered: Publisher) -> None:
    [folder] = download.get("cifar10", tmp_path)
    download.get("cifar10", tmp_path)
    assert len(offered.asked) == 1
    # with force a sound archive is unpacked anew, and one that has changed is fetched again
    (folder / "test_batch.bin").write_bytes(b"damaged")
    (folder / "of the user's").write_bytes(b"")
    download.get("cifar10", tmp_path, force=True)
    assert len(offered.asked) == 1
    assert data.cifar10(tmp_path).examples == 100
    assert not (folder / "of the user's").exists()
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"damaged")
    download.get("cifar10", tmp_path, force=True)
    assert len(offered.asked) == 2
    assert data.cifar10(tmp_path).examples == 100


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_broke_off_goes_on(
    tmp_path: Path, offered: Publisher, ranges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_PIECE", 1000)  # what has come in whole pieces is kept
    offered.stop_after, offered.ranges = 5000, ranges
    with pytest.raises(DataError, match=r"5,000 of [\d,]+ bytes are kept; the same command goes on from there"):
        download.get("cifar10", tmp_path)
    assert not (tmp_path / "cifar-10-batches-bin").exists()
    offered.stop_after = None
    download.get("cifar10", tmp_path)
    assert offered.asked[-1] == ("/cifar-10-binary.tar.gz", "bytes=5000-")
    assert data.cifar10(tmp_path).examples == 100
    assert not list(tmp_path.glob(".*part*"))


def test_a_server_that_goes_on_elsewhere_is_not_believed(tmp_path: Path, offered: Publisher) -> None:
    archive = archives.ARCHIVES["cifar10"][0]
    offered.files["/cifar-10-binary.tar.gz"] = bytes(100)  # shorter than what is here
    (tmp_path / f".{archive.file}.part").write_bytes(bytes(200))
    with pytest.raises(DataError, match="did not send what it should"):
        download.get("cifar10", tmp_path)


def test_a_part_that_can_be_no_beginning_is_dropped(tmp_path: Path, offered: Publisher) -> None:
    archive = archives.ARCHIVES["cifar10"][0]
    part = tmp_path / f".{archive.file}.part"
    part.write_bytes(bytes(archive.size + 1))
    download.get("cifar10", tmp_path)
    assert offered.asked == [("/cifar-10-binary.tar.gz", None)]
    assert data.cifar10(tmp_path).examples == 100


def test_something_else_than_the_archive_is_refused_and_not_kept(tmp_path: Path, offered: Publisher) -> None:
    name = "/cifar-10-binary.tar.gz"
    right = offered.files[name]
    offered.files[name] = right[:-1] + bytes([right[-1] ^ 1])
    with pytest.raises(DataError, match="did not send what it should"):
        download.get("cifar10", tmp_path)
    assert not (tmp_path / "cifar-10-batches-bin").exists()
    assert not (tmp_path / "cifar-10-binary.tar.gz").exists()
    offered.files[name] = right
    download.get("cifar10", tmp_path)
    assert data.cifar10(tmp_path).examples == 100


def test_what_the_publisher_no_longer_has_is_named(tmp_path: Path, offered: Publisher) -> None:
    offered.files.clear()
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz could not be downloaded.*404.*by other means"):
        download.get("cifar10", tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, offered: Publisher) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"could not be kept in .*file"):
        download.get("cifar10", tmp_path / "file")
    assert not offered.asked


def test_a_set_that_is_not_downloaded() -> None:
    with pytest.raises(ArgumentError, match="no data set 'mnist' to download; there are cifar10, cifar100"):
        download.get("mnist")


def test_the_published_archives_are_named_as_the_loaders_expect() -> None:
    for name, several in archives.ARCHIVES.items():
        for archive in several:
            assert archive.url.startswith("https://"), name
            assert re.fullmatch("[0-9a-f]{64}", archive.sha256), name
            assert archive.size > 100_000_000, name


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"name": "../outside"}, "does not belong"),
        ({"name": "/etc/outside"}, "does not belong"),
        ({"name": "folder/../../outside"}, "does not belong"),
        ({"name": "huge", "size": 9 << 30}, "does not belong"),
    ],
)
def test_a_name_that_leads_out_is_refused(tmp_path: Path, settings: dict[str, object], complaint: str) -> None:
    archive = member(tmp_path / "x.tar.gz", **settings)
    with pytest.raises(DataError, match=complaint):
        archives.unpack(archive, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar.gz"]


def test_links_are_passed_over(tmp_path: Path) -> None:
    archive = member(tmp_path / "x.tar.gz", name="folder/link", type=tarfile.SYMTYPE, linkname="/etc/passwd")
    archives.unpack(archive, tmp_path / "folder")
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_damaged_archive_leaves_what_was_there(tmp_path: Path) -> None:
    folder = cifar(tmp_path)
    archive = pack(folder, tmp_path / "cifar-10-binary.tar.gz")
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises(DataError, match="cannot be read or unpacked"):
        archives.unpack(archive, folder)
    assert data.cifar10(tmp_path).examples == 100
    assert len(list(tmp_path.iterdir())) == 2


def test_the_command_gets_and_lists(tmp_path: Path, offered: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", "cifar10", "--data-dir", str(tmp_path / "here")]) == 0
    got = capsys.readouterr()
    assert got.out == f"{tmp_path}/here/cifar-10-batches-bin\n"
    assert "downloading cifar-10-binary.tar.gz" in got.err
    assert main(["data", "list", "--data-dir", str(tmp_path / "here"), "--json"]) == 0
    said = capsys.readouterr().out
    assert '"digits"' in said
    assert str(tmp_path / "here" / "cifar-10-batches-bin") in said
    assert main(["data", "list", "--data-dir", str(tmp_path / "here")]) == 0
    assert "fedcode data get cifar100" in capsys.readouterr().out
    offered.files.clear()
    assert main(["data", "get", "speechcommands"]) == 3
    assert main(["data", "get", "mnist"]) == 2
