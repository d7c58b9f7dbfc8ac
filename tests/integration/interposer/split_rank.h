// Ranks as threads of a test program. Two ranks hold the upper and the lower half of each image,
// call convolutions through the drop-in, and compare with the undivided convolution on integers.
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

// Returns LayerProblem with `rows` rows: kRows for a stripe, kHeight for uncut images.
ConvolutionProblem LayerOf(Operation operation, int rows);
// Fills the operands of a stripe whose first row is row `first` of the uncut images.
void FillStripe(Convolution& convolution, int first);
std::vector<double> ValuesOf(Convolution& convolution, const Bytes& bytes);

// The result of the undivided call on uncut images. PartOf returns the rows that a rank holds.
class Expected {
 public:
  explicit Expected(const ConvolutionProblem& whole, Extra extra = Extra::kNone);
  explicit Expected(Operation operation, Extra extra = Extra::kNone)
      : Expected(LayerOf(operation, kHeight), extra) {}
  std::vector<double> PartOf(int rank, int ranks = kRanks) const;

 private:
  const Operation operation_;
  std::vector<double> values_;
  size_t plane_ = 0;  // the number of elements in one plane of the uncut result
};

// Calls body(0) to body(count - 1), each on its own thread, and waits for all threads.
void OnThreads(int count, const std::function<void(int)>& body);

// The outcome of a rank's call. SplitRank::Read fills `values`; tests of faults call Read after
// they disarm the fault.
struct Given {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::vector<double> values;
};
// The outcomes of a round: three legacy calls, and the plan if both ranks have one.
using Round = std::vector<Given>;

// One rank, used only by the thread that constructs it. It owns a handle, a stream, its stripes of
// three convolutions, and its stripe of a plan. Every kRanks consecutive ranks are a group, whose
// members hold stripes of the same images. If `joins` is false, the rank joins no group, because
// the process splits nothing.
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
  // Makes a call that is refused because z has other extents than y.
  cudnnStatus_t CallRefused();
  // Reads the outputs of a round's calls, and restores the outputs' previous contents.
  void Read(Round& round);

 private:
  cudaStream_t stream_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;  // the plan's workspace
  std::vector<std::unique_ptr<Convolution>> layers_;
  std::unique_ptr<Convolution> planned_;
  std::optional<Graph> graph_;
  std::optional<cudnn::BackendDescriptor> plan_;
};

}  // namespace ucudnn::test
