"""The runtime: maps an artifact and yields batches. Needs torch and numpy, nothing of the compiler."""
