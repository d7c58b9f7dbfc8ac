// Runs ranks as threads of the test. Each rank has its own stream, a cuDNN handle on it, and split
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
  bool exchanges_as_processes = false;  // by shared memory, although ranks are threads
  std::string cudnn_file;               // the folder of this file may have NCCL; empty: unknown
  // The function tables that the ranks' split calls use. The caller keeps them alive. null: the
  // stand-in's tables.
  const cudnn::Functions* functions = nullptr;
  const cuda::Driver* driver = nullptr;
  // If not empty, wraps the channel of the rank with the given number in a channel of the test.
  std::function<std::unique_ptr<transport::Channel>(int, std::unique_ptr<transport::Channel>)> wrap;
};

// Holds one rank, which runs on its own thread.
struct RankState {
  int rank = 0, device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  cudnnHandle_t handle = nullptr;
  std::unique_ptr<spatial::GradientSums> sums;  // each rank has its own, as if it were a process
  std::unique_ptr<spatial::SplitCalls> calls;
  transport::Ranks* ranks = nullptr;   // owned by `calls`
  spatial::CallDeclarations declared;  // what the next calls declare

  // Makes the call through the rank's split calls. The stand-in computes the rank's own part.
  cudnnStatus_t Run(const ConvolutionProblem& problem, const cudnn::ConvolutionCall& call);
  // Calls Run for `stripe` of `whole`.
  StripeResult RunStripe(const WholeCase& whole, const Stripe& stripe);
};

// Makes the calling thread rank `state.rank` of the ranks that meet in `file`. REQUIRES: state.rank
// and state.device are set, and `options` outlives `state`. Fails an expectation if the rank cannot
// join.
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
  // Calls `work` for all ranks at once and returns when all are done. A rank runs on the same
  // thread in every call.
  void OnAll(const std::function<void(RankState&)>& work);
  RankState& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }

 private:
  struct Worker;
  const JobOptions options_;
  SpatialGrid grid_;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// Returns the stripes of a case, by rank. `extents` has the extents of the parts along each axis.
// Returns nullopt if a convolution cannot be cut into these parts.
std::optional<std::vector<Stripe>> CutInto(const ConvolutionProblem& whole, const SpatialGrid& grid,
                                           const AxisExtents& extents);

}  // namespace ucudnn::test
