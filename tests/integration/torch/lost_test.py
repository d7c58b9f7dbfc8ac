"""Tests a rank that is killed while a model runs. The other ranks end without a result and with an error that names
the killed rank."""
import pathlib
import unittest

import gloo

LOST = pathlib.Path(__file__).resolve().parent / "lost.py"


def setUpModule():
    gloo.need("torch")


class Lost(unittest.TestCase):
    def test_others_end_when_a_rank_is_killed(self):
        for rank, (code, output) in enumerate(gloo.start(LOST, 4, "h4", patience=30)):
            if rank == 1:
                self.assertEqual(-9, code)
                self.assertIn("lost", output)
                continue
            self.assertEqual(3, code, f"rank {rank}:\n{output}")
            # The message may also name ranks that have ended since then, after their own error.
            self.assertRegex(output, fr"rank {rank} waited [0-9.]+ s for .* with ranks? .+: rank(s \[.*)? ?1.* ended \(UCUDNN")
            self.assertNotIn("a result", output)


if __name__ == "__main__":
    unittest.main()
