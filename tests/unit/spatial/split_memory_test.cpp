// Tests how much device memory split calls need in addition to the caller's.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "convolution/partial_sums.h"
#include "cuda/driver.h"
#include "spatial/convolution_slice.h"
#include "spatial/group_stripes.h"
#include "spatial/split_kernel.h"
#include "tests/support/device.h"
#include "tests/unit/spatial/random_layers.h"

namespace ucudnn::test {
namespace {

// The bound is 2.5 times the bytes of a halo if halos are added, and 6 times if results are
// recomputed. A halo is the rows that a rank receives from both neighbours, or the rows that it
// sends to them, whichever are more. Each row counts as a row of x or of y, whichever is larger.
// Not counted are a copy of the filter, the sum of a filter gradient and 16 * 256 bytes for
// alignment.
class SplitMemory : public DeviceTest {
 protected:
  SplitMemory() { EXPECT_EQ(cudnnCreate(&handle_), kFine); }
  ~SplitMemory() override { EXPECT_EQ(cudnnDestroy(handle_), kFine); }

  // Expects that the buffer of one rank's kernel is within the bound, in bytes.
  void ExpectWithinBound(const ConvolutionProblem& local, const SpatialGrid& grid, int rank,
                         const std::vector<Spatial>& extents, const spatial::CallProperties& form) {
    spatial::PlanContext context{functions_, *cuda::GetDriver(), handle_, {}};
    context.demand.is_fused = form.is_fused;
    // KernelAgreement sets this to half of the buffer's 256 MiB (rank_meeting.cpp) if the user sets
    // no limit.
    context.demand.most_workspace_bytes = size_t{128} << 20;
    const auto group = spatial::GroupStripes::Make(local, grid, rank, extents, {});
    ASSERT_TRUE(group.ok()) << group.message();
    const auto plan = spatial::SlicePlan::Make(context, *group, form);
    const auto kernel = spatial::SplitKernel::Make(context, *group, form, true, local.n, SIZE_MAX);
    ASSERT_TRUE(plan.ok() && kernel.ok()) << kernel.status().message();
    const Spatial y = OutputExtents(local);
    const bool forward = local.operation == Operation::kForward;
    const double x_row = 1.0 * local.c * local.x[2], y_row = 1.0 * local.k * y[2];
    const double wider = std::max(x_row, y_row) / (forward ? x_row : y_row);
    const bool added = spatial::CorrectionOf(local, form) == spatial::Correction::kAdded;
    const size_t halo = std::max((*plan)->received_bytes(), (*plan)->sent_bytes());
    const double rows = wider * static_cast<double>(halo);
    double beside = static_cast<double>(cudnn::FilterBytes(local)) + 16 * 256;
    if (local.operation == Operation::kBackwardFilter) {
      beside += static_cast<double>(SumsPartials(local) ? PartialSumBytes(local)
                                    : form.reads_result ? cudnn::FilterBytes(local)
                                                        : 0);
    }
    const double took = static_cast<double>((*kernel)->buffer_bytes()) - beside;
    EXPECT_LE(took, (added ? 2.5 : 6) * rows) << Describe(local) << ", rank " << rank;
  }

  const cudnn::Functions functions_ = StandIn();
  cudnnHandle_t handle_ = nullptr;
};

TEST_F(SplitMemory, IsWithinTheBound) {
  const unsigned seed = 20261128;
  std::mt19937 random(seed);
  const SpatialGrid grid = *SpatialGrid::Parse("h3");
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", case " + std::to_string(i));
    ConvolutionProblem problem = Layer(kOperations[i % 3], 1, 2 * Draw(1, 3, random) + 1);
    problem.n = 4;
    problem.c = Draw(4, 32, random), problem.k = Draw(4, 32, random);
    SetType(problem, static_cast<DataType>(Draw(0, 3, random)));
    problem.x[2] = 64;
    if (i % 4 == 0) problem.stride = {1, 2, 2};
    if (i % 4 == 1) problem.dilation[1] = 2, problem.pad[1] *= 2;
    spatial::CallProperties form;
    form.is_fused = problem.operation == Operation::kForward && Draw(0, 1, random) == 1;
    form.reads_result = Draw(0, 1, random) == 1;
    std::vector<Spatial> extents;
    for (int rank = 0; rank < 3; ++rank) extents.push_back({1, 2 * Draw(4, 16, random), 64});
    for (int rank = 0; rank < 3; ++rank) {
      problem.x = extents[static_cast<size_t>(rank)];
      SetPackedStrides(problem);
      ExpectWithinBound(problem, grid, rank, extents, form);
    }
  }
}

}  // namespace
}  // namespace ucudnn::test
