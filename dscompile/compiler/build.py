"""A build from end to end: source -> recipe -> hit, or plan -> engine -> verify -> publish."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dscompile.artifact.digests import FileDigests, check_unchanged, stats_of
from dscompile.artifact.files import check_shards
from dscompile.artifact.manifest import FILE_NAME, Manifest
from dscompile.artifact.store import Store
from dscompile.compiler.draft import Facts, write_artifact
from dscompile.compiler.engine import Engine, Progress
from dscompile.compiler.identity import identify
from dscompile.compiler.plan import check_space, make_plan
from dscompile.compiler.randomness import refuse_hidden, refuse_random
from dscompile.compiler.recipe import Options, Recipe, at_least_one
from dscompile.errors import ForeignManifestError, UnknownSplitError
from dscompile.formats import format_of
from dscompile.formats.verify import verify
from dscompile.sources import resolve
from dscompile.sources.protocol import Source


@dataclass(frozen=True)
class Built:
    """What a build gives.

    Attributes:
        path: The artifact's folder (where it would be, for a dry run).
        manifest: Its manifest; None for a dry run.
        built: False if the artifact was there already.
        seconds: Wall time of the call.
        plan: What a dry run would write.
    """

    path: Path
    manifest: Manifest | None
    built: bool
    seconds: float
    plan: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A build as asked for: where from, where to, and how; everything the recipe does not decide.

    Attributes:
        source: What the user named.
        options: What determines the bytes.
        root: Folder with the source's files; None for the store's downloads.
        name: Name of the artifact; None for the source's own.
        store: Where the artifact goes.
        source_check: Check published checksums.
        workers: Number of workers; None for all cores.
        executor: A foreign executor.
        progress: Called with (split, rows done, rows in all).
        force: Build even if the artifact is there.
        dry_run: Only plan.
    """

    source: Any
    options: Options
    store: Store
    root: Path | None = None
    name: str | None = None
    source_check: bool = True
    workers: int | None = None
    executor: Executor | None = None
    progress: Progress | None = None
    force: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        at_least_one("workers", self.workers)


def build(request: Request) -> Built:
    """Return the artifact of a request, building it unless it is there.

    Raises:
        DscompileError: See the class for what was wrong; nothing is left behind.
    """
    started = time.perf_counter()
    source = resolve(request.source, root=request.root or request.store.downloads, check=request.source_check)
    options = _settled(request.options, source)
    needed = splits_needed(source, options)
    source.prepare(needed)
    files = source.files(needed)
    before = stats_of(files)
    digests = FileDigests(request.store.root / ".digests")
    listed = digests.of(files)
    recipe = _recipe(request, source, options, listed)
    target = request.store.target(request.name or source.name, recipe.id)
    if (target / FILE_NAME).exists() and not request.force and not request.dry_run:
        manifest = found_there(target, recipe)
        digests.remember()
        return Built(target, manifest, False, time.perf_counter() - started)
    opened = {split: source.open(split) for split in options.splits or ()}
    if not source.declared or options.transform is not None:
        for split, data in opened.items():
            refuse_hidden(data, options.transform, f"split {split!r}")
    plan = make_plan(opened, options, format_of(options.format, options.compression))
    if request.dry_run:
        return Built(target, None, False, time.perf_counter() - started, plan.to_dict())
    check_space(request.store.root, plan)
    facts = Facts(target.parent.name, recipe, tuple(listed), source.notes())
    engine = Engine(request.workers, request.executor, request.progress)
    with request.store.staging(target) as folder:
        manifest = write_artifact(folder, source, opened, plan, options, facts, engine)
        check_unchanged(files, before)
        replaces = request.force and _differs(target, manifest)
        built = request.store.publish(folder, target, replace=replaces)
    digests.remember()
    manifest = manifest if built else found_there(target, recipe)
    return Built(target, manifest, built or request.force, time.perf_counter() - started)


def found_there(target: Path, recipe: Recipe) -> Manifest:
    """Return the manifest of the artifact that is there, refusing one of another recipe or a damaged one."""
    manifest = Manifest.read(target)
    if manifest.recipe_id != recipe.id:
        raise ForeignManifestError(
            f"{target / FILE_NAME}, recipe_id",
            recipe.id,
            manifest.recipe_id,
            "Build it again with --force, or move the artifact to its own folder.",
        )
    check_shards(target, manifest)
    return manifest


def _settled(options: Options, source: Source) -> Options:
    """Settle defaults and splits, refusing splits that the source does not have."""
    chosen = options.splits or source.splits
    for split in chosen:
        if split not in source.splits:
            raise UnknownSplitError(
                f"source {source.name!r}",
                f"a split of {', '.join(source.splits)}",
                repr(split),
                "Name one of them with --split, or none for all.",
            )
    ordered = tuple(split for split in source.splits if split in chosen)
    return replace(options.with_defaults(declared=source.declared), splits=ordered)


def splits_needed(source: Source, options: Options) -> tuple[str, ...]:
    """Return the splits whose files are read: those to build, and the training split for its statistics."""
    chosen = options.splits or ()
    if options.normalize != "dataset" or source.splits[0] in chosen:
        return chosen
    return (source.splits[0], *chosen)


def _recipe(request: Request, source: Source, options: Options, listed: list[dict[str, Any]]) -> Recipe:
    identity = {**source.identity(), "source_check": request.source_check} if listed else source.identity()
    datasets = getattr(source, "datasets", None)
    if datasets is not None:
        needed = splits_needed(source, options)
        for split in needed:
            refuse_random(datasets[split], f"source {source.name!r}, split {split!r}")
        identity["objects"] = {
            split: identify(datasets[split], f"source {source.name!r}", version=options.version)
            for split in needed
        }
    transform = None
    if options.transform is not None:
        refuse_random(options.transform, "option transform")
        transform = identify(options.transform, "option transform", version=options.version)
    return Recipe.of(identity, listed, options.splits or (), options, transform)


def _differs(target: Path, manifest: Manifest) -> bool:
    """Whether a forced build replaces the artifact that is there: it is damaged, or has other bytes."""
    try:
        there = Manifest.read(target)
        if verify(target, there):
            return True
    except (ValueError, OSError):
        return True
    return {name: split.shards for name, split in there.splits.items()} != {
        name: split.shards for name, split in manifest.splits.items()
    }
