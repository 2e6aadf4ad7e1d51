"""The engine: the same bytes from any workers, executors and shard sizes; and nothing left when it stops."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from objects import Failing, Items, Pictures, left_behind, shard_bytes

import dscompile
from dscompile.errors import BuildError, OpaqueError, SampleError
from dscompile.formats.verify import verify

pytestmark = pytest.mark.usefixtures("no_open_files")


class Large:
    """Rows of 4 MiB: a block holds two of them, so that eleven samples are six tasks.

    Samples 2, 5 and 8 are none of the eight that are read to find hidden randomness.
    """

    classes = ("even", "odd")

    def __init__(self, bad: dict[int, str] | None = None) -> None:
        self.bad = bad or {}

    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index in self.bad:
            if self.bad[index] == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError(self.bad[index])
        return {"row": torch.full((1 << 20,), float(index)), "label": index % 2}


class Sync(Executor):
    """A foreign executor of another kind: it runs each task at once."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001
            future.set_exception(error)
        return future


def executor_of(kind: str) -> Executor | None:
    if kind == "threads":
        return ThreadPoolExecutor(2)
    if kind in ("fork", "forkserver", "spawn"):
        return ProcessPoolExecutor(2, multiprocessing.get_context(kind))
    return Sync() if kind == "sync" else None


SOURCES: dict[str, tuple[Any, dict[str, Any]]] = {
    "large rows": (Large(), {}),
    "samples, own statistics": (Pictures(9), {"normalize": "dataset"}),
    "arrays, own statistics": ("synthetic:train=20,test=10,size=8", {}),
    "arrays to uint8": ("synthetic:train=20,test=10,size=8", {"dtype": "uint8"}),
    "a resize": ("synthetic:train=9,test=5,size=8", {"resize": 6, "normalize": "dataset"}),
}


@pytest.fixture(scope="module", params=SOURCES)
def expected(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dscompile.Artifact]:
    source, options = SOURCES[request.param]
    folder = tmp_path_factory.mktemp("expected")
    return request.param, dscompile.build(source, store=folder, workers=1, **options)


@pytest.mark.parametrize("workers", [2, 3, 8])
def test_the_number_of_workers_changes_no_byte(
    workers: int, expected: tuple[str, dscompile.Artifact], store: Path
) -> None:
    source, options = SOURCES[expected[0]]
    found = dscompile.build(source, store=store, workers=workers, **options)
    assert shard_bytes(found.path) == shard_bytes(expected[1].path)
    assert found.manifest.splits == expected[1].manifest.splits


@pytest.mark.parametrize("kind", ["threads", "fork", "sync"])
def test_a_foreign_executor_changes_no_byte(
    kind: str, expected: tuple[str, dscompile.Artifact], store: Path
) -> None:
    source, options = SOURCES[expected[0]]
    with executor_of(kind) or Sync() as executor:
        for number in range(2):  # its processes see a second build
            found = dscompile.build(source, store=store / str(number), executor=executor, **options)
            assert shard_bytes(found.path) == shard_bytes(expected[1].path)
            assert found.manifest.splits == expected[1].manifest.splits
            assert verify(found.path, found.manifest) == []


def test_a_spawned_executor_changes_no_byte(tmp_path: Path) -> None:
    code = (
        "import multiprocessing, sys, dscompile\nfrom concurrent.futures import ProcessPoolExecutor\n"
        "NAME = 'mine.py:Mine'\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as executor:\n"
        "        made = dscompile.build(NAME, store='theirs', executor=executor, normalize='dataset')\n"
        "    ours = dscompile.build(NAME, store='ours', workers=1, normalize='dataset')\n"
        "    files = [sorted(p.path.glob('*.pt')) for p in (made, ours)]\n"
        "    assert [f.read_bytes() for f in files[0]] == [f.read_bytes() for f in files[1]]\n"
    )
    (tmp_path / "main.py").write_text(code)
    (tmp_path / "mine.py").write_text(
        "from PIL import Image\nclass Mine:\n    def __len__(self): return 4\n"
        "    def __getitem__(self, i): return Image.new('RGB', (3, 2), (i * 50, 7 * i, i)), i\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, env=environment, timeout=120)
    assert done.returncode == 0


def test_work_that_does_not_pickle_is_refused_for_other_processes(store: Path) -> None:
    dataset = Items([(torch.zeros(2), 0)])
    dataset.lock = __import__("threading").Lock()  # type: ignore[attr-defined]
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, context) as executor, pytest.raises(OpaqueError, match="pickle"):
        dscompile.build(dataset, store=store, executor=executor, version="1")
    assert left_behind(store) == []
    assert dscompile.build(dataset, store=store, version="1").built  # forked workers need no pickle


@pytest.mark.parametrize("shard_bytes_", [1, 3000, 10_000, 1 << 30])
@pytest.mark.parametrize(
    "source", ["synthetic:train=20,test=10,size=8", Pictures(9)], ids=["arrays", "samples"]
)
def test_the_size_of_shards_changes_no_row(shard_bytes_: int, source: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"normalize": "dataset"}
    whole = dscompile.build(source, store=tmp_path / "whole", **options)
    cut = dscompile.build(source, store=tmp_path / "cut", shard_bytes=shard_bytes_, **options)
    assert cut.manifest.content_digest == whole.manifest.content_digest
    assert verify(cut.path, cut.manifest) == []
    for name, split in cut.manifest.splits.items():
        rows = max(1, shard_bytes_ // sum(item.row_bytes for item in cut.manifest.fields))
        assert [shard.samples for shard in split.shards][:-1] == [rows] * (len(split.shards) - 1)
        for one, other in zip(cut.open(name), whole.open(name), strict=True):
            assert torch.equal(one[0], other[0])
            assert one[1] == other[1]


def test_blocks_are_digested_alike_whatever_the_shards(tmp_path: Path) -> None:
    """Blocks of two rows; shards of three are cut to whole blocks, a shard of one is not."""
    artifact = dscompile.build(Large(), store=tmp_path, shard_bytes=3 * (4 << 20) + 24, workers=2)
    split = artifact.manifest.splits["train"]
    assert artifact.manifest.block_rows == 2
    assert [shard.samples for shard in split.shards] == [2, 2, 2, 2, 2, 1]
    import hashlib

    rows = [np.full(1 << 20, float(n), "<f4").tobytes() for n in range(11)]
    expected = [hashlib.sha256(b"".join(rows[n : n + 2])).hexdigest() for n in range(0, 11, 2)]
    assert list(split.blocks["row"]) == expected


@pytest.mark.parametrize("workers", [1, 3])
def test_the_first_bad_sample_decides_the_error(workers: int, store: Path) -> None:
    for _ in range(3):
        with pytest.raises(SampleError, match=r"split 'train', sample 2: .*ValueError: third"):
            dscompile.build(Large({8: "ninth", 2: "third", 5: "sixth"}), store=store, workers=workers)
    assert left_behind(store) == []


def test_a_worker_that_dies_is_said(store: Path) -> None:
    with pytest.raises(BuildError, match=r"'train', rows from .*a worker that ended abruptly"):
        dscompile.build(Large({2: "killed", 5: "killed"}), store=store, workers=2)
    assert left_behind(store) == []


@pytest.mark.parametrize("index", [0, 2, 5])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), MemoryError("full"), SystemExit(3), OSError(28, "no space")]
)
@pytest.mark.parametrize("name", ["pt", "hdf5", "lmdb"])
def test_an_interrupted_build_leaves_nothing_and_the_next_is_whole(
    index: int, error: BaseException, name: str, store: Path
) -> None:
    # BR-49: whether the sample is one of those read to find randomness (0, 5) or not (2).
    dataset = Failing(index, error, times=1)
    ordinary = isinstance(error, Exception)
    with pytest.raises(SampleError if ordinary else type(error)) as caught:
        dscompile.build(dataset, store=store, workers=1, format=name, version="1")
    assert not ordinary or f"sample {index}" in str(caught.value)
    assert left_behind(store) == []
    with pytest.raises(FileNotFoundError):
        dscompile.open("failing", store=store)
    second = dscompile.build(dataset, store=store, workers=1, format=name, version="1")
    undisturbed = dscompile.build(Failing(-1, error), store=store / "b", format=name, version="1")
    assert [(row.tolist(), label) for row, label in second.open()] == [([n] * 4, n) for n in range(10)]
    assert second.manifest.content_digest == undisturbed.manifest.content_digest


BUILD_MINE = [
    sys.executable,
    "-m",
    "dscompile",
    "build",
    "mine.py:Mine",
    "--store",
    "store",
    "--workers",
    "2",
]


def test_a_killed_build_is_never_an_artifact(tmp_path: Path) -> None:
    # BR-49, the hard way: exit status 137 in the middle of the rows, with two workers.
    (tmp_path / "mine.py").write_text(
        "import os, signal, torch\nclass Mine:\n    def __len__(self): return 10\n"
        "    def __getitem__(self, i):\n"
        "        if i == 7 and not os.path.exists('whole'): os.killpg(0, signal.SIGKILL)\n"
        "        return torch.full((4,), float(i)), i\n"
    )
    killed = subprocess.run(
        BUILD_MINE, cwd=tmp_path, check=False, start_new_session=True, capture_output=True, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    store = tmp_path / "store"
    assert dscompile.artifact.store.Store(store).entries() == []
    with pytest.raises(FileNotFoundError):
        dscompile.open("mine", store=store)
    (tmp_path / "whole").touch()
    again = subprocess.run(
        BUILD_MINE, cwd=tmp_path, check=False, start_new_session=True, capture_output=True, timeout=60
    )
    assert again.returncode == 0, again.stderr
    assert [label for _, label in dscompile.open("mine", store=store)] == list(range(10))


def test_control_c_stops_a_build_with_workers(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import time, pathlib, torch\nclass Mine:\n    def __len__(self): return 10\n"
        "    def __getitem__(self, i):\n"
        "        if i == 7: pathlib.Path('started').touch(); time.sleep(0.5)\n"
        "        return torch.zeros(2), i\n"
    )
    process = subprocess.Popen(
        BUILD_MINE, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert output == ""
    assert "Traceback" not in errors
    assert left_behind(tmp_path / "store") == []


def test_progress_counts_every_row_once(store: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    dscompile.build(Large(), store=store, workers=1, progress=lambda *step: seen.append(step))
    assert seen == [("train", done, 11) for done in (2, 4, 6, 8, 10, 11)]


@pytest.mark.usefixtures("same_generators")
def test_a_build_leaves_the_random_generators_alone(store: Path) -> None:
    dscompile.build(Pictures(5), store=store, normalize="dataset", workers=1)


def test_what_the_loader_needs_is_in_memory_bounds(tmp_path: Path) -> None:
    """A build of 96 MiB of rows, with two workers, takes less memory above its start than its rows."""
    (tmp_path / "main.py").write_text(
        "import resource, torch, dscompile\n"
        "class Rows:\n    def __len__(self): return 96\n"
        "    def __getitem__(self, i): return torch.full((1 << 18,), float(i)), i\n"
        "dscompile.build([(torch.zeros(2), 0)], store='warm', workers=2)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "dscompile.build(Rows(), store='store', workers=2)\n"
        "whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)\n"
        "after = max(resource.getrusage(who).ru_maxrss for who in whose)\n"
        "assert after - before < 64 << 10, (after - before)\n"
    )
    done = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, timeout=120)
    assert done.returncode == 0
