"""The user's own code under the command line: what it prints, raises or ends never passes for a result."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DATASET = """
import time
import numpy as np
print("hello from the module")
class Data:
    def __init__(self, pause=0.0):
        self.pause = pause
    def __len__(self):
        return 40
    def __getitem__(self, index):
        print("reading", index)
        time.sleep(self.pause)
        return np.full(1000, index, np.float32), index
fast, slow = Data(), Data(0.2)
def leave():
    raise SystemExit(0)
class Odd(Data):
    def __len__(self):
        return -1
odd = Odd()
"""


def command(folder: Path, *words: str) -> list[str]:
    (folder / "users_file.py").write_text(DATASET)
    return [sys.executable, "-m", "dscompile", "build", *words, "--store", str(folder / "store")]


def test_what_user_code_prints_is_not_in_the_json(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, f"{tmp_path}/users_file.py:fast", "--json"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["splits"] == {"train": 40}
    assert "hello from the module" in done.stderr


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("users_file.py:leave", "SystemExit"),
        ("users_file.py:odd", "__len__"),
        ("broken_file.py:data", "SyntaxError"),
        ("leaving_file.py:data", "SystemExit"),
    ],
)
def test_code_that_gives_no_dataset_is_one_error(spec: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "broken_file.py").write_text("def data(:")
    (tmp_path / "leaving_file.py").write_text("import sys; sys.exit(0)")
    done = subprocess.run(command(tmp_path, f"{tmp_path}/{spec}"), capture_output=True, text=True)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 1)])
def test_a_stopped_build_leaves_nothing(number: int, status: int, tmp_path: Path) -> None:
    """Rows of 4 kB in blocks of 16 MiB: the whole split is one task of some seconds when the signal comes."""
    words = command(tmp_path, f"{tmp_path}/users_file.py:slow", "--workers", "2")
    build = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("store/*/.staging-*/*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    build.send_signal(number)
    assert build.wait(60) == status
    assert not (tmp_path / "store").exists()
    time.sleep(0.5)
    found = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True)
    assert found.stdout == ""


def test_a_download_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network the file, its published checksum and the cure are named, and no folder stays."""
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # the discard port: nothing answers
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    done = subprocess.run(command(tmp_path, "cifar10"), capture_output=True, text=True)
    assert done.returncode == 1
    assert "data_batch_1" in done.stderr
    assert "md5 c58f30108f718f92721af3b95e74349a" in done.stderr
    assert "--root" in done.stderr
    assert not (tmp_path / "store").exists()
