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


def format_of(name: str) -> Format:
    """Return the format of that name; imports only what this one needs.

    Raises:
        OptionError: There is no such format.
    """
    if name not in TABLE:
        raise OptionError("option format", f"one of {', '.join(TABLE)}", repr(name), "Choose one of them.")
    module, attribute = TABLE[name]
    made: Format = getattr(import_module(module), attribute)()
    return made
