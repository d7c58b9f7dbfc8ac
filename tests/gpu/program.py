"""Functions that the Python programs of this folder share: smaller sizes on a CPU, reports of failed cases, and the names of
cuDNN's loaded libraries."""

import pathlib
import sys

ON_CPU = sys.argv[-2:] == ["--device", "cpu"]
SHARE = 8 if ON_CPU else 1  # programs divide numbers of channels and images by this


def told(error):
    """Returns an error in one line: the first line of its text, and the second if the first ends with a colon."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {' '.join(lines[:2] if lines and lines[0].endswith(':') else lines[:1])}"


def outcome(work, *arguments):
    """Returns work(*arguments), or "failed: " and its error, so that a case that is not supported does not end the program."""
    try:
        return work(*arguments)
    except Exception as error:  # the frameworks' errors have no common base
        return f"failed: {told(error)}"


def cudnn_files():
    """Returns the file names of cuDNN's libraries that this process has loaded."""
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return sorted({line.rsplit("/", 1)[1] for line in maps if "/libcudnn" in line})
