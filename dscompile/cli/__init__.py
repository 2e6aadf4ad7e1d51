"""The command line: the only room that knows click, prints and exits."""

from __future__ import annotations


def main() -> None:
    """Run the `dscompile` command."""
    from dscompile.cli.commands import cli

    cli.main(prog_name="dscompile")
