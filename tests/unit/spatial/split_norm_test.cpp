// Tests batch normalisation that is cut over the ranks of a job, against undivided calls.
#include "tests/unit/spatial/norm_bounds.h"

namespace ucudnn::test {
namespace {

// A rank's own call. Try does nothing, so it changes no statistics or gradients of the program.
class OwnNormCall : public spatial::LocalCall {
 public:
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) override {
    return call.training != nullptr ? cudnn::Normalize(functions_, *call.training)
                                    : cudnn::Normalize(functions_, *call.gradient);
  }
  cudnnStatus_t Try(const cudnn::ConvolutionCall&) override { return kFine; }

 private:
  const cudnn::Functions functions_ = StandIn();
};

cudnnStatus_t RunNorm(RankState& rank, const ConvolutionProblem& problem,
                      const cudnn::ConvolutionCall& call) {
  OwnNormCall own;
  spatial::SplitCall split{problem, call, rank.context, rank.stream};
  split.work = spatial::SplitWork::kNorm;
  split.declared = rank.declared;
  return rank.calls->Run(split, own);
}

cudnnStatus_t Train(RankState& rank, const cudnn::NormTraining& training) {
  ConvolutionProblem problem;
  EXPECT_EQ(cudnn::ReadNorm(StandIn(), training, problem), nullptr);
  cudnn::ConvolutionCall call;
  call.handle = rank.handle;
  call.alpha = training.alpha;
  call.beta = training.beta;
  call.x = const_cast<void*>(training.x);
  call.y = training.y;
  call.training = &training;
  const cudnnStatus_t status = RunNorm(rank, problem, call);
  EXPECT_EQ(cuStreamSynchronize(rank.stream), CUDA_SUCCESS);
  return status;
}

cudnnStatus_t Train(RankState& rank, const NormTensors& tensors) {
  return Train(rank, tensors.Training(rank.handle));
}

cudnnStatus_t Differentiate(RankState& rank, const NormTensors& tensors) {
  const cudnn::NormGradient gradient = tensors.Gradient(rank.handle);
  ConvolutionProblem problem;
  EXPECT_EQ(cudnn::ReadNorm(StandIn(), gradient, problem), nullptr);
  cudnn::ConvolutionCall call;
  call.operation = Operation::kBackwardData;
  call.handle = rank.handle;
  call.alpha = gradient.data_alpha;
  call.beta = gradient.data_beta;
  call.x = gradient.dx;
  call.y = const_cast<void*>(gradient.dy);
  call.gradient = &gradient;
  const cudnnStatus_t status = RunNorm(rank, problem, call);
  EXPECT_EQ(cuStreamSynchronize(rank.stream), CUDA_SUCCESS);
  return status;
}

void UseDevice() {
  CUcontext context = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

NormResult Undivided(const NormCase& whole, Step step) {
  UseDevice();
  return RunUndivided(whole, step, OwnHandle().handle);
}

// Runs `step` on each group's own images. Returns the results by group and slice.
std::vector<std::vector<NormResult>> RunGroups(RankJob& job, const std::vector<NormCase>& groups,
                                               Step step) {
  const auto in_group = static_cast<size_t>(job.grid().GroupSize());
  std::vector<std::vector<NormResult>> results(groups.size(), std::vector<NormResult>(in_group));
  job.OnAll([&](RankState& rank) {
    const auto group = static_cast<size_t>(job.grid().GroupOf(rank.rank));
    const auto at = static_cast<size_t>(job.grid().GroupRankOf(rank.rank));
    std::mt19937 random(17 + static_cast<unsigned>(rank.rank));
    const NormTensors tensors(SliceOf(groups[group], at), random);
    EXPECT_EQ(step == Step::kTraining ? Train(rank, tensors) : Differentiate(rank, tensors), kFine);
    results[group][at] = tensors.Read();
  });
  return results;
}

std::vector<NormResult> RunSlices(RankJob& job, const NormCase& whole, Step step) {
  return RunGroups(job, {whole}, step)[0];
}

void ExpectTrained(const NormCase& whole, const std::vector<NormResult>& ranks) {
  ExpectTrainedAs(Undivided(whole, Step::kTraining), whole, ranks);
}

NormCase Saved(const NormCase& whole) {
  UseDevice();
  return Saved(whole, OwnHandle().handle);
}

void ExpectDifferentiated(const NormCase& whole, const std::vector<NormResult>& ranks) {
  ExpectDifferentiatedAs(Undivided(whole, Step::kGradient), whole, ranks);
}

// Returns a random case. Along every axis that the grid cuts, parts have random extents, and the
// first part has at least two positions.
NormCase RandomCase(const SpatialGrid& grid, std::mt19937& random) {
  constexpr DataType kTypes[] = {DataType::kFloat, DataType::kHalf, DataType::kBfloat16,
                                 DataType::kDouble};
  ConvolutionProblem uncut;
  uncut.x = {Draw(0, 3, random) == 0 ? 2 : 1, Draw(1, 4, random), Draw(1, 4, random)};
  AxisExtents parts = PartsOf(grid, uncut, 1, 4, random);
  for (size_t axis = 0; axis < 3; ++axis) {
    if (grid.Parts()[axis] > 1) parts[axis][0] = Draw(2, 4, random);
  }
  const Spatial extents = WholeOf(parts);
  NormCase made(kTypes[static_cast<size_t>(Draw(0, 3, random))], Draw(1, 3, random),
                Draw(1, 4, random), extents, {extents[1]}, random);
  made.slices = SlicesOf(grid, parts);
  made.mode =
      Draw(0, 1, random) == 0 ? CUDNN_BATCHNORM_SPATIAL : CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
  made.alpha = Draw(0, 2, random) == 0 ? 0.5 : 1;
  made.beta = Draw(0, 2, random) == 0 ? 1 : 0;
  made.parameter_alpha = Draw(0, 2, random) == 0 ? 2 : 1;
  made.parameter_beta = Draw(0, 2, random) == 0 ? 1 : 0;
  made.factor = Draw(0, 1, random) == 0 ? 1 : 0.25;
  made.is_in_place = made.beta == 0 && Draw(0, 3, random) == 0;
  made.is_saved = Draw(0, 3, random) != 0;
  return made;
}

class SplitNorm : public testing::TestWithParam<const char*> {};

TEST_P(SplitNorm, IsThatOfTheWholeImage) {
  RankJob job({.grid = GetParam(), .agrees_each_time = true});
  const unsigned seed = 20261125;
  std::mt19937 random(seed);
  for (int i = 0; i < 40 && !HasFailure(); ++i) {
    std::vector<NormCase> groups;
    for (int group = 0; group < job.grid().n; ++group) {
      groups.push_back(RandomCase(OfOneGroup(job.grid()), random));
    }
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    const auto trained = RunGroups(job, groups, Step::kTraining);
    for (size_t group = 0; group < groups.size(); ++group) {
      ExpectTrained(groups[group], trained[group]);
      groups[group] = Saved(groups[group]);
    }
    const auto differentiated = RunGroups(job, groups, Step::kGradient);
    for (size_t group = 0; group < groups.size(); ++group) {
      ExpectDifferentiated(groups[group], differentiated[group]);
    }
  }
}
NormCase Plain(const std::vector<int64_t>& heights) {
  std::mt19937 random(5);
  int64_t height = 0;
  for (const int64_t rows : heights) height += rows;
  const Spatial extents = {1, static_cast<int32_t>(height), 4};
  return NormCase(DataType::kFloat, 2, 3, extents, heights, random);
}

// Fills a channel of a slice with whole numbers that have a whole mean and a whole unbiased
// variance.
void FillExactly(HostTensor& x, const Box3& slice, int64_t channel, std::mt19937& random) {
  std::vector<double*> elements;
  for (int64_t n = 0; n < x.extents[0]; ++n) {
    for (int64_t d = slice[0].begin; d < slice[0].end; ++d) {
      for (int64_t h = slice[1].begin; h < slice[1].end; ++h) {
        for (int64_t w = slice[2].begin; w < slice[2].end; ++w) {
          elements.push_back(&x.At({n, channel, d, h, w}));
        }
      }
    }
  }
  const auto count = static_cast<int>(elements.size());
  for (;;) {
    int sum = 0, squares = 0;
    for (double* const element : elements) {
      const int value = Draw(-3, 3, random);
      *element = value;
      sum += value;
      squares += value * value;
    }
    if (sum % count == 0 && (squares - sum * sum / count) % (count - 1) == 0) return;
  }
}

// Returns a case of whole numbers whose sums and weighted means are all exact.
NormCase ExactCase(const SpatialGrid& grid, DataType type, std::mt19937& random) {
  const AxisExtents parts = PowersOfTwo(grid, {1, 2, 4});
  const Spatial extents = WholeOf(parts);
  NormCase made(type, 2, 3, extents, {extents[1]}, random);
  made.slices = SlicesOf(grid, parts);
  for (int64_t channel = 0; channel < 3; ++channel) {
    for (const Box3& slice : made.slices) FillExactly(made.x, slice, channel, random);
  }
  made.dy = RandomTensor(made.x.extents, 2, random);
  made.scale = RandomTensor(made.scale.extents, 2, random);
  made.saved_mean = RandomTensor(made.scale.extents, 2, random);
  for (double& inverse : made.saved_inverse.values) inverse = Draw(0, 1, random) == 0 ? 0.5 : 2;
  return made;
}

// Expects the undivided results to the last bit. Leaves out 16-bit dx, which the split call rounds
// twice, and running variances, because their factor m / (m - 1) is rounded.
void ExpectToTheLastBit(const NormCase& whole, const std::vector<NormResult>& trained_slices,
                        const std::vector<NormResult>& gradient_slices) {
  const NormResult trained = Undivided(whole, Step::kTraining);
  const NormResult gradient = Undivided(whole, Step::kGradient);
  for (size_t slice = 0; slice < whole.slices.size(); ++slice) {
    for (HostTensor NormResult::*const numbers :
         {&NormResult::mean, &NormResult::saved_mean, &NormResult::saved_inverse}) {
      EXPECT_EQ(trained_slices[slice].*numbers, trained.*numbers) << "slice " << slice;
    }
    EXPECT_EQ(trained_slices[slice].y, whole.Slice(trained.y, slice)) << "slice " << slice;
    EXPECT_EQ(gradient_slices[slice].dscale, gradient.dscale) << "slice " << slice;
    EXPECT_EQ(gradient_slices[slice].dbias, gradient.dbias) << "slice " << slice;
    if (ElementBytes(whole.type) == 2) continue;
    EXPECT_EQ(gradient_slices[slice].dx, whole.Slice(gradient.dx, slice)) << "slice " << slice;
  }
}

TEST_P(SplitNorm, OfWholeNumbersIsThatOfTheWholeImageToTheLastBit) {
  RankJob job({.grid = GetParam(), .agrees_each_time = true});
  std::mt19937 random(21);
  for (const DataType type :
       {DataType::kFloat, DataType::kHalf, DataType::kBfloat16, DataType::kDouble}) {
    SCOPED_TRACE(DataTypeName(type));
    std::vector<NormCase> groups;
    for (int group = 0; group < job.grid().n; ++group) {
      groups.push_back(ExactCase(OfOneGroup(job.grid()), type, random));
    }
    const auto trained = RunGroups(job, groups, Step::kTraining);
    const auto gradient = RunGroups(job, groups, Step::kGradient);
    for (size_t group = 0; group < groups.size(); ++group) {
      ExpectToTheLastBit(groups[group], trained[group], gradient[group]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, SplitNorm,
                         testing::Values("h2", "h3", "h4", "h5", "w2", "w3", "d2", "h2w2", "d2h2",
                                         "n2h2"),
                         [](const auto& grid) { return grid.param; });

// From LBANN's DiHydrogen, test_distconv.sh --bn: extents of 16, 15, 63 and 99 positions on four
// and on eight ranks that share all images. Axes that a grid does not cut have 4 positions here.
TEST(SplitNormPublished, DiHydrogensListIsThatOfTheWholeImage) {
  std::mt19937 random(3);
  for (const char* const grid : {"h4", "w4", "h2w2", "d2h2", "h8", "d2h2w2"}) {
    RankJob job({.grid = grid, .agrees_each_time = true});
    int64_t images = 4, channels = 1;
    for (const int64_t extent : {16, 15, 63, 99}) {
      // Where several axes are cut, larger extents would take long.
      if (extent > 16 && std::max(job.grid().h, job.grid().w) < job.size()) continue;
      AxisExtents parts;
      Spatial extents = {};
      for (size_t axis = 0; axis < 3; ++axis) {
        const int64_t count = job.grid().Parts()[axis];
        const int64_t all = count > 1 ? extent : axis == 0 && job.grid().d == 1 ? 1 : 4;
        for (int64_t part = 0; part < count; ++part) {
          parts[axis].push_back(all / count + (part < all % count ? 1 : 0));
        }
        extents[axis] = static_cast<int32_t>(all);
      }
      NormCase whole(DataType::kFloat, images, channels, extents, {extents[1]}, random);
      whole.slices = SlicesOf(job.grid(), parts);
      SCOPED_TRACE(std::string(grid) + " " + std::to_string(extent));
      ExpectTrained(whole, RunSlices(job, whole, Step::kTraining));
      whole = Saved(whole);
      ExpectDifferentiated(whole, RunSlices(job, whole, Step::kGradient));
      std::swap(images, channels);  // the next extent: one image of four channels, or four of one
    }
  }
}

// Every rank has the same whole tensor and declares so. Then each rank makes its own call, and
// sends nothing to other ranks.
TEST(SplitNormReplicated, CallsOnWholeTensorsRunAsTheyAre) {
  Traffic traffic;
  RankJob job(Counted({.grid = "h2w2"}, traffic));
  const NormCase whole = Saved(Plain({5}));
  const NormResult trained = Undivided(whole, Step::kTraining);
  const NormResult gradient = Undivided(whole, Step::kGradient);
  job.OnAll([&](RankState& rank) {
    rank.declared.is_replicated = true;
    std::mt19937 random(17 + static_cast<unsigned>(rank.rank));
    const NormTensors tensors(whole, random);
    EXPECT_EQ(Train(rank, tensors), kFine);
    const NormResult result = tensors.Read();
    for (HostTensor NormResult::*const numbers :
         {&NormResult::y, &NormResult::mean, &NormResult::variance, &NormResult::saved_mean,
          &NormResult::saved_inverse}) {
      EXPECT_EQ(result.*numbers, trained.*numbers) << "rank " << rank.rank;
    }
    const NormTensors again(whole, random);
    EXPECT_EQ(Differentiate(rank, again), kFine);
    const NormResult differentiated = again.Read();
    for (HostTensor NormResult::*const numbers :
         {&NormResult::dx, &NormResult::dscale, &NormResult::dbias}) {
      EXPECT_EQ(differentiated.*numbers, gradient.*numbers) << "rank " << rank.rank;
    }
  });
  EXPECT_EQ(traffic.exchanges, 0);
  EXPECT_EQ(traffic.reductions, 0);
}

TEST(SplitNormReplicated, OnOneRankAloneIsAnErrorOnAll) {
  RankJob job({.timeout = milliseconds(2000)});
  const NormCase whole = Plain({5});
  job.OnAll([&](RankState& rank) {
    rank.declared.is_replicated = rank.rank == 0;
    std::mt19937 random(3);
    const NormTensors tensors(whole, random);
    Train(rank, tensors);
  });
  ExpectContains(FailureOf(job),
                 {"rank 0 has replicated batch normalisation", "rank 1 has batch normalisation"});
  job.OnAll([](RankState& rank) { rank.declared.is_replicated = false; });
  ExpectAllFailFromNowOn(job);
}

// In each call, each rank sends two numbers per channel to each other rank, however large the image
// is.
TEST(SplitNormTraffic, IsTwoNumbersOfEachChannel) {
  Traffic traffic;
  RankJob job(Counted({.grid = "h3"}, traffic));
  const NormCase whole = Plain({4, 6, 5});
  RunSlices(job, whole, Step::kTraining);
  EXPECT_EQ(traffic.exchanges, 3);
  const int64_t once = traffic.sent;
  EXPECT_EQ(traffic.received, once);
  EXPECT_LE(once, 3 * 2 * 2 * 256);
  RunSlices(job, whole, Step::kGradient);
  EXPECT_EQ(traffic.exchanges, 6);
  EXPECT_EQ(traffic.sent, 2 * once);
  // In each rank's report, each of the two kernels must have this rank's third of the bytes.
  for (int rank = 0; rank < job.size(); ++rank) {
    const spatial::RankFigures figures = job.rank(rank).calls->kernel_figures();
    ASSERT_EQ(figures.kernels.size(), 2u);
    for (const spatial::KernelFigures& kernel : figures.kernels) {
      EXPECT_STREQ(kernel.facts.kind, "batch normalisation");
      EXPECT_EQ(3 * static_cast<int64_t>(kernel.facts.sent_bytes), once);
      EXPECT_EQ(kernel.facts.least_sent_bytes, kernel.facts.sent_bytes);
      EXPECT_EQ(kernel.facts.summed_bytes, 0u);
    }
  }
}

// If the program sums gradients itself, each rank has its own part of dscale and dbias. dx is the
// same as in the undivided call.
TEST(SplitNormReduce, NoneLeavesTheSumToTheProgram) {
  RankJob job({.grid = "h2", .sums_gradients = false});
  const NormCase whole = Saved(Plain({4, 3}));
  const NormResult expected = Undivided(whole, Step::kGradient);
  const std::vector<NormResult> ranks = RunSlices(job, whole, Step::kGradient);
  const NormBounds bounds(whole, whole.saved_inverse);
  for (HostTensor NormResult::*const numbers : {&NormResult::dscale, &NormResult::dbias}) {
    HostTensor sum = ranks[0].*numbers;
    for (size_t i = 0; i < sum.values.size(); ++i) {
      sum.values[i] += (ranks[1].*numbers).values[i];
    }
    ExpectNear(sum, expected.*numbers, 2 * std::max(bounds.dscale, bounds.dbias), "a sum");
    EXPECT_NE(ranks[0].*numbers, ranks[1].*numbers);
  }
  for (size_t slice = 0; slice < 2; ++slice) {
    ExpectNear(ranks[slice].dx, whole.Slice(expected.dx, slice), bounds.dx, "dx");
  }
}

// If each rank has a map of one row, the program must say whether the maps are stripes or copies,
// because copies share no statistics.
TEST(SplitNormOnes, AreRefusedUntilTheProgramSays) {
  for (const auto ones : {std::optional<SpatialOnes>(), std::optional(SpatialOnes::kSplit),
                          std::optional(SpatialOnes::kReplicated)}) {
    RankJob job({.grid = "h2", .ones = ones});
    const NormCase whole = Plain({1, 1});
    std::vector<NormResult> results(2);
    Statuses statuses(2);
    testing::internal::CaptureStderr();
    job.OnAll([&](RankState& rank) {
      const auto at = static_cast<size_t>(rank.rank);
      std::mt19937 random(3);
      const NormTensors tensors(SliceOf(whole, at), random);
      statuses[at] = Train(rank, tensors);
      results[at] = tensors.Read();
    });
    const std::string told = testing::internal::GetCapturedStderr();
    if (!ones) {
      EXPECT_EQ(statuses, Statuses({kRefused, kRefused}));
      ExpectContains(told, {"batch normalisation", "UCUDNN_SPATIAL_ONE"});
      continue;
    }
    EXPECT_EQ(statuses, Statuses({kFine, kFine}));
    for (size_t slice = 0; slice < 2; ++slice) {
      const bool copies = *ones == SpatialOnes::kReplicated;
      const NormCase of = copies ? SliceOf(whole, slice) : whole;
      const NormResult expected = Undivided(of, Step::kTraining);
      const NormBounds bounds(of, expected.saved_inverse);
      ExpectNear(results[slice].mean, expected.mean, bounds.running_mean, "running mean");
      ExpectNear(results[slice].y, copies ? expected.y : whole.Slice(expected.y, slice), bounds.y,
                 "y");
    }
  }
}

// Statistics that never came are NaN, and so are the results normalised with them.
TEST(SplitNormFault, IsNanWhereNothingCame) {
  Traffic traffic;
  RankJob job(Counted<SilentChannel>({.grid = "h2"}, traffic));
  for (const NormResult& result : RunSlices(job, Plain({4, 3}), Step::kTraining)) {
    EXPECT_TRUE(IsNan(result.y));
    EXPECT_TRUE(IsNan(result.mean));
    EXPECT_TRUE(IsNan(result.saved_inverse));
  }
}

// If one rank's library fails, no other rank uses that rank's numbers as statistics.
TEST(SplitNormFault, IsNanOnTheOthersWhereARankFails) {
  RankJob job({.grid = "h2"});
  const NormCase whole = Plain({4, 3});
  RunSlices(job, whole, Step::kTraining);
  std::vector<NormResult> results(2);
  job.OnAll([&](RankState& rank) {
    const auto at = static_cast<size_t>(rank.rank);
    std::mt19937 random(17 + static_cast<unsigned>(at));  // the same layout as before
    const NormTensors tensors(SliceOf(whole, at), random);
    cudnn::NormTraining training = tensors.Training(rank.handle);
    if (at == 1) training.scale = nullptr;
    const cudnnStatus_t status = Train(rank, training);
    if (at == 1) {
      EXPECT_NE(status, kFine);
    }
    results[at] = tensors.Read();
  });
  EXPECT_NE(FailureOf(job), "");
  EXPECT_TRUE(IsNan(results[0].y));
  // If rank 0 heard of the failure before its call, the call did not change the running mean.
  EXPECT_TRUE(IsNan(results[0].mean) || results[0].mean == whole.mean);
}

}  // namespace
}  // namespace ucudnn::test
