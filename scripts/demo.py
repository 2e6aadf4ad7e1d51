"""The demo of `make demo`: compile, train, restart, and a table of what it cost."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

from tables import print_table

import dscompile


def main() -> None:
    """Run the demo and exit with status 1 if the network learned too little."""
    parser = argparse.ArgumentParser(description="Compile, train and restart on the synthetic dataset.")
    parser.add_argument("--store", default="demo-store", help="directory of artifacts")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    print("building the synthetic dataset", flush=True)
    artifact = dscompile.build("synthetic", store=args.store)
    verb = "built" if artifact.built else "found in the store"
    print(f"{verb} in {artifact.seconds:.2f} s: {artifact.path}", flush=True)

    print(f"training a small ResNet for {args.epochs} epochs", flush=True)
    started = time.perf_counter()
    first = train(args.store, args.epochs)
    seconds = time.perf_counter() - started

    print("starting the training again, from the cache", flush=True)
    again = train(args.store, 1)

    table(artifact, first, again, seconds)
    if first["accuracy"] <= 0.95:
        raise SystemExit(f"test accuracy {first['accuracy']:.2%}: expected more than 95 %")


def train(store: str, epochs: int) -> dict[str, Any]:
    """Run scripts/train.py in a process of its own and return what it measured."""
    command = [sys.executable, "scripts/train.py", "--store", store, "--epochs", str(epochs), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def table(artifact: dscompile.Artifact, first: dict[str, Any], again: dict[str, Any], seconds: float) -> None:
    """Print what was measured."""
    epochs = sorted(first["epochs"])
    rows = [
        ("build", f"{artifact.seconds:.2f} s" + ("" if artifact.built else " (cache hit)")),
        ("restart to first batch, after import torch", f"{again['first_batch'] * 1000:.0f} ms (cache hit)"),
        ("epoch, forward and backward included", f"{epochs[len(epochs) // 2]:.1f} s"),
        ("training run, start to end", f"{seconds:.0f} s"),
        ("test accuracy", f"{first['accuracy']:.2%}"),
    ]
    print_table(("what", "measured here"), rows)


if __name__ == "__main__":
    main()
