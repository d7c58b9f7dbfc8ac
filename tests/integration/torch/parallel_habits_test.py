"""Everything that programs do with a divided model gives what it gives on one device, or is refused by name, on every rank."""
import pathlib
import unittest

import gloo

gloo.need("torch")


class Habits(gloo.RanksTest):
    script = str(pathlib.Path(__file__).with_name("parallel_habits.py"))

    def test_Backward_OfSeveralPasses_AddsUp(self):
        self.on(3, "", "two_forwards", "second_backward", "double_backward", "accumulation", "checkpointed", "overwriting")

    def test_FrozenLayers_MoveNothing(self):
        self.on(4, "", "frozen")

    def test_NormsAndScalers_AreThoseOfTheWholeModel(self):
        self.on(3, "", "clipping", "scaler", "autocast")

    def test_EvaluationAndAverages_AreThoseOfOneDevice(self):
        self.on(3, "", "evaluation", "averaged", "unlike_weights")

    def test_Norms_AreThoseOfOneDevice(self):
        self.on(3, "", "norms", "local_batch_norm")

    def test_Losses_AreThoseOfOneDevice(self):
        self.on(3, "", "losses")

    def test_Loaders_ReadWhatTheirRankNeeds(self):
        self.on(3, "", "loader")

    def test_Dropout_IsTheSameInEveryPartition(self):
        self.on(4, "", "dropout")

    def test_Replicas_HaveTheSameBits(self):
        self.on(4, "", "replicas", "overlap_off")

    def test_States_GoIntoOtherPlansAndOneProcess(self):
        self.on(3, "", "states")

    def test_WhatDoesNotFit_IsRefusedOnAllRanks(self):
        self.on(3, "", "refusals", "rules", "calls")


class Corners(gloo.RanksTest):
    script = str(pathlib.Path(__file__).with_name("parallel_corners.py"))

    def test_LayersAndOptimizers_MayBePreparedBeforeApply(self):
        self.on(3, "", "frozen_before", "early_optimizer", "mixing")

    def test_LossesTypesAndEvaluationThatDiffer_AreRefusedOnAllRanks(self):
        self.on(3, "", "unusual_losses", "unlike_types", "unlike_graphs")

    def test_SumsInManyMessages_HaveTheSameBits(self):
        self.on(3, "", "chunks")


if __name__ == "__main__":
    unittest.main()
