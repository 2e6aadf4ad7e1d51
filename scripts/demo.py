"""The demo of `make demo`: compile, train, restart, and a table of what it cost."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import dscompile

RESTART = """
import time
import torch, dscompile.runtime.loader, dscompile.compiler.build  # imports are not what a restart waits for
started = time.perf_counter()
train = dscompile.build("synthetic", store={store!r}).open("train")
images, labels = next(iter(train.loader(128, shuffle=True)))
print(time.perf_counter() - started)
"""


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
    trained = subprocess.run(
        [sys.executable, "scripts/train.py", "--store", args.store, "--epochs", str(args.epochs), "--json"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    seconds = time.perf_counter() - started
    result = json.loads(trained.stdout.splitlines()[-1])

    print("starting again from the cache", flush=True)
    again = subprocess.run(
        [sys.executable, "-c", RESTART.format(store=args.store)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    table(artifact, float(again.stdout), result, seconds)
    if result["accuracy"] <= 0.95:
        raise SystemExit(f"test accuracy {result['accuracy']:.2%}: expected more than 95 %")


def table(artifact: dscompile.Artifact, restart: float, result: dict[str, object], seconds: float) -> None:
    """Print what was measured."""
    from rich.console import Console
    from rich.table import Table

    epochs = result["epochs"]
    assert isinstance(epochs, list)
    rows = [
        ("build", f"{artifact.seconds:.2f} s" + ("" if artifact.built else " (cache hit)")),
        ("restart to first batch, net of imports", f"{restart * 1000:.1f} ms (cache hit)"),
        ("epoch, forward and backward included", f"{sorted(epochs)[len(epochs) // 2]:.1f} s"),
        ("whole training run", f"{seconds:.0f} s"),
        ("test accuracy", f"{result['accuracy']:.2%}"),
    ]
    shown = Table("what", "measured here")
    for row in rows:
        shown.add_row(*row)
    Console().print(shown)


if __name__ == "__main__":
    main()
