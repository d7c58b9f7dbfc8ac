"""Compares what ucudnn's readers make of random ONNX and Caffe nets with what is right. The program graph_dump reads each
file; shapes, trained parameters, the place of every tensor's elements and what each part of a node's output needs are held
against the net's own books and against onnx.reference.

    check.py GRAPH_DUMP --format onnx|caffe [--count N] [--seed S] [--workers W] [--keep FOLDER]

Prints every kind of difference once, with its seed and the net as text, shrunk; exit code 1 where there is any."""

import argparse
import collections
import dataclasses
import os
import re
import sys
import tempfile
import warnings

import numpy

import onnx_format
from dump import Wrong, dumps
from onnx_format import REFUSED

BATCHES = (2, 4)
AT_ONCE = 100  # files of one call of graph_dump
SHRUNK = 12    # kinds of difference that are shrunk


@dataclasses.dataclass
class Tally:
    nets: int = 0
    read: int = 0
    refused: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    differences: dict = dataclasses.field(default_factory=dict)  # kind -> [how often, recipe, detail]
    listed: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    divisible: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, wrong, recipe):
        entry = self.differences.setdefault(wrong.kind, [0, recipe, str(wrong)])
        entry[0] += 1
