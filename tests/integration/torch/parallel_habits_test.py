"""Tests that programs get the same results from a divided model on every rank as on one device, or an error that
names what is refused."""
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import gloo

gloo.need("torch")


class Habits(gloo.RanksTest):
    script = str(pathlib.Path(__file__).with_name("parallel_habits.py"))

    def one_after_the_other(self, counts, *arguments):
        """Runs the script on each number of ranks in turn. All runs share a folder, so that a run can read files of
        earlier runs."""
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, UCUDNN_TEST_FOLDER=folder):
            for count in counts:
                self.on(count, "", *arguments)

    def test_Backward_OfSeveralPasses_AddsUp(self):
        self.on(3, "", "two_forwards", "second_backward", "double_backward", "accumulation", "checkpointed", "overwriting")

    def test_FrozenLayers_MoveNothing(self):
        self.on(4, "", "frozen", "frozen_counts")

    def test_NormsAndScalers_AreThoseOfTheWholeModel(self):
        self.on(3, "", "clipping", "hooks", "idioms", "reductions", "scaler", "overflow", "autocast")

    def test_EvaluationAndAverages_AreThoseOfOneDevice(self):
        self.on(3, "", "evaluation", "averaged", "unlike_weights")

    def test_Norms_AreThoseOfOneDevice(self):
        self.on(3, "", "norms", "local_batch_norm", "spelled", "functions")

    def test_Losses_AreThoseOfOneDevice(self):
        self.on(3, "", "losses")

    def test_Loaders_ReadWhatTheirRankNeeds(self):
        self.on(3, "", "loader", "rests", "reported", "out_of_step", "last_whole", "augmented", "blank", "whole_labels")

    def test_Dropout_IsTheSameInEveryPartition(self):
        self.on(4, "", "dropout")
        self.one_after_the_other((1, 4), "dropout_alone")

    def test_Replicas_HaveTheSameBits(self):
        self.on(4, "", "replicas", "overlap_off")

    def test_States_GoIntoOtherPlansAndOneProcess(self):
        self.on(3, "", "states", "unstepped", "unfit_states", "alone")
        self.one_after_the_other((4, 2, 3, 1), "carried")

    def test_WhatDoesNotFit_IsRefusedOnAllRanks(self):
        self.on(3, "", "refusals", "rules", "calls")


class Corners(gloo.RanksTest):
    script = str(pathlib.Path(__file__).with_name("parallel_corners.py"))

    def test_LayersAndOptimizers_MayBePreparedBeforeApply(self):
        self.on(3, "", "frozen_before", "early_optimizer", "mixing")

    def test_PartsThatReadNothing_ArePaddingOrABias(self):
        self.on(3, "", "in_padding", "nothing_read", "masked_classes", "time_of_sums")

    def test_Optimizers_AreComparedBeforeTheirFirstStep(self):
        self.on(3, "", "unnamed_mixing")

    def test_ChangedModelsAndGradientsOfImages_AreRefusedOnAllRanks(self):
        self.on(3, "", "changed_models", "gradients_of_images", "attributes", "outputs_alone")

    def test_RanksThatPart_AreRefusedOnAllRanks(self):
        self.on(4, "", "parting", "momenta")

    def test_LossesTypesAndEvaluationThatDiffer_AreRefusedOnAllRanks(self):
        self.on(3, "", "unusual_losses", "means", "missing_labels", "unlike_losses", "trained_losses", "unlike_types", "unlike_graphs")

    def test_DataThatOneRankWouldRefuse_IsRefusedOnAllRanks(self):
        self.on(3, "", "wrong_data", "half")

    def test_SumsInManyMessages_HaveTheSameBits(self):
        self.on(3, "", "chunks")


if __name__ == "__main__":
    unittest.main()
