"""Runs test files of this folder as stages, each in a process of its own."""

import json
import os
import pathlib
import re
import sys
import tempfile

import figures
import machine


def test(sitting, seconds, name, cases=()):
    """Runs the test file NAME_test.py, or only its test classes `cases`. The file gets `seconds` in UCUDNN_TEST_SECONDS, and
    is killed after this time. Returns the figures that the file recorded."""
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder, "results.json")
        words = [sys.executable, "-B", machine.FOLDER / f"{name}_test.py", *cases]
        environment = dict(os.environ, UCUDNN_TEST_RESULTS=str(results), UCUDNN_TEST_SECONDS=str(seconds))
        code, output, errors = machine.call(words, environment, seconds)
        told = json.loads(results.read_text()) if results.exists() else {}
    if code == machine.SKIPPED:
        raise figures.Skipped(next(iter(told.get("skipped", {}).values()), output.strip()))
    if code != 0:
        name_of = lambda case: re.sub(r" \(__main__\.[^)]*\)", "", case)  # unittest names the class twice
        text = "; ".join(f"{name_of(case)}: {reason.strip().splitlines()[-1]}" for case, reason in told.get("failed", {}).items())
        raise machine.Failed(f"{text}\n{errors}" if text else errors[-4000:], told)
    return told


def references(sitting, seconds, name, cases=()):
    """Makes the runs without ucudnn with which the test file NAME_test.py compares. Keeps their results for the stage that
    runs the test."""
    words = [sys.executable, "-B", machine.FOLDER / f"{name}_test.py", "--references", *cases]
    machine.run(words, dict(os.environ, UCUDNN_TEST_SECONDS=str(seconds)), seconds)
    return {}
