"""`python -m dscompile`."""

from dscompile.cli import main

if __name__ == "__main__":
    main()
