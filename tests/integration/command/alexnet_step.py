"""A base class for tests that run AlexNet's convolutions under `ucudnn run`, on the stand-in."""

import contextlib
import os

from command import FolderTest

ALEXNET_STEP = os.environ["UCUDNN_TEST_ALEXNET_STEP"]


class AlexnetTest(FolderTest):
    # Kernels are measured and compared at their first call, with enough time even on slow machines.
    MEASURED = {"UCUDNN_TUNE": "first", "UCUDNN_TUNE_SECONDS": "600:6000"}

    def run_measured(self, *words, **variables):
        """Runs a command with MEASURED in its environment. The command must succeed. Returns the completed process."""
        return self.ended(0, *words, process={"timeout": 1500}, **self.MEASURED | variables)

    def step(self, *arguments, options=(), **variables):
        """Runs alexnet_step, after deleting report.json. Returns the lines that it prints, and the text on stderr."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{self.folder}/report.json")
        result = self.run_measured("run", "--host", *options, "--", ALEXNET_STEP, *arguments, **variables)
        return result.stdout.splitlines(), result.stderr
