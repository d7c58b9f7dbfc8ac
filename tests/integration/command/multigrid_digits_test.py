"""Tests `ucudnn multigrid --train` on digits of 8 x 8 pixels. A network trains for five epochs with solves that stop after two
cycles. It classifies as well as after five epochs of serial propagation. This is tested at three depths, each from three
seeds."""

import concurrent.futures
import os
import unittest

from command import CommandTest
from digits_net import digits_net

DIGITS = f"{os.path.realpath(os.path.dirname(__file__))}/../../unit/planner/digits"
SEEDS = (0, 1, 2)


class Digits(CommandTest):
    def epochs(self, net, seed, *words):
        return self.printed_json("multigrid", net, "--time", "1", "--coarsening", "4", "--rate", "0.05", "--train", DIGITS, "--threads", "1",
                                  "--seed", str(seed), "--json", *words, process={"timeout": 1200})["training"]["epochs"]

    def test_two_cycles_classify_as_well_as_serial_propagation(self):
        for layers in (32, 64, 256):
            with self.subTest(layers=layers):
                net = f"digits{layers}.json"
                self.write(net, digits_net(layers))
                with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                    early = pool.map(lambda seed: self.epochs(net, seed), SEEDS)
                    serial = pool.map(lambda seed: self.epochs(net, seed, "--levels", "1"), SEEDS)
                serial, early = list(serial), list(early)
                for run in early:
                    for epoch in run:
                        self.assertEqual((2 * epoch["solves"], 0, 0), (epoch["cycles"], epoch["serial_solves"], epoch["far_solves"]))
                mean = lambda runs: sum(run[-1]["top1"] for run in runs) / len(runs)
                self.assertEqual(5, len(serial[0]))
                self.assertGreater(mean(serial), 0.9)
                self.assertAlmostEqual(mean(serial), mean(early), delta=0.01)


if __name__ == "__main__":
    unittest.main()
