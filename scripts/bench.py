"""Time the loader and the build against plain-torch limits measured in the same run; prints ratios.

    python scripts/bench.py [--samples 50000] [--batch-size 512] [--json]

Each row names its limit: what plain torch needs for the same bytes. A ratio of 1 is the floor.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tables import print_table

import dscompile
from dscompile import augment
from dscompile.runtime.order import order

FIRST_BATCH = """
import time, torch
started = time.perf_counter()
import dscompile
images, labels = next(iter(dscompile.open({path!r}, "train").loader({batch}, shuffle=True)))
print(time.perf_counter() - started)
"""


class Row(NamedTuple):
    """One measurement: what, its seconds, what it is held against, and the seconds of that."""

    what: str
    seconds: float
    limit: str
    limit_seconds: float


def in_turn(ours: Callable[[], object], limit: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the median seconds of two functions, run in turn so that drift meets both alike."""
    times: tuple[list[float], list[float]] = ([], [])
    for function in (ours, limit):
        function()
    for _ in range(rounds):
        for found, function in zip(times, (ours, limit), strict=True):
            started = time.perf_counter()
            function()
            found.append(time.perf_counter() - started)
    return statistics.median(times[0]), statistics.median(times[1])


def epoch(loader: dscompile.Loader) -> Callable[[], float]:
    """Return a function that runs one epoch and touches every batch."""

    def run() -> float:
        return sum(float(images[:, 0, 0, 0].sum()) for images, _ in loader)

    return run


def gather(images: torch.Tensor, labels: torch.Tensor, batch: int) -> Callable[[], float]:
    """Return the limit of a shuffled epoch: one `index_select(out=)` per batch over a plain tensor."""
    flat = images.reshape(len(images), -1)
    out = torch.empty((batch, flat.shape[1]), dtype=flat.dtype)

    def run() -> float:
        total, positions = 0.0, torch.randperm(len(flat))
        for start in range(0, len(flat), batch):
            ids = positions[start : start + batch]
            rows = torch.index_select(flat, 0, ids, out=out[: len(ids)])
            total += float(rows.view(-1, *images.shape[1:])[:, 0, 0, 0].sum()) + float(labels[ids][0]) * 0
        return total

    return run


def copy(images: torch.Tensor, batch: int) -> Callable[[], float]:
    """Return the limit of an unshuffled epoch: the same bytes copied in order."""
    out = torch.empty_like(images[:batch])

    def run() -> float:
        total = 0.0
        for start in range(0, len(images), batch):
            part = images[start : start + batch]
            total += float(out[: len(part)].copy_(part)[:, 0, 0, 0].sum())
        return total

    return run


def write_and_hash(size: int, folder: Path) -> float:
    """Return the seconds to write, fsync and SHA-256 so many bytes."""
    data = np.zeros(size, np.uint8)
    started = time.perf_counter()
    with (folder / "limit.bin").open("wb") as file:
        file.write(data.data)
        file.flush()
        os.fsync(file.fileno())
    hashlib.sha256(data.data).digest()
    seconds = time.perf_counter() - started
    (folder / "limit.bin").unlink()
    return seconds


def per_sample(dataset: Any, constants: tuple[Any, Any]) -> float:
    """Return the seconds torchvision needs to read a data set sample by sample."""
    from torchvision import transforms

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(*constants)])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a worker: a second thread only slows so small tensors down
    started = time.perf_counter()
    for index in range(len(dataset)):
        transform(dataset[index][0])
    seconds = time.perf_counter() - started
    torch.set_num_threads(threads)
    return seconds


def converting(samples: Any, artifact: dscompile.Artifact) -> Row:
    """Time the conversion of a whole array without writing, against torchvision's way."""
    from concurrent.futures import ThreadPoolExecutor

    from dscompile.compiler.pixels import PIECE_BYTES, Converter

    field = artifact.manifest.fields[0]
    pixels, converter = samples.arrays["image"], Converter(field)
    rows = PIECE_BYTES // field.row_bytes
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        started = time.perf_counter()
        for _ in pool.map(
            lambda start: converter(pixels[start : start + rows]) is None, range(0, len(pixels), rows)
        ):
            pass
        seconds = time.perf_counter() - started
    norm = field.normalisation
    assert norm is not None
    limit = per_sample(samples.samples, (norm.mean, norm.std))
    return Row("convert to float32, not written", seconds, "torchvision, sample by sample", limit)


def cifar_files(folder: Path, samples: int) -> None:
    """Write so many random pictures in CIFAR-10's own layout, with 1,000 more for the test split."""
    target = folder / "cifar-10-batches-py"
    target.mkdir(parents=True)
    random = np.random.default_rng(0)
    sizes = {f"data_batch_{number}": samples // 5 for number in range(1, 6)} | {"test_batch": 1000}
    for name, size in sizes.items():
        data = random.integers(0, 256, (size, 3072), dtype=np.uint8)
        batch = {"data": data, "labels": random.integers(0, 10, size).tolist()}
        (target / name).write_bytes(pickle.dumps(batch))
    (target / "batches.meta").write_bytes(pickle.dumps({"label_names": [f"class {n}" for n in range(10)]}))


def measure(samples: int, batch: int, rounds: int, folder: Path) -> list[Row]:
    """Return all rows."""
    from dscompile.sources import resolve

    root = folder / "cifar"
    cifar_files(root, samples)
    build = partial(dscompile.build, "cifar10", root=root, store=folder / "store", source_check=False)
    opened = resolve("cifar10", root=root, check=False).open("train")
    artifact = build()
    rows = [converting(opened, artifact)]
    del opened
    for dtype in ("float32", "float16", "uint8"):
        size = build(dtype=dtype).manifest.bytes_on_disk
        anew = partial(built_anew, partial(build, dtype=dtype, store=folder / "anew"), folder / "anew")
        seconds, limit = in_turn(anew, partial(write_and_hash, size, folder), 3)
        rows.append(Row(f"build {dtype}", seconds, "write, fsync, SHA-256", limit))
    started = time.perf_counter()
    assert not build().built
    rows.append(Row("hit of build()", time.perf_counter() - started, "50 ms", 0.05))
    rows += epochs(artifact, build(dtype="uint8"), batch, rounds)
    started = time.perf_counter()
    order(10**8, 0, 0, True).slice(0, batch)
    rows.append(
        Row("first positions of 10^8 shuffled samples", time.perf_counter() - started, "15 ms", 0.015)
    )
    rows.append(first_batch(artifact, batch, rounds))
    return rows


def built_anew(build: Callable[[], object], store: Path) -> None:
    """Build into an empty store."""
    shutil.rmtree(store, ignore_errors=True)
    build()


def epochs(artifact: dscompile.Artifact, small: dscompile.Artifact, batch: int, rounds: int) -> list[Row]:
    """Time epochs over stored float32 and over stored uint8, each against a limit of its own."""
    train, rows = artifact.open("train"), []
    images, labels = train[:]
    limit = gather(images, labels, batch)
    ours, plain = in_turn(epoch(train.loader(batch, shuffle=True)), limit, rounds)
    rows.append(Row("epoch float32, shuffled", ours, "index_select(out=)", plain))
    ours, plain = in_turn(epoch(train.loader(batch)), copy(images, batch), rounds)
    rows.append(Row("epoch float32, in order", ours, "copy in order", plain))
    steps: list[augment.Augmentation[Any]] = [
        augment.RandomCrop(32, padding=4),
        augment.RandomHorizontalFlip(),
    ]
    ours, plain = in_turn(epoch(train.loader(batch, shuffle=True, augment=steps)), limit, rounds)
    rows.append(Row("epoch float32, crop and flip", ours, "index_select(out=)", plain))
    loader = small.open("train").loader(batch, shuffle=True, dtype=torch.float32)
    ours, plain = in_turn(epoch(loader), limit, rounds)
    rows.append(Row("epoch uint8 to normalised float32", ours, "index_select(out=)", plain))
    loader = small.open("train").loader(batch, shuffle=True, dtype=torch.float32, augment=steps)
    ours, plain = in_turn(epoch(loader), limit, rounds)
    rows.append(Row("the same, crop and flip", ours, "index_select(out=)", plain))
    return rows


def first_batch(artifact: dscompile.Artifact, batch: int, rounds: int) -> Row:
    """Time opening and the first batch in new processes, after `import torch`."""
    code = FIRST_BATCH.format(path=str(artifact.path), batch=batch)
    found = [
        float(
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout
        )
        for _ in range(rounds)
    ]
    return Row("open and first batch after import torch", statistics.median(found), "30 ms", 0.03)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time dscompile against plain-torch limits.")
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(args.samples, args.batch_size, args.rounds, Path(folder))
    if args.json:
        print(json.dumps([{**row._asdict(), "ratio": row.seconds / row.limit_seconds} for row in rows]))
        return
    shown = (
        (
            row.what,
            f"{row.seconds:.4f}",
            row.limit,
            f"{row.limit_seconds:.4f}",
            f"{row.seconds / row.limit_seconds:.3f}",
        )
        for row in rows
    )
    print_table(("what", "seconds", "against", "seconds", "ratio"), shown)


if __name__ == "__main__":
    main()
