// Two ranks on threads of a test's program, which hold the upper and the lower half of each image:
// what they call through the drop-in, and what the undivided convolution gives. Numbers are whole.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <memory>
#include <optional>
#include <vector>

#include "convolution.h"
#include "cudnn/backend.h"
#include "tests/support/deviceless_cudnn.h"

namespace ucudnn::test {

constexpr int kRanks = 2, kHeight = 12, kRows = kHeight / kRanks;

// A stripe of LayerProblem, or the whole.
ConvolutionProblem LayerOf(Operation operation, int rows);
// Fills the operands of a stripe whose first row is `first` of the whole's.
void FillStripe(Convolution& convolution, int first);
std::vector<double> ValuesOf(Convolution& convolution, const Bytes& bytes);

// What the undivided call over the whole gives, and the part of it that a rank holds.
class Expected {
 public:
  explicit Expected(Operation operation, Extra extra = Extra::kNone);
  std::vector<double> PartOf(int rank) const;

 private:
  const Operation operation_;
  std::vector<double> values_;
  size_t columns_ = 0;
};

// What a rank's call gave; `values` are read once nothing fails any more.
struct Given {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::vector<double> values;
};
// The three legacy calls, and the plan where both ranks have it.
using Round = std::vector<Given>;

// One rank, on the thread that makes it: a handle, a stream, and its stripes of the three
// convolutions and of a plan's. Every kRanks of them are a group, and hold the same images. Where
// the process splits nothing it joins nobody.
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
  // A native CUDA graph of the plan.
  cudnnStatus_t Populate(cudaGraph_t graph);
  // What is refused without a look at the images: z has not the extents of y.
  cudnnStatus_t CallRefused();
  // What a round's calls left; the outputs hold what they held before it.
  void Read(Round& round);

 private:
  std::optional<cudnn::BackendDescriptor> Pack();

  cudaStream_t stream_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;  // of the plan
  std::vector<std::unique_ptr<Convolution>> layers_;
  std::unique_ptr<Convolution> planned_;
  std::optional<Graph> graph_;
  std::optional<cudnn::BackendDescriptor> plan_;
};

}  // namespace ucudnn::test
