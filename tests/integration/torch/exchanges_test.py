"""Compares exchanges inside cuDNN calls with exchanges of the Python module. One network runs as a cuDNN program under
`ucudnn run --ranks` on the stand-in, and as a converted model on gloo with the geometry of UCUDNN_TEST_LIBRARY. Both
must give the same rows and gradients on every rank."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import gloo

COMMAND, PROGRAM = os.environ["UCUDNN_TEST_COMMAND"], os.environ["UCUDNN_TEST_STRIPED_LAYERS"]
SCRIPT = pathlib.Path(__file__).resolve().parent / "exchanges.py"


def setUpModule():
    gloo.need("torch")


class Exchanges(unittest.TestCase):
    def test_both_give_equal_rows(self):
        sys.path.insert(0, str(gloo.ROOT / "python"))
        import exchanges
        with tempfile.TemporaryDirectory() as folder:
            exchanges.write(pathlib.Path(folder))
            variables = {k: v for k, v in os.environ.items() if not k.startswith(("UCUDNN_", "HOSTGPU_"))}
            variables |= {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1", "UCUDNN_DATABASE": "none"}
            result = subprocess.run([COMMAND, "run", "--host", "--ranks", str(exchanges.RANKS), "--spatial", "h4", "--", PROGRAM,
                                     folder], env=variables, capture_output=True, text=True, timeout=240)
            self.assertEqual(0, result.returncode, result.stderr)
            for rank, (code, output) in enumerate(gloo.start(SCRIPT, exchanges.RANKS, "h4", folder)):
                self.assertEqual(0, code, f"rank {rank}:\n{output}")
                self.assertRegex(output, r"by Library: \d{3,} numbers, output rows ")


if __name__ == "__main__":
    unittest.main()
