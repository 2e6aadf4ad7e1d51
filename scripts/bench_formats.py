"""Compare the containers: build, first batch, epoch, ten shards, and the memory of many readers.

    python scripts/bench_formats.py [--samples 20000] [--readers 16] [--json]

Every row is a ratio to the `.pt` container (or to one copy of the rows), measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tables import print_table

import dscompile

FORMATS = ("pt", "hdf5", "lmdb")
TIMEOUT = 120
FIRST_BATCH = """
import time, torch
started = time.perf_counter()
import dscompile
images, labels = next(iter(dscompile.open({path!r}, "train").loader(512, shuffle=True)))
print(time.perf_counter() - started)
"""


class Row(NamedTuple):
    """One ratio: what, of which container, measured, held against what, and the bound promised."""

    what: str
    container: str
    measured: float
    against: float
    bound: float


def epoch(dataset: dscompile.CompiledDataset) -> Callable[[], float]:
    """Return a function that runs one shuffled epoch of batches of 512 and touches each."""
    loader = dataset.loader(512, shuffle=True)

    def run() -> float:
        return sum(float(images[:, 0, 0, 0].sum()) for images, _ in loader)

    return run


def in_turn(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each function, run in turn so that drift meets all alike."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(rounds + 1):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            if number:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in times.items()}


def built(
    spec: str, store: Path, container: str, name: str, shard_bytes: int = 1 << 30
) -> Callable[[], object]:
    """Return a function that builds the artifact anew."""

    def run() -> object:
        return dscompile.build(
            spec, store=store, format=container, name=name, shard_bytes=shard_bytes, force=True
        )

    return run


def first_batch(path: Path) -> Callable[[], float]:
    """Return a function that opens an artifact in a new process and times its first batch."""

    def run() -> float:
        code = FIRST_BATCH.format(path=str(path))
        found = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
        return float(found.stdout)

    return run


def reader(path: str, ready: Any, stop: Any, results: Any) -> None:
    """Read every row once, then report this process's proportional memory of mapped files in bytes."""
    torch.set_num_threads(1)  # a forked process must not use the parent's thread pool
    dataset = dscompile.open(path, "train")
    total = sum(float(labels.sum()) for _, labels in dataset.loader(512))
    ready.wait(TIMEOUT)
    results.put((total, mapped_memory(path)))
    stop.wait(TIMEOUT)


def mapped_memory(path: str) -> int:
    """Return the proportional set size in bytes of the mappings of files under `path` (Linux)."""
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            ours = path in line
        elif ours and line.startswith("Pss:"):
            total += int(line.split()[1]) * 1024
    return total


def shared_memory(path: Path, readers: int, method: str) -> int:
    """Return the summed proportional memory of many readers that have read every row."""
    context: Any = multiprocessing.get_context(method)
    ready, stop, results = context.Barrier(readers), context.Barrier(readers + 1), context.Queue()
    processes = [
        context.Process(target=reader, args=(str(path), ready, stop, results)) for _ in range(readers)
    ]
    for process in processes:
        process.start()
    found = [results.get(timeout=TIMEOUT) for _ in processes]
    stop.wait(TIMEOUT)
    for process in processes:
        process.join()
    assert len({total for total, _ in found}) == 1, "readers disagree"
    return sum(memory for _, memory in found)


def measure(samples: int, readers: int, rounds: int, folder: Path) -> list[Row]:
    """Return all rows."""
    spec = f"synthetic:train={samples},test=100"
    rows = []
    builds = in_turn({name: built(spec, folder, name, f"one-{name}") for name in FORMATS}, rounds)
    rows += [Row("build", name, builds[name], builds["pt"], 1.5) for name in FORMATS]
    artifacts = {name: dscompile.open(f"one-{name}", "train", store=folder) for name in FORMATS}
    size = artifacts["pt"].manifest.bytes_on_disk
    for name in FORMATS:
        built(spec, folder, name, f"ten-{name}", size // 10)()
    tens = {name: dscompile.open(f"ten-{name}", "train", store=folder) for name in FORMATS}
    torch.set_num_threads(2)
    epochs = in_turn(
        {
            **{f"one {name}": epoch(dataset) for name, dataset in artifacts.items()},
            **{f"ten {name}": epoch(dataset) for name, dataset in tens.items()},
        },
        3 * rounds,
    )
    rows += [Row("epoch", name, epochs[f"one {name}"], epochs["one pt"], 1.1) for name in FORMATS]
    rows += [
        Row(f"epoch, {len(tens[name].manifest.splits['train'].shards)} shards against one", name, *pair, 1.3)
        for name in FORMATS
        for pair in [(epochs[f"ten {name}"], epochs[f"one {name}"])]
    ]
    for name in FORMATS:
        seconds = statistics.median(first_batch(artifacts[name].path)() for _ in range(rounds))
        rows.append(Row("first batch after import torch, against 30 ms", name, seconds, 0.03, 1.0))
    one_copy = sum(shard.bytes for shard in artifacts["pt"].manifest.splits["train"].shards)
    for name in FORMATS:
        memory = shared_memory(artifacts[name].path, readers, "fork")
        rows.append(Row(f"memory of {readers} readers against one copy", name, memory, one_copy, 1.2))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Compare the containers of dscompile.")
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--readers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(args.samples, args.readers, args.rounds, Path(folder))
    if args.json:
        print(json.dumps([{**row._asdict(), "ratio": row.measured / row.against} for row in rows]))
        return
    shown = ((row.what, row.container, f"{row.measured / row.against:.3f}", str(row.bound)) for row in rows)
    print_table(("what", "container", "ratio", "at most"), shown)


if __name__ == "__main__":
    main()
