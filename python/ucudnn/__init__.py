"""The Python package ucudnn: the command and the libraries that it preloads, in the layout of an install tree, and
ucudnn.parallel and ucudnn.spatial for PyTorch models."""
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
COMMAND = FOLDER / "bin" / "ucudnn"
DROP_IN = FOLDER / "lib" / "ucudnn" / "libcudnn.so.9"  # LD_PRELOAD names this file
