"""Helpers for tests that run AlexNet's convolutions under `ucudnn run`, on the stand-in."""

import contextlib
import os

from command import FolderTest

ALEXNET_STEP = os.environ["UCUDNN_TEST_ALEXNET_STEP"]


class AlexnetTest(FolderTest):
    # Everything is measured and compared at once, however slow the machine is.
    MEASURED = {"UCUDNN_TUNE": "first", "UCUDNN_TUNE_SECONDS": "600:6000"}

    def run_measured(self, *words, **variables):
        """Runs a command, which must succeed, and returns what became of it."""
        return self.ended(0, *words, process={"timeout": 1500}, **self.MEASURED | variables)

    def step(self, *arguments, options=(), **variables):
        """Returns what alexnet_step prints, line by line, and the errors. A report of an earlier step is gone."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{self.folder}/report.json")
        result = self.run_measured("run", "--host", *options, "--", ALEXNET_STEP, *arguments, **variables)
        return result.stdout.splitlines(), result.stderr
