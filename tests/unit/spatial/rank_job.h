// Ranks as threads of the test. Each has a cuDNN handle on a stream of its own, and its split
// calls.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "spatial/split_calls.h"
#include "tests/unit/spatial/whole_case.h"
#include "transport/choice.h"

namespace ucudnn::test {

struct JobOptions {
  std::string grid = "h2";
  bool agrees_each_time = false;
  std::optional<SpatialOnes> ones;
  std::optional<bool> sums_gradients;
  size_t most_buffer_bytes = size_t{64} << 20;
  std::chrono::milliseconds warning{60000}, timeout{20000};
  bool waits_for_records = false;
  bool times_exchanges = false;
  Transport transport = Transport::kAuto;
  bool exchanges_as_processes = false;  // through shared memory, although ranks are threads
  std::string cudnn_file;               // NCCL is looked for beside it, too; empty: unknown
  // The tables of the ranks' split calls, which the caller keeps alive; null: the stand-in's.
  const cudnn::Functions* functions = nullptr;
  const cuda::Driver* driver = nullptr;
  // Wraps the channel of the rank with this number in one of the test's; empty: no channel is
  // wrapped.
  std::function<std::unique_ptr<transport::Channel>(int, std::unique_ptr<transport::Channel>)> wrap;
};

// One rank, on its own thread.
struct RankState {
  int rank = 0, device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  cudnnHandle_t handle = nullptr;
  std::unique_ptr<spatial::GradientSums> sums;  // of this rank alone, as if it were a process
  std::unique_ptr<spatial::SplitCalls> calls;
  transport::Ranks* ranks = nullptr;  // owned by `calls`
  spatial::Declared declared;         // what the next calls declare

  // Makes the call through the rank's split calls; the rank's own call is the stand-in's.
  cudnnStatus_t Run(const ConvolutionProblem& problem, const cudnn::ConvolutionCall& call);
  // Calls Run for `stripe` of `whole`.
  StripeResult RunStripe(const WholeCase& whole, const Stripe& stripe);
};

// Makes state.rank one of the ranks that meet in `file`, on the calling thread. REQUIRES: its
// number and device are set, and `options` outlives it. Fails an expectation if it cannot.
void OpenRank(RankState& state, const SpatialGrid& grid, const JobOptions& options,
              const std::string& file);
void CloseRank(RankState& state);

class RankJob {
 public:
  explicit RankJob(const JobOptions& options = {});
  ~RankJob();
  RankJob(const RankJob&) = delete;
  RankJob& operator=(const RankJob&) = delete;

  const SpatialGrid& grid() const { return grid_; }
  int size() const { return grid_.Ranks(); }
  // Runs on all ranks at once, each on its own thread, which is the same in every call.
  void OnAll(const std::function<void(RankState&)>& work);
  RankState& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }

 private:
  struct Worker;
  const JobOptions options_;
  SpatialGrid grid_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// Returns the stripes of a case, by rank, from the extents of the parts along each axis; none if
// the case cannot be split like this.
std::optional<std::vector<Stripe>> CutInto(const ConvolutionProblem& whole, const SpatialGrid& grid,
                                           const AxisExtents& extents);

}  // namespace ucudnn::test
