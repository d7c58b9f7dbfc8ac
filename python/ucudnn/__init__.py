"""The Python package ucudnn. It has the command, and the libraries that the command preloads, in the layout of an
install tree. It also has ucudnn.parallel and ucudnn.spatial for PyTorch models."""
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
COMMAND = FOLDER / "bin" / "ucudnn"
DROP_IN = FOLDER / "lib" / "ucudnn" / "libcudnn.so.9"  # LD_PRELOAD names this file
