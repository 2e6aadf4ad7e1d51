"""The passes of a build over its rows: one, or two where the normalisation needs all of them first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from dscompile.artifact.fields import Normalisation
from dscompile.artifact.splits import Shard
from dscompile.compiler.engine import Engine
from dscompile.compiler.plan import Plan, make_plan
from dscompile.compiler.reading import Opener, Work, batched
from dscompile.compiler.recipe import Options, is_float
from dscompile.compiler.rows import Report, compile_rows, measure_rows
from dscompile.compiler.statistics import Statistics
from dscompile.errors import FieldError, OptionError
from dscompile.formats.plain import Plain
from dscompile.formats.protocol import Format, Regions
from dscompile.sources.protocol import SplitData

Reports = dict[str, list[Report]]


class Splits(Opener, Protocol):
    """Something with splits that opens them; the first one is for training."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of all splits."""
        ...


def compiled(
    engine: Engine,
    source: Splits,
    opened: Mapping[str, SplitData],
    options: Options,
    plan: Plan,
    folder: Path,
    container: Format,
) -> tuple[Plan, dict[str, Regions], Reports]:
    """Compile every row of a plan into shards in `folder`.

    With `--normalize dataset` and a float dtype the training split is read first: whole arrays are
    measured in place; single samples are decoded once into bytes beside the shards and converted then.

    Returns:
        The plan with all constants, where each shard's rows are, and the reports in row order.
    """
    training = source.splits[0]
    work = Work(source, options, plan, folder, {}, dict(opened))
    stored = {
        item.dtype
        for seen, item in zip(plan.seen, plan.fields, strict=True)
        if seen.is_picture and seen.dtype == "uint8"
    }
    if options.normalize != "dataset" or not stored:
        return plan, *_convert(engine, work, container)
    if training in plan.samples and not any(map(is_float, stored)):
        regions, reports = _convert(engine, work, container)
        return plan.with_normalisation(constants(reports[training], plan)), regions, reports
    if batched(work.data(next(iter(plan.samples))), options):
        plan = plan.with_normalisation(constants(_measured(engine, work, training), plan))
        return plan, *_convert(engine, replace(work, plan=plan), container)
    staged = _stage(engine, work, training)
    plan = plan.with_normalisation(constants(staged.reports[training], plan))
    work = replace(work, source=staged, options=staged.options, plan=plan, opened={})
    converted = _convert(engine, work, container)
    staged.remove()
    return plan, *converted


def constants(reports: list[Report], plan: Plan) -> Normalisation:
    """Return mean and deviation per channel of the picture field over all rows of the reports.

    Raises:
        OptionError: A channel is constant, or the sample has several pictures.
    """
    names = [item.name for item in plan.fields if item.is_picture]
    if len(names) != 1:
        raise OptionError(
            "option normalize",
            "one picture field to take statistics of",
            ", ".join(names),
            "Give the constants: --normalize MEANS/STDS, or none.",
        )
    total = Statistics()
    for report in reports:
        total.merge(report.statistics[names[0]])
    try:
        return total.normalisation(applied=True)
    except FieldError as error:
        raise OptionError(
            f"option normalize, field {names[0]!r}", error.expected, error.got, "Use --normalize none."
        ) from error


def statistics_of(plan: Plan, reports: list[Report]) -> dict[str, dict[str, Any]]:
    """Return field name -> statistics over all rows of the reports, as the manifest keeps them."""
    described = {}
    for item, seen in zip(plan.fields, plan.seen, strict=True):
        total = Statistics()
        for report in reports:
            total.merge(report.statistics[item.name])
        described[item.name] = total.describe(item, pixels=item.is_picture and seen.dtype == "uint8")
    return described


def _convert(engine: Engine, work: Work, container: Format) -> tuple[dict[str, Regions], Reports]:
    plan = work.plan
    regions = {
        shard.path: container.create(work.folder / shard.path, plan.fields, shard.samples)
        for shards in plan.shards.values()
        for shard in shards
    }
    return regions, engine.run(compile_rows, replace(work, regions=regions), plan.samples)


def _measured(engine: Engine, work: Work, training: str) -> list[Report]:
    if training not in work.plan.samples:
        data = {training: work.source.open(training)}
        plan = replace(make_plan(data, work.options, Plain()), fields=work.plan.fields)
        work = replace(work, plan=plan, opened=data)
    return engine.run(measure_rows, work, [training])[training]


@dataclass(frozen=True)
class _Staged:
    """Rows decoded to bytes (N, H, W, C), in one plain file per split, opened as arrays."""

    folder: Path
    plan: Plan
    options: Options
    regions: Mapping[str, Regions]
    reports: Reports

    def open(self, split: str) -> SplitData:
        """Return the split's rows as mapped arrays."""
        (planned,) = self.plan.shards[split]
        path = self.folder / planned.path
        size, where = path.stat().st_size, self.regions[planned.path]
        shard = Shard(planned.path, 0, planned.samples, size, "", where)
        arrays = Plain().map(path, shard, self.plan.fields)
        return SplitData(range(planned.samples), arrays)

    def remove(self) -> None:
        """Remove the files."""
        for path in self.regions:
            (self.folder / path).unlink()


def _stage(engine: Engine, work: Work, training: str) -> _Staged:
    """Decode all rows, and those of the training split, to bytes beside the shards."""
    options = replace(
        work.options, dtype="uint8", normalize="none", layout="HWC", shard_bytes=1 << 62, format="pt"
    )
    data = {name: work.data(name) for name in work.plan.samples}
    if training not in data:
        data[training] = work.source.open(training)
    plan = make_plan(data, options, Plain())
    regions, reports = _convert(engine, replace(work, options=options, plan=plan, opened=data), Plain())
    later = replace(work.options, resize=None, crop=None, transform=None)
    return _Staged(work.folder, plan, later, regions, reports)
