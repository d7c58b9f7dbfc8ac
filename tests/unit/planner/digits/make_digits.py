"""Writes the four files beside this one from scikit-learn's copy of the digits, digits.csv.gz: 64 pixels from 0 to 16 and
the label, one image a line. Nothing but the standard library is needed:

    pip download --no-deps scikit-learn==1.9.1
    unzip scikit_learn-1.9.1-*.whl sklearn/datasets/data/digits.csv.gz
    python3 make_digits.py sklearn/datasets/data/digits.csv.gz
"""

import csv
import gzip
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = COLUMNS = 8


def split(images):
    """Makes every fifth image of a label a test image, in the order of the file."""
    seen, parts = [0] * 10, {"train": [], "t10k": []}
    for image in images:
        label = image[-1]
        seen[label] += 1
        parts["t10k" if seen[label] % 5 == 0 else "train"].append(image)
    return parts


def write(name, magic, extents, values):
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(struct.pack(f">{1 + len(extents)}I", magic, *extents))
        file.write(bytes(values))


def main(path):
    with gzip.open(path, "rt") as file:
        images = [[int(float(value)) for value in line] for line in csv.reader(file)]
    for part, chosen in split(images).items():
        write(f"{part}-images-idx3-ubyte", 0x803, (len(chosen), ROWS, COLUMNS), [p for i in chosen for p in i[:-1]])
        write(f"{part}-labels-idx1-ubyte", 0x801, (len(chosen),), [image[-1] for image in chosen])


if __name__ == "__main__":
    main(sys.argv[1])
