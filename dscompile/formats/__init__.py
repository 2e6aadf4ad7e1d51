"""The containers a shard can have, behind one protocol."""

from __future__ import annotations

from importlib import import_module

from dscompile.errors import OptionError
from dscompile.formats.protocol import Format

# name -> module and class; adding a format is one file and one line here.
TABLE = {
    "pt": ("dscompile.formats.pt", "Pt"),
    "hdf5": ("dscompile.formats.hdf5", "Hdf5"),
    "lmdb": ("dscompile.formats.lmdb", "Lmdb"),
}
COMPRESSIONS = ("gzip", "lzf")


def format_of(name: str, compression: str | None = None) -> Format:
    """Return the format of that name; imports only what this one needs.

    Args:
        name: A key of `TABLE`.
        compression: A filter of h5py, for `hdf5` only: rows are then read through h5py, not mapped.

    Raises:
        OptionError: There is no such format, or it has no such compression.
    """
    if name not in TABLE:
        raise OptionError("option format", f"one of {', '.join(TABLE)}", repr(name), "Choose one of them.")
    if compression is not None:
        if name != "hdf5" or compression not in COMPRESSIONS:
            raise OptionError(
                "option compression",
                f"format hdf5 with {' or '.join(COMPRESSIONS)}",
                f"format {name} with {compression}",
                "Use --format hdf5, or no compression.",
            )
        from dscompile.formats.hdf5_chunked import ChunkedHdf5

        return ChunkedHdf5(compression)
    module, attribute = TABLE[name]
    made: Format = getattr(import_module(module), attribute)()
    return made
