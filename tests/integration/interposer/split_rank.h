// Two ranks on threads of a test's program hold the upper and the lower half of each image, call
// convolutions through the drop-in, and compare with the undivided convolution. Numbers are whole.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "convolution.h"
#include "cudnn/backend.h"
#include "tests/support/deviceless_cudnn.h"

namespace ucudnn::test {

constexpr int kRanks = 2, kHeight = 12, kRows = kHeight / kRanks;

// Returns a stripe of LayerProblem, or the whole.
ConvolutionProblem LayerOf(Operation operation, int rows);
// Fills the operands of a stripe whose first row is row `first` of the whole.
void FillStripe(Convolution& convolution, int first);
std::vector<double> ValuesOf(Convolution& convolution, const Bytes& bytes);

// The result of the undivided call over the whole, and the part of it that a rank holds.
class Expected {
 public:
  explicit Expected(const ConvolutionProblem& whole, Extra extra = Extra::kNone);
  explicit Expected(Operation operation, Extra extra = Extra::kNone)
      : Expected(LayerOf(operation, kHeight), extra) {}
  std::vector<double> PartOf(int rank, int ranks = kRanks) const;

 private:
  const Operation operation_;
  std::vector<double> values_;
  size_t plane_ = 0;  // elements of one plane of the whole's result
};

// Runs `body` with each number below `count`, on a thread of its own, and waits for all.
void OnThreads(int count, const std::function<void(int)>& body);

// The outcome of a rank's call; `values` are read once nothing fails any more.
struct Given {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::vector<double> values;
};
// The calls of a round: three legacy calls, and the plan where both ranks have it.
using Round = std::vector<Given>;

// One rank, on the thread that makes it: a handle, a stream, and its stripes of the three
// convolutions and of a plan. Every kRanks ranks are a group and hold the same images. `joins` is
// false where the process splits nothing; the rank then joins no group.
class SplitRank {
 public:
  explicit SplitRank(int rank, bool joins = true);
  ~SplitRank();
  SplitRank(const SplitRank&) = delete;
  SplitRank& operator=(const SplitRank&) = delete;

  cudnnHandle_t handle() const { return handle_; }
  cudaStream_t stream() const { return stream_; }
  Convolution& layer(size_t index) { return *layers_[index]; }
  bool MakePlan();
  void Call(Round& round);
  void CallPlan(Round& round);
  // Adds the plan to a native CUDA graph.
  cudnnStatus_t Populate(cudaGraph_t graph);
  // Makes a call that is refused before the images are looked at: z has other extents than y.
  cudnnStatus_t CallRefused();
  // Reads the outputs of a round's calls and restores what they held before.
  void Read(Round& round);

 private:
  cudaStream_t stream_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;  // for the plan
  std::vector<std::unique_ptr<Convolution>> layers_;
  std::unique_ptr<Convolution> planned_;
  std::optional<Graph> graph_;
  std::optional<cudnn::BackendDescriptor> plan_;
};

}  // namespace ucudnn::test
