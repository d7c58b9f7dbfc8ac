// Tests that batch normalisation of slices together equals that of the whole tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/cases.h"
#include "tests/support/device.h"
#include "tests/unit/spatial/norm_bounds.h"

namespace ucudnn::test {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf, DataType::kBfloat16,
                               DataType::kDouble};

class NormAlgebra : public DeviceTest {
 protected:
  NormResult RunWhole(const NormCase& whole, Step step) {
    return RunUndivided(whole, step, own_.handle);
  }
  std::vector<NormResult> RunSlices(const NormCase& whole, Step step, std::mt19937& random) {
    NormJob job(functions_, own_.handle, whole, random);
    if (step == Step::kTraining) job.Train();
    if (step == Step::kGradient) job.Differentiate();
    return job.Read();
  }

  void ExpectTrained(const NormCase& whole, std::mt19937& random) {
    ExpectTrainedAs(RunWhole(whole, Step::kTraining), whole,
                    RunSlices(whole, Step::kTraining, random));
  }

  void ExpectDifferentiated(NormCase whole, std::mt19937& random) {
    whole = Saved(std::move(whole), own_.handle);
    ExpectDifferentiatedAs(RunWhole(whole, Step::kGradient), whole,
                           RunSlices(whole, Step::kGradient, random));
  }

  const cudnn::Functions functions_ = StandIn();
  const OwnHandle own_;
};

double Pick(const std::vector<double>& values, std::mt19937& random) {
  return values[static_cast<size_t>(Draw(0, static_cast<int>(values.size()) - 1, random))];
}

// Returns a case of one to five slices of one to four rows. In one of three cases a row has a
// single element, so that slices of one row have one element per channel.
NormCase RandomCase(DataType type, std::mt19937& random) {
  std::vector<int64_t> heights(static_cast<size_t>(Draw(1, 5, random)));
  int64_t height = 0;
  for (int64_t& rows : heights) {
    rows = Draw(1, 4, random);
    height += rows;
  }
  const bool is_thin = Draw(0, 2, random) == 0;
  const auto extent = [&](int most) { return is_thin ? 1 : Draw(1, most, random); };
  const int n = extent(3), d = extent(2), w = extent(4);
  NormCase made(type, n, Draw(1, 9, random), {d, static_cast<int32_t>(height), w}, heights, random);
  made.mode =
      Draw(0, 1, random) == 1 ? CUDNN_BATCHNORM_SPATIAL : CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
  made.alpha = Pick({1, 2, -0.5}, random);
  made.beta = Pick({0, 0, 1, -0.5}, random);
  made.parameter_alpha = Pick({1, 3}, random);
  made.parameter_beta = Pick({0, 1, -2}, random);
  made.factor = Pick({1, 0.25, 0.1, 0}, random);
  made.epsilon = Pick({0.01, 0.125}, random);
  return made;
}

NormCase InPlace(NormCase of) {
  of.is_in_place = true;
  of.y = of.x;
  of.dx = of.dy;
  return of;
}

// Runs `check` on random cases of every type: `all` of them in tools/check --full, otherwise a
// third.
template <class Check>
void OnRandomCases(unsigned seed, int all, const Check& check) {
  const int cases = test::Cases(all, all / 3);
  std::mt19937 random(seed);
  for (const DataType type : kTypes) {
    for (int i = 0; i < cases && !testing::Test::HasFatalFailure(); ++i) {
      const NormCase whole = RandomCase(type, random);
      std::string heights;
      for (const Box3& slice : whole.slices) heights += " " + std::to_string(slice[1].Length());
      SCOPED_TRACE(std::string(DataTypeName(type)) + ", seed " + std::to_string(seed) + ", case " +
                   std::to_string(i) + ", " + std::to_string(whole.count()) +
                   " elements, slices of" + heights + " rows");
      check(whole, random);
    }
  }
}

TEST_F(NormAlgebra, TrainingOfSlicesIsThatOfTheWhole) {
  OnRandomCases(20261125, 60,
                [&](const NormCase& whole, std::mt19937& random) { ExpectTrained(whole, random); });
}

TEST_F(NormAlgebra, GradientOfSlicesIsThatOfTheWhole) {
  OnRandomCases(20261126, 60, [&](const NormCase& whole, std::mt19937& random) {
    ExpectDifferentiated(whole, random);
  });
}

TEST_F(NormAlgebra, GradientFindsStatisticsThatNobodySaved) {
  OnRandomCases(20261127, 30, [&](NormCase whole, std::mt19937& random) {
    whole.is_saved = false;
    ExpectDifferentiated(whole, random);
  });
}

TEST_F(NormAlgebra, ResultsMayTakeThePlaceOfWhatTheyAreMadeOf) {
  OnRandomCases(20261128, 20, [&](const NormCase& whole, std::mt19937& random) {
    ExpectTrained(InPlace(whole), random);
    ExpectDifferentiated(InPlace(whole), random);
    NormCase unsaved = InPlace(whole);
    unsaved.is_saved = false;
    ExpectDifferentiated(unsaved, random);
  });
}

// Nothing rounds in channels whose elements are all equal, however unequal the slices are.
TEST_F(NormAlgebra, ConstantChannelsGiveTheBias) {
  OnRandomCases(20261129, 20, [&](NormCase whole, std::mt19937& random) {
    const size_t in_channel =
        whole.x.values.size() / static_cast<size_t>(whole.x.extents[0] * whole.x.extents[1]);
    const auto channels = static_cast<size_t>(whole.channels());
    for (size_t i = 0; i < whole.x.values.size(); ++i) {
      whole.x.values[i] = whole.scale.values[i / in_channel % channels];
    }
    whole.alpha = 1, whole.beta = 0, whole.factor = 1;
    const std::vector<NormResult> ranks = RunSlices(whole, Step::kTraining, random);
    for (const NormResult& rank : ranks) {
      EXPECT_EQ(rank.mean, whole.scale);
      EXPECT_EQ(rank.saved_mean, whole.scale);
      EXPECT_EQ(rank.variance, HostTensor(whole.scale.extents));
      for (size_t i = 0; i < rank.y.values.size(); ++i) {
        const size_t in_slice =
            rank.y.values.size() / (channels * static_cast<size_t>(whole.x.extents[0]));
        EXPECT_EQ(rank.y.values[i], whole.bias.values[i / in_slice % channels]);
      }
    }
  });
}

// Each channel has 16 elements, of which a slice has 2, 4 or 8. All of these counts are powers of
// two, so fp32 holds every result exactly.
TEST_F(NormAlgebra, GradientOfWholeNumbersIsExact) {
  std::mt19937 random(3);
  for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
    NormCase whole(type, 1, 3, {1, 8, 2}, {4, 1, 2, 1}, random);
    whole.saved_mean = RandomTensor(whole.scale.extents, 2, random);
    whole.saved_inverse = HostTensor(whole.scale.extents);
    for (double& inverse : whole.saved_inverse.values) inverse = Pick({0.5, 1, 2}, random);
    for (HostTensor* const tensor : {&whole.x, &whole.dy, &whole.scale}) {
      *tensor = RandomTensor(tensor->extents, 3, random);
    }
    const NormResult expected = RunWhole(whole, Step::kGradient);
    const std::vector<NormResult> ranks = RunSlices(whole, Step::kGradient, random);
    for (size_t slice = 0; slice < ranks.size(); ++slice) {
      EXPECT_EQ(ranks[slice].dscale, expected.dscale);
      EXPECT_EQ(ranks[slice].dbias, expected.dbias);
      EXPECT_EQ(ranks[slice].dx, whole.Slice(expected.dx, slice));
    }
  }
}

// Values that are not read, because a beta is 0 or the factor is 1, must not affect results.
TEST_F(NormAlgebra, WhatIsNotReadMayBeAnything) {
  OnRandomCases(20261130, 10, [&](NormCase whole, std::mt19937& random) {
    whole.beta = 0, whole.parameter_beta = 0, whole.factor = 1;
    whole = Saved(std::move(whole), own_.handle);
    for (HostTensor* const unread : {&whole.mean, &whole.variance, &whole.dscale, &whole.dbias}) {
      std::fill(unread->values.begin(), unread->values.end(), std::nan(""));
    }
    for (const NormResult& rank : RunSlices(whole, Step::kTraining, random)) {
      EXPECT_FALSE(HasNan(rank.mean) || HasNan(rank.variance) || HasNan(rank.y));
    }
    for (const NormResult& rank : RunSlices(whole, Step::kGradient, random)) {
      EXPECT_FALSE(HasNan(rank.dscale) || HasNan(rank.dbias) || HasNan(rank.dx));
    }
  });
}

TEST_F(NormAlgebra, ConstantSliceWithoutEpsilonLeavesWhatIsRead) {
  std::mt19937 random(5);
  NormCase whole(DataType::kFloat, 1, 2, {1, 4, 3}, {2, 2}, random);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      for (int64_t channel = 0; channel < 2; ++channel)
        whole.x.At({0, channel, 0, row, column}) = 1;
    }
  }
  whole.beta = 1;
  whole.epsilon = 0;
  ExpectTrained(whole, random);
  ExpectDifferentiated(whole, random);
  whole.is_saved = false;
  ExpectDifferentiated(whole, random);
}

TEST_F(NormAlgebra, SaysWhatTheLibraryLacks) {
  const spatial::NormSlices slices = {DataType::kFloat, 2, {3, 4}, 0};
  EXPECT_TRUE(spatial::NormStatistics::Make(functions_, slices).ok());
  cudnn::Functions without_sums = functions_, without_norms = functions_;
  without_sums.cudnnOpTensor = nullptr;
  without_norms.cudnnBatchNormalizationBackward = nullptr;
  EXPECT_EQ(spatial::NormStatistics::Make(without_sums, slices).message(),
            "the real cuDNN lacks functions that combine statistics");
  EXPECT_EQ(spatial::NormStatistics::Make(without_norms, slices).message(),
            "the real cuDNN lacks batch normalisation");
}

TEST_F(NormAlgebra, TellsWhatTheLibraryRefuses) {
  std::mt19937 random(7);
  const NormCase whole(DataType::kFloat, 1, 2, {1, 4, 3}, {4}, random);
  const NormTensors tensors(whole, random);
  const auto statistics =
      spatial::NormStatistics::Make(functions_, {DataType::kFloat, 2, whole.Counts(), 0});
  ASSERT_TRUE(statistics.ok());
  CUdeviceptr scratch = 0;
  ASSERT_EQ(cuMemAlloc(&scratch, (*statistics)->scratch_bytes()), CUDA_SUCCESS);
  cudnn::NormTraining training = tensors.Training(own_.handle);
  training.epsilon = -1;
  EXPECT_EQ((*statistics)->RunOwn(training, scratch), CUDNN_STATUS_BAD_PARAM);
  EXPECT_FALSE((*statistics)->Finish(training, scratch).ok());
  training = tensors.Training(own_.handle);
  training.saved_mean = nullptr;
  EXPECT_EQ((*statistics)->RunOwn(training, scratch), CUDNN_STATUS_BAD_PARAM);
  cudnn::NormGradient gradient = tensors.Gradient(own_.handle);
  gradient.saved_inverse = nullptr;
  EXPECT_EQ((*statistics)->RunOwn(gradient, scratch), CUDNN_STATUS_BAD_PARAM);
  gradient = tensors.Gradient(own_.handle);
  gradient.dbias = nullptr;
  EXPECT_EQ((*statistics)->RunOwn(gradient, scratch), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(scratch), CUDA_SUCCESS);
}

}  // namespace
}  // namespace ucudnn::test
