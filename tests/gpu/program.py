"""What the programs of this folder have in common: how they tell of a case that failed, and which cuDNN they had."""

import pathlib


def told(error):
    """In one line: the first, and the next where that only announces it."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {' '.join(lines[:2] if lines and lines[0].endswith(':') else lines[:1])}"


def outcome(work, *arguments):
    """What `work` returns, or its error: a case that a device or a framework lacks must not lose the others."""
    try:
        return work(*arguments)
    except Exception as error:  # frameworks' own have no common base
        return f"failed: {told(error)}"


def cudnn_files():
    """Names of cuDNN's libraries in this process."""
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.rsplit("/", 1)[1] for line in maps if "/libcudnn" in line})
