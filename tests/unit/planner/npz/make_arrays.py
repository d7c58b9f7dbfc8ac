"""Writes the files beside this one with NumPy (2.4.6). npz_test.cpp knows what is in them:

    python3 make_arrays.py
"""

import io
import os
import zipfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(HERE, "..", "digits", "t10k-images-idx3-ubyte")


def path(name):
    return os.path.join(HERE, name)


def types():
    """-3, -2, ... as far as the type goes, in the shape [2, 3, 4]; and values at the ends of types."""
    arrays = {kind: (np.arange(24) - (0 if kind[0] == "u" else 3)).astype(kind).reshape(2, 3, 4)
              for kind in ("f8", "f4", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")}
    arrays["half"] = np.array([0, 2.0**-24, 1023 * 2.0**-24, 2.0**-14, 1 / 3, 1, 65504, np.inf, np.nan], "f2")
    arrays["minus_half"] = -arrays["half"]
    arrays["single"] = np.array([np.pi, 2.0**-149, np.inf, -np.inf, np.nan], "f4")
    arrays["double"] = np.array([np.pi, 5e-324, 1.7976931348623157e308, np.inf, np.nan])
    arrays["signed"] = np.array([-2**63, -2**53, 2**63 - 1], "i8")
    arrays["unsigned"] = np.array([2**53, 2**53 + 1, 2**64 - 1], "u8")
    return arrays


def shapes():
    whole = np.arange(120.0)
    return {"scalar": np.array(7.5), "one": np.array([2]), "empty": np.zeros((0, 3)),
            "c": whole.reshape(2, 3, 4, 5), "fortran": np.asfortranarray(whole.reshape(2, 3, 4, 5)),
            "fortran_matrix": np.asfortranarray(whole.reshape(8, 15)), "layer/kernel": whole[:3]}


class Pipe(io.RawIOBase):
    """What a zip file's sizes cannot be written back into: they follow the data."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


def chain():
    k = np.arange(3 * 2 * 2 * 9).reshape(3, 2, 2, 3, 3)
    return {"K": k, "b": -np.arange(6).reshape(3, 2), "u0": np.arange(40).reshape(2, 4, 5), "loss": np.array(0.5)}


def scaled_digits():
    """The first three test images in 28 x 28, by NumPy's own linear interpolation along one axis and then the other."""
    with open(DIGITS, "rb") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 8, 8)[:3]
    places = (np.arange(28) + 0.5) * 8 / 28 - 0.5
    weights = np.stack([np.interp(places, np.arange(8), pixel) for pixel in np.eye(8)], axis=1)
    return np.stack([weights @ image @ weights.T for image in images / 16])


def main():
    np.savez(path("types.npz"), **types())
    np.savez_compressed(path("types_compressed.npz"), **types())
    np.savez(path("shapes.npz"), **shapes())
    with open(path("piped.npz"), "wb") as file:
        np.savez_compressed(Pipe(file), **shapes())
    with zipfile.ZipFile(path("versions.npz"), "w") as file:
        for version in (1, 2, 3):
            with file.open(f"v{version}.npy", "w") as member:
                np.lib.format.write_array(member, np.arange(6.0).reshape(2, 3), version=(version, 0))
    limits = zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT
    zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT = 16, 1  # as if the file were large
    np.savez(path("zip64.npz"), **shapes())
    zipfile.ZIP64_LIMIT, zipfile.ZIP_FILECOUNT_LIMIT = limits
    np.savez(path("chain.npz"), **chain())
    np.savez(path("scaled_digits.npz"), digits=scaled_digits())


main()
