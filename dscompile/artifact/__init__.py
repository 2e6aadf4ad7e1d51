"""The artifact: fields, manifest, digests and the store that holds it. Standard library only."""
