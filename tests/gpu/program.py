"""What the programs of this folder have in common: smaller sizes on a CPU, how they report a failed case, and which cuDNN they
had."""

import pathlib
import sys

ON_CPU = sys.argv[-2:] == ["--device", "cpu"]
SHARE = 8 if ON_CPU else 1  # divides channels and images


def told(error):
    """Returns an error in one line: the first, with the next if the first only announces it."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {' '.join(lines[:2] if lines and lines[0].endswith(':') else lines[:1])}"


def outcome(work, *arguments):
    """Returns what `work` returns, or its error: a case that a device or a framework lacks must not lose the others."""
    try:
        return work(*arguments)
    except Exception as error:  # frameworks' own errors have no common base
        return f"failed: {told(error)}"


def cudnn_files():
    """Returns the names of cuDNN's libraries in this process."""
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.rsplit("/", 1)[1] for line in maps if "/libcudnn" in line})
