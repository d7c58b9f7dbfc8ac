"""Runs every type, layout and operation on integers. Ranks are processes over NCCL, processes over shared memory, or
threads over peer copies. All ranks together must print the checksums that one process with the whole images prints."""

import os
import unittest

import program

CASES = os.environ["UCUDNN_TEST_GPU_SPLIT_CASES"]
SHAPES = "1"
FEWEST = 3 * 7  # a rank has 3 operations of 4 types in 2 layouts; the stand-in may lack a type in a layout


def run(rows, *options, **variables):
    result = program.run([CASES, rows, "1", "4", SHAPES], options, program.of_ranks(UCUDNN_TUNE="off", **variables), timeout=120)
    assert result.returncode == 0, result.stderr
    return dict(line.split(" ", 1) for line in result.stdout.splitlines())


class SplitCases(unittest.TestCase):
    def assert_like_the_whole(self, ranks, whole, split):
        self.assertEqual(whole.keys(), split.keys())
        ran = {name for name, told in whole.items() if told.endswith(" 0.0000")}
        self.assertGreaterEqual(len(ran), FEWEST * ranks)
        self.assertEqual({name: whole[name] for name in ran}, {name: split[name] for name in ran})

    def test_ranks_together_are_the_whole(self):
        for ranks in (2, 3):
            whole = run(ranks)
            for transport in ("nccl", "loopback"):
                with self.subTest(ranks=ranks, transport=transport):
                    self.assert_like_the_whole(ranks, whole, run(ranks, "--ranks", str(ranks), "--spatial", f"h{ranks}",
                                                                 UCUDNN_SPATIAL_TRANSPORT=transport))
            with self.subTest(ranks=ranks, transport="peer"):
                self.assert_like_the_whole(ranks, whole, run(ranks, "--devices", str(ranks), "--spatial", f"h{ranks}",
                                                             UCUDNN_SPATIAL_TRANSPORT="peer", ON_THREADS="1"))


if __name__ == "__main__":
    unittest.main()
