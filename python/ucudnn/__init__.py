"""ucudnn as a Python package: the command and the libraries it preloads, as they lie in an install tree."""
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
COMMAND = FOLDER / "bin" / "ucudnn"
DROP_IN = FOLDER / "lib" / "ucudnn" / "libcudnn.so.9"  # what LD_PRELOAD names
