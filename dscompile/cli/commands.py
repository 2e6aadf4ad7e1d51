"""The commands. Each parses its options, calls the library and shows what came back."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from dscompile.cli import show
from dscompile.cli.types import CONSTANTS, SIZE
from dscompile.errors import DscompileError
from dscompile.version import __version__

if TYPE_CHECKING:
    from dscompile.artifact.store import Store

Command = TypeVar("Command", bound=Callable[..., Any])


class _Group(click.Group):
    """Turns an error of the library into one message on stderr and exit status 1.

    What the user's own code raises keeps its traceback: only that says where to look.
    """

    def invoke(self, ctx: click.Context) -> Any:
        signal.signal(signal.SIGTERM, _terminated)
        try:
            return super().invoke(ctx)
        except (DscompileError, OSError) as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(1)


def _terminated(number: int, frame: object) -> NoReturn:
    """Leave as on Ctrl-C, through every clean-up, with the status of a terminated process."""
    raise SystemExit(128 + number)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dscompile")
def cli() -> None:
    """Compile a dataset once; every later run starts at once."""


def _store_option(command: Command) -> Command:
    help_text = "Directory of artifacts [default: $DSCOMPILE_STORE, else the user's cache folder]."
    return click.option("--store", type=click.Path(path_type=Path), help=help_text)(command)


def _json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else.")(
        command
    )


@cli.command()
@click.argument("source")
@click.option("--split", "splits", multiple=True, help="Split to build; may be repeated [default: all].")
@click.option(
    "--format", "format_", type=click.Choice(["pt", "hdf5", "lmdb"]), default="pt", show_default=True
)
@click.option("--compression", type=click.Choice(["gzip", "lzf"]), help="For hdf5: smaller, not mapped.")
@click.option(
    "--dtype", type=click.Choice(["float32", "float16", "bfloat16", "uint8"]), help="Pictures' dtype."
)
@click.option("--layout", type=click.Choice(["CHW", "HWC"]), help="Pictures' layout [default: CHW].")
@click.option(
    "--normalize",
    type=CONSTANTS,
    help="dataset, none, imagenet, or means/deviations on [0, 1], as 0.49,0.48,0.45/0.25,0.24,0.26.",
)
@click.option("--resize", type=click.IntRange(1), help="Length of the shorter side in pixels.")
@click.option("--crop", type=click.IntRange(1), help="Side of the centre crop in pixels.")
@click.option("--transform", metavar="MODULE:ATTR", help="A deterministic callable for the picture.")
@click.option("--root", type=click.Path(path_type=Path), help="Folder of the source's files.")
@click.option("--name", help="Name of the artifact [default: the source's].")
@click.option("--version", "version_", help="Your version of code that dscompile cannot see through.")
@_store_option
@click.option("--workers", type=click.IntRange(1), help="Number of workers [default: all cores].")
@click.option("--shard-bytes", type=SIZE, default="1GiB", show_default=True, help="Size of a shard.")
@click.option("--limit", type=click.IntRange(1), help="Only the first so many samples of each split.")
@click.option("--no-source-check", is_flag=True, help="Accept files that differ from published checksums.")
@click.option("--allow-nonfinite", is_flag=True, help="Accept NaN and infinity in float fields.")
@click.option("--force", is_flag=True, help="Build even if the artifact is there.")
@click.option("--dry-run", is_flag=True, help="Say what would be built, and build nothing.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@_json_option
def build(
    source: str,
    splits: tuple[str, ...],
    format_: str,
    normalize: Any,
    transform: str | None,
    root: Path | None,
    name: str | None,
    version_: str | None,
    store: Path | None,
    workers: int | None,
    no_source_check: bool,
    force: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Build an artifact from SOURCE, or find the one that is there.

    SOURCE is a torchvision name (cifar10, mnist …), synthetic, package.module:attr or file.py:attr.
    """
    from dscompile.artifact.store import Store
    from dscompile.compiler.build import Request
    from dscompile.compiler.build import build as run
    from dscompile.compiler.recipe import Options
    from dscompile.sources import attribute

    # What the user's own code prints must not stand in the JSON.
    printed = redirect_stdout(sys.stderr) if as_json else nullcontext()
    with printed, show.progress(quiet or as_json) as progress:
        options = Options(
            format=format_,
            normalize=normalize,
            splits=splits or None,
            version=version_,
            transform=None if transform is None else attribute(transform),
            **rest,
        )
        found = run(
            Request(
                source=source,
                options=options,
                store=Store.at(store),
                root=root,
                name=name,
                source_check=not no_source_check,
                workers=workers,
                progress=progress,
                force=force,
                dry_run=dry_run,
            )
        )
    if as_json:
        click.echo(json.dumps(show.build_data(found)))
    else:
        show.report(found)


@cli.command("list")
@_store_option
@_json_option
def list_(store: Path | None, as_json: bool) -> None:
    """List the artifacts of the store."""
    chosen = _store(store)
    rows = [show.entry_data(entry) for entry in chosen.entries()]
    if as_json:
        click.echo(json.dumps({"artifacts": rows}))
    else:
        show.entries(rows, chosen.root)


@cli.command()
@click.argument("artifact")
@_store_option
@_json_option
def info(artifact: str, store: Path | None, as_json: bool) -> None:
    """Show what ARTIFACT (a path, NAME or NAME@ID) holds; with --json, its manifest."""
    path, manifest = _store(store).find(artifact)
    if as_json:
        click.echo(json.dumps(manifest.to_dict()))
    else:
        show.manifest(path, manifest)


@cli.command()
@click.argument("artifact")
@click.option("--quick", is_flag=True, help="Check sizes, headers and the manifest only.")
@_store_option
@_json_option
def verify(artifact: str, quick: bool, store: Path | None, as_json: bool) -> None:
    """Read ARTIFACT again and compare every byte with its recorded digests."""
    from dscompile.formats.verify import verify as run

    path, manifest = _store(store).find(artifact)
    with show.progress(as_json, "verify") as progress:
        problems = run(path, manifest, quick=quick, progress=progress)
    if as_json:
        click.echo(json.dumps({"ok": not problems, "problems": [problem.to_dict() for problem in problems]}))
    else:
        show.problems(path, problems)
    if problems:
        raise click.exceptions.Exit(1)


@cli.command()
@click.argument("artifact")
@click.option("--format", type=click.Choice(["pt", "hdf5", "lmdb"]), default="pt", show_default=True)
@click.option("--compression", type=click.Choice(["gzip", "lzf"]), help="For hdf5: smaller, not mapped.")
@click.option("--dtype", type=click.Choice(["float32", "float16", "bfloat16"]), help="[default: unchanged]")
@click.option("--shard-bytes", type=SIZE, default="1GiB", show_default=True, help="Size of a shard.")
@click.option("--name", help="Name of the new artifact [default: the parent's].")
@click.option("--workers", type=click.IntRange(1), help="Number of workers [default: all cores].")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@_store_option
@_json_option
def convert(
    artifact: str,
    name: str | None,
    workers: int | None,
    quiet: bool,
    store: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write ARTIFACT anew in another container, shard size or dtype, without its source."""
    from dscompile.compiler.convert import convert as run
    from dscompile.compiler.recipe import Options

    with show.progress(quiet or as_json, "convert") as progress:
        found = run(
            _store(store), artifact, Options(**options), name=name, workers=workers, progress=progress
        )
    if as_json:
        click.echo(json.dumps(show.build_data(found)))
    else:
        show.report(found)


@cli.command()
@click.argument("artifact")
@_store_option
@_json_option
def rm(artifact: str, store: Path | None, as_json: bool) -> None:
    """Remove ARTIFACT from the store."""
    chosen = _store(store)
    path = chosen.locate(artifact)
    chosen.remove(path)
    click.echo(json.dumps({"removed": str(path)}) if as_json else f"removed {path}")


def _store(root: Path | None) -> Store:
    from dscompile.artifact.store import Store

    return Store.at(root)
