"""Tests Krizhevsky's schemes. With passes of the fully connected part, training equals synchronous SGD. If this part
makes a step after each pass, training equals SGD in which this part has smaller batches."""
import pathlib
import unittest

import gloo

gloo.need("torch")


class Passes(gloo.RanksTest):
    script = str(pathlib.Path(__file__).with_name("parallel_passes.py"))

    def test_Schemes_AreSynchronous(self):
        self.on(2, "", "synchronous")
        self.on(4, "", "counted", "half_precision")

    def test_Scalers_ScaleEachPass(self):
        self.on(3, "", "scaled")

    def test_Normalizations_AreThoseOfEachImage(self):
        self.on(3, "", "normalized")

    def test_UpdatesAfterEachPass_AreThoseOfAPlainLoop(self):
        self.on(3, "", "each_pass")


if __name__ == "__main__":
    unittest.main()
