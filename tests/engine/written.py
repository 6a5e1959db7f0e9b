"""What epochs have written, to compare what two lives of a pond left."""

import os


def state_bytes(path):
    """The bytes of a pond's state and result files, by name."""
    found = {}
    for folder in ("state", "results"):
        for name in sorted(os.listdir(path / folder)):
            if name.endswith(".parquet"):
                found[name] = (path / folder / name).read_bytes()
    return found
