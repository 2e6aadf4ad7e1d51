"""What a user calls: build, compile and open, each a few lines over the compiler or the runtime."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dscompile.artifact.manifest import Manifest

if TYPE_CHECKING:
    from dscompile.runtime.dataset import CompiledDataset

StrPath = str | os.PathLike[str]


class Artifact(NamedTuple):
    """An artifact on disk.

    Attributes:
        path: Its folder.
        manifest: What it holds.
        built: Whether this call built it; False on a hit.
        seconds: Wall time of the call.
    """

    path: Path
    manifest: Manifest
    built: bool = False
    seconds: float = 0.0

    def open(self, split: str | None = None) -> CompiledDataset:
        """Open one split: the only one, else `train`, unless one is named."""
        from dscompile.runtime.dataset import open_dataset

        return open_dataset(self.path, split)


def build(
    source: Any,
    *,
    root: StrPath | None = None,
    split: str | list[str] | tuple[str, ...] | None = None,
    format: str = "pt",
    compression: str | None = None,
    dtype: str | None = None,
    layout: str | None = None,
    normalize: Any = None,
    resize: int | None = None,
    crop: int | None = None,
    transform: Callable[[Any], Any] | str | None = None,
    name: str | None = None,
    version: str | None = None,
    store: StrPath | None = None,
    workers: int | None = None,
    shard_bytes: int = 1 << 30,
    limit: int | None = None,
    source_check: bool = True,
    allow_nonfinite: bool = False,
    force: bool = False,
    executor: Executor | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Artifact:
    """Build an artifact, or find it: the same recipe over the same files is built once.

    Args:
        source: A torchvision name (`cifar10`), `synthetic`, `package.module:attr`, `file.py:attr`, or a
            map-style dataset or dict of them.
        root: Folder with the source's files; by default the store's `downloads`.
        split: One split or several; all by default.
        format: Container of the shards: `pt`, `hdf5` or `lmdb`.
        compression: `gzip` or `lzf`, for `hdf5`: smaller, but no longer mapped.
        dtype: dtype of pictures: `float32`, `float16`, `bfloat16`, `uint8`. float32 by default for
            torchvision names and `synthetic`; a dataset of your own is compiled as it yields.
        layout: `CHW` (default) or `HWC`.
        normalize: `dataset` (statistics of the training split), `none`, `imagenet`, or (means, deviations)
            on [0, 1].
        resize: Length of the shorter side in pixels.
        crop: Side of the centre crop in pixels.
        transform: A deterministic callable for the picture, or `module:attr` of one.
        name: Name of the artifact.
        version: Your version of code that dscompile cannot see through.
        store: Directory of artifacts.
        workers: Number of workers; all cores by default.
        shard_bytes: Size at which a split is cut into several files.
        limit: Only the first so many samples of each split.
        source_check: Check published checksums of the source's files.
        allow_nonfinite: Accept NaN and infinity.
        force: Build anew even if the artifact is there.
        executor: Any `concurrent.futures.Executor` to run on.
        progress: Called with (split, rows done, rows in all).

    Raises:
        DscompileError: With place, expected, got and cure; nothing is left behind.
    """
    from dscompile.artifact.store import Store
    from dscompile.compiler.build import Request
    from dscompile.compiler.build import build as run
    from dscompile.compiler.recipe import Options
    from dscompile.sources import attribute

    options = Options(
        format=format,
        compression=compression,
        dtype=_dtype_name(dtype),
        layout=layout,
        normalize=normalize,
        resize=resize,
        crop=crop,
        splits=(split,) if isinstance(split, str) else None if split is None else tuple(split),
        limit=limit,
        shard_bytes=shard_bytes,
        allow_nonfinite=allow_nonfinite,
        version=version,
        transform=attribute(transform) if isinstance(transform, str) else transform,
    )
    request = Request(
        source=source,
        options=options,
        store=Store.at(store),
        root=None if root is None else Path(root),
        name=name,
        source_check=source_check,
        workers=workers,
        executor=executor,
        progress=progress,
        force=force,
    )
    found = run(request)
    assert found.manifest is not None
    return Artifact(found.path, found.manifest, found.built, found.seconds)


def _dtype_name(dtype: Any) -> Any:
    """Return `float16` for `torch.float16`; a name stays as it is."""
    return dtype if dtype is None or isinstance(dtype, str) else str(dtype).removeprefix("torch.")


def convert(
    artifact: StrPath,
    *,
    format: str = "pt",
    compression: str | None = None,
    dtype: str | None = None,
    name: str | None = None,
    store: StrPath | None = None,
    workers: int | None = None,
    shard_bytes: int = 1 << 30,
    progress: Callable[[str, int, int], None] | None = None,
) -> Artifact:
    """Write an artifact's rows anew in another container, shard size or dtype, without the source.

    With an unchanged dtype the new artifact has the same content digest. A float dtype rounds to nearest;
    bytes become what a float artifact of the same recipe holds. The parent stands in the new manifest.

    Args:
        artifact: A path, `NAME` or `NAME@ID-prefix`; it is verified first.
        format: As for `build`, like the other options.
        compression: As for `build`.
        dtype: dtype of pictures and float tensors; unchanged by default.
        name: Name of the new artifact; the parent's by default.
        store: Directory of artifacts: where the artifact is found, and where the new one goes.
        workers: Number of workers.
        shard_bytes: Size at which a split is cut into several files.
        progress: Called with (split, rows done, rows in all).

    Raises:
        DigestError: The parent is damaged.
        OptionError: Normalised floats cannot become bytes again.
    """
    from dscompile.artifact.store import Store
    from dscompile.compiler.convert import convert as run
    from dscompile.compiler.recipe import Options

    options = Options(
        format=format, compression=compression, dtype=_dtype_name(dtype), shard_bytes=shard_bytes
    )
    found = run(Store.at(store), artifact, options, name=name, workers=workers, progress=progress)
    assert found.manifest is not None
    return Artifact(found.path, found.manifest, found.built, found.seconds)


def compile(dataset: Any, *, split: str | None = None, **options: Any) -> CompiledDataset:
    """Build a dataset of your own if needed, and open it: the one line over an existing dataset.

    Args:
        dataset: A map-style dataset, or a dict of splits.
        split: The split to open; the only one, else `train`, by default.
        options: As for `build`.
    """
    return build(dataset, **options).open(split)


def open(artifact: StrPath, split: str | None = None, *, store: StrPath | None = None) -> CompiledDataset:
    """Open one split of an artifact given by path, `NAME` or `NAME@ID-prefix`."""
    from dscompile.runtime.dataset import open_dataset

    return open_dataset(artifact, split, store)
