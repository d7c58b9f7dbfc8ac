"""Writes the files beside this one with NumPy (2.4.6) and safetensors (0.8.0). safetensors_test.cpp has their content, too:

    python3 make_arrays.py
"""

import os

import numpy as np
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(HERE, "..", "digits", "t10k-images-idx3-ubyte")


def path(name):
    return os.path.join(HERE, name)


def types():
    """Returns arrays of every type: one of shape [2, 3, 4] with the numbers from -3 on (from 0 on for unsigned types),
    and arrays with extreme values of some types."""
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
    return {"scalar": np.array(7.5), "one": np.array([2]), "empty": np.zeros((0, 3)), "large": whole.reshape(2, 3, 4, 5),
            "layer/kernel": whole[:3]}


def chain():
    k = np.arange(3 * 2 * 2 * 9).reshape(3, 2, 2, 3, 3)
    return {"K": k, "b": -np.arange(6).reshape(3, 2), "u0": np.arange(40).reshape(2, 4, 5), "loss": np.array(0.5)}


def scaled_digits():
    """Returns the first three test images in 28 x 28, by NumPy's linear interpolation along one axis and then the other."""
    with open(DIGITS, "rb") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 8, 8)[:3]
    places = (np.arange(28) + 0.5) * 8 / 28 - 0.5
    weights = np.stack([np.interp(places, np.arange(8), pixel) for pixel in np.eye(8)], axis=1)
    return np.stack([weights @ image @ weights.T for image in images / 16])


def main():
    save_file(types(), path("types.safetensors"))
    save_file(shapes(), path("shapes.safetensors"), metadata={"written by": "make_arrays.py"})
    save_file(chain(), path("chain.safetensors"))
    save_file({"digits": scaled_digits()}, path("scaled_digits.safetensors"))


main()
