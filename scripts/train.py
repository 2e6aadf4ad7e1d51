"""Train a small residual network from a compiled cache; a script to start your own from.

python scripts/train.py --dataset synthetic --epochs 3
python scripts/train.py --dataset cifar10 --device cuda --dtype float16 --epochs 20
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional

import dscompile
from dscompile import augment


@dataclass
class Result:
    """What a run measured: seconds to the first batch, seconds of each epoch, test accuracy in [0, 1]."""

    first_batch: float
    epochs: list[float]
    accuracy: float


class Residual(nn.Module):
    """x + block(x)."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (N, C, H, W) of the same shape."""
        out: torch.Tensor = self.block(x)
        return x + out


def convolution(inputs: int, outputs: int, *, pool: bool = False) -> nn.Sequential:
    """Return convolution, batch normalisation and ReLU, with a pooling that halves the picture if asked."""
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, *([nn.MaxPool2d(2)] if pool else []))


def resnet9(channels: int, classes: int, width: int) -> nn.Sequential:
    """Return a ResNet-9-like network for pictures (N, channels, H, W); `width` 64 is the usual size."""
    return nn.Sequential(
        convolution(channels, width),
        convolution(width, 2 * width, pool=True),
        Residual(nn.Sequential(convolution(2 * width, 2 * width), convolution(2 * width, 2 * width))),
        convolution(2 * width, 4 * width, pool=True),
        convolution(4 * width, 4 * width, pool=True),
        Residual(nn.Sequential(convolution(4 * width, 4 * width), convolution(4 * width, 4 * width))),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, classes),
    )


@torch.no_grad()
def accuracy(model: nn.Module, loader: dscompile.Loader) -> float:
    """Return the share of right answers over one pass of the loader."""
    model.eval()
    right = total = 0
    for images, labels in loader:
        right += int((model(images.float()).argmax(1) == labels).sum())
        total += len(labels)
    return right / total


def loaders(args: argparse.Namespace) -> tuple[dscompile.Loader, dscompile.Loader]:
    """Build the artifact if it is not there, and return the loaders of its training and test split."""
    artifact = dscompile.build(
        args.dataset,
        root=args.root,
        store=args.store,
        dtype=args.dtype,
        source_check=not args.no_source_check,
    )
    splits = list(artifact.manifest.splits)
    train = artifact.open("train")
    size = train.fields[0].shape[-1]
    return (
        train.loader(
            args.batch_size,
            shuffle=True,
            seed=args.seed,
            device=args.device,
            dtype=args.compute_dtype,
            augment=[augment.RandomCrop(size, padding=size // 8), augment.RandomHorizontalFlip()]
            if args.augment
            else [],
        ),
        artifact.open("test" if "test" in splits else splits[-1]).loader(
            1000, device=args.device, dtype=args.compute_dtype
        ),
    )


def train(args: argparse.Namespace) -> Result:
    """Train and return what was measured; prints a line per epoch unless `args.json`."""
    started = time.perf_counter()
    torch.manual_seed(args.seed)
    train_loader, test_loader = loaders(args)
    batches: Iterator[tuple[torch.Tensor, torch.Tensor]] = iter(train_loader)
    images, labels = next(batches)
    result = Result(time.perf_counter() - started, [], 0.0)
    classes = train_loader.dataset.classes or sorted(set(train_loader.dataset.targets))
    model = resnet9(images.shape[1], len(classes), args.width).to(args.device)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    steps = args.epochs * len(train_loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps + 1)
    mixed = torch.device(args.device).type == "cuda"
    scaler = torch.amp.GradScaler(enabled=mixed)
    for epoch in range(args.epochs):
        begin = time.perf_counter()
        model.train()
        for step in range(len(train_loader)):
            if epoch or step:
                images, labels = next(batches)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", enabled=mixed):
                loss = functional.cross_entropy(model(images if mixed else images.float()), labels)
            torch.autograd.backward(scaler.scale(loss))
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
        batches = iter(train_loader)
        result.epochs.append(time.perf_counter() - begin)
        if not args.json:
            print(f"epoch {epoch}: {result.epochs[-1]:.1f} s, loss {loss.item():.3f}", flush=True)
    result.accuracy = accuracy(model, test_loader)
    return result


def parser() -> argparse.ArgumentParser:
    """Return the options; each has a default that suits CIFAR-sized pictures."""
    options = argparse.ArgumentParser(description="Train a small network from a compiled cache.")
    options.add_argument("--dataset", default="synthetic", help="what `dscompile build` takes")
    options.add_argument("--root", help="folder of the source's files")
    options.add_argument("--store", help="directory of artifacts")
    options.add_argument("--no-source-check", action="store_true", help="accept files without checksums")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16", "uint8"])
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--batch-size", type=int, default=128)
    options.add_argument("--lr", type=float, default=0.1)
    options.add_argument("--width", type=int, default=16, help="64 for CIFAR-10 on a GPU")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--no-augment", dest="augment", action="store_false")
    options.add_argument("--json", action="store_true", help="print the result as one JSON object, last")
    return options


def main() -> None:
    """Train and print accuracy and time per epoch."""
    args = parser().parse_args()
    args.compute_dtype = "float16" if torch.device(args.device).type == "cuda" else "float32"
    result = train(args)
    if args.json:
        print(json.dumps(asdict(result)))
        return
    epochs = ", ".join(f"{seconds:.1f}" for seconds in result.epochs)
    print(f"first batch after {result.first_batch * 1000:.0f} ms; epochs {epochs} s")
    print(f"test accuracy {result.accuracy:.2%}")


if __name__ == "__main__":
    main()
