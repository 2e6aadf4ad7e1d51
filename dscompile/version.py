"""The version, in a file without imports so that setup and manifests can read it."""

__version__ = "0.1.0"
