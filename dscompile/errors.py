"""Every error dscompile raises: place, expected, got, cure.

Each class derives from `DscompileError` and from the builtin that a caller would catch for the same
mistake elsewhere, so `except ValueError` and `except DscompileError` both work.
"""

from __future__ import annotations


class DscompileError(Exception):
    """Base of all errors.

    Args:
        place: What was looked at: a file, a split, a field, an option, a sample index.
        expected: What would have been right there.
        got: What was found.
        cure: What to do about it, as a sentence.
    """

    def __init__(self, place: str, expected: str, got: str, cure: str) -> None:
        self.place, self.expected, self.got, self.cure = place, expected, got, cure
        super().__init__(place, expected, got, cure)

    def __str__(self) -> str:
        return f"{self.place}: expected {self.expected}, got {self.got}. {self.cure}"

    def __reduce__(self) -> tuple[type[DscompileError], tuple[str, str, str, str]]:
        # OSError rewrites `args`, so pickling (worker -> parent) must not rely on it.
        return type(self), (self.place, self.expected, self.got, self.cure)


class OptionError(DscompileError, ValueError):
    """An option has a value outside its range, or two options contradict each other."""


class SourceError(DscompileError, ValueError):
    """A source cannot be read as asked."""


class UnknownSourceError(SourceError, LookupError):
    """No source, class or attribute has the given name."""


class UnknownSplitError(SourceError, LookupError):
    """The source or the artifact has no split of that name."""


class SourceNotFoundError(SourceError, FileNotFoundError):
    """A source's file is missing and cannot be downloaded."""


class SourceChecksumError(SourceError):
    """A source's file differs from its published checksum."""


class SampleError(DscompileError, ValueError):
    """One sample cannot be read, decoded or stored."""


class FieldError(DscompileError, TypeError):
    """A field has a type, dtype or shape that cannot be stored as declared."""


class NumberError(DscompileError, ValueError):
    """A value does not fit the stored dtype, or is not finite."""


class RandomTransformError(DscompileError, ValueError):
    """A random step would be frozen into the artifact."""


class OpaqueError(DscompileError, TypeError):
    """An object has no identity that could be recorded, so its result could not be trusted later."""


class StoreError(DscompileError, OSError):
    """The store cannot be used as a directory of artifacts."""


class SpaceError(StoreError):
    """The file system has too little free space for the build."""


class ArtifactNotFoundError(DscompileError, FileNotFoundError):
    """No artifact has the given path, name or id."""


class AmbiguousArtifactError(DscompileError, LookupError):
    """Several artifacts with different content match."""


class ArtifactError(DscompileError, ValueError):
    """An artifact is damaged, foreign or unsafe to read."""


class ManifestError(ArtifactError):
    """`manifest.json` is not a valid manifest."""


class VersionError(ManifestError):
    """The artifact needs a newer dscompile: its format version or a required feature is unknown."""


class UnsafePathError(ManifestError):
    """A path in the manifest leaves the artifact."""


class ForeignManifestError(ManifestError):
    """The manifest belongs to another artifact."""


class ShardError(ArtifactError):
    """A shard is missing, has another size, or its container does not match the manifest."""


class DigestError(ShardError):
    """Bytes differ from their recorded digest."""


class DeviceError(DscompileError, RuntimeError):
    """The device does not exist or cannot be used in this process."""


class ClosedError(DscompileError, ValueError):
    """The reader was closed."""


class BuildError(DscompileError, RuntimeError):
    """A build stopped for a reason other than its input: a worker died, a result is missing."""
