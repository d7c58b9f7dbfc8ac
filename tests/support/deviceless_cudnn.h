// The real cuDNN without a GPU: operation graphs, engines and execution plans for a device that is
// described instead of present. Sizes are real; nothing can be run. It also makes the same graphs
// on a handle of any other library.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convolution/problem.h"
#include "cudnn/backend.h"
#include "cudnn/functions.h"
#include "cudnn/plan_edit.h"

namespace ucudnn::test {

const cudnn::Functions& RealCudnn();
// Returns an H200 as the driver describes it.
cudnn::PlanDevice DescribedDevice();

// Returns an edit that changes the convolution to another batch.
inline cudnn::PlanEdit AtBatch(const cudnn::FusedConvolution& convolution, int n, double alpha = 1,
                               double beta = 0) {
  cudnn::PlanEdit edit = {convolution.problem, alpha, beta};
  edit.problem.n = n;
  return edit;
}

constexpr int64_t kUidX = 120, kUidW = 119, kUidY = 121, kUidResidual = 122, kUidBias = 98;
// uid of the first step's operand; those of later steps follow one by one.
constexpr int64_t kUidStep = 300;

// A pointwise operation behind a convolution.
struct FusedStep {
  enum class Reads {
    kNothing,
    kChannel,      // a value for each channel
    kScalar,       // one value
    kRow,          // a value for each column of the image, the same for all images
    kWhole,        // a tensor laid out like the output
    kPerImage,     // a value for each image and channel
    kOtherLayout,  // the output's extents in the other layout
  };
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_RELU_FWD;
  Reads reads = Reads::kNothing;  // the operand beside the result so far
  std::optional<DataType> type;   // type of the operand; none: the problem's
  int64_t alignment = 16;
  bool reads_first = false;  // the result so far is the second operand
};

// The properties of a graph beside the problem.
struct GraphOptions {
  double alpha = 1, beta = 0;
  int64_t x_alignment = 16, w_alignment = 16, y_alignment = 16;
  bool residual = false, bias = false, relu = false;
  double residual_scale = 1;
  double upper_clip = 0;         // of relu; 0: none
  std::vector<FusedStep> steps;  // behind the convolution, bias and relu
  bool dynamic = false;
};

// A tensor that a fused operation reads.
struct FusedTensor {
  int64_t uid = 0;
  DataType type = DataType::kFloat;
  std::vector<int64_t> dims, strides;
  int64_t alignment = 16;

  size_t Elements() const;  // of memory, from the first to behind the last
};
// Returns the tensors in the order in which they are read.
std::vector<FusedTensor> FusedTensors(const ConvolutionProblem& problem,
                                      const GraphOptions& options);

// Keeps everything alive that a graph is made of.
class Graph {
 public:
  explicit Graph(const ConvolutionProblem& problem, const GraphOptions& options = {})
      : Graph(problem, options, RealCudnn(), DescribedDevice()) {}
  Graph(const ConvolutionProblem& problem, const GraphOptions& options,
        const cudnn::Functions& functions, const cudnn::PlanDevice& device);
  bool ok() const { return ok_; }
  cudnnBackendDescriptor_t get() const { return graph_.get(); }

  int EngineCount() const;
  // The finalized plan of an engine with its default knobs, or with the given ones; none if the
  // engine does not serve the graph.
  using Knobs = std::vector<std::pair<int, int64_t>>;
  std::optional<cudnn::BackendDescriptor> Plan(int engine, const Knobs& knobs = {}) const;
  // Returns plans of the heuristics' configurations, best first; plans that cannot be built are
  // left out.
  std::vector<cudnn::BackendDescriptor> HeuristicPlans(cudnnBackendHeurMode_t mode, int most) const;

 private:
  cudnn::BackendDescriptor New(cudnnBackendDescriptorType_t type) const;
  // Returns a plan of the configuration; none if the library refuses it.
  std::optional<cudnn::BackendDescriptor> Finalized(cudnnBackendDescriptor_t configuration) const;
  cudnn::BackendDescriptor Tensor(int64_t uid, DataType type, const std::vector<int64_t>& dims,
                                  const std::vector<int64_t>& strides, int64_t alignment,
                                  bool is_virtual = false);
  cudnnBackendDescriptor_t Keep(cudnn::BackendDescriptor descriptor);
  cudnn::BackendDescriptor Pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
                                     cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y,
                                     double alpha2, double upper_clip);
  cudnn::BackendDescriptor Backward(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
                                    cudnnBackendDescriptor_t dy, cudnnBackendDescriptor_t dx);
  cudnn::BackendDescriptor PointwiseOf(cudnnPointwiseMode_t mode, double upper_clip);
  void Check(const Status& status);

  const cudnn::Functions& functions_;
  const cudnn::PlanDevice device_;
  bool ok_ = true;
  std::vector<cudnn::BackendDescriptor> parts_;
  cudnn::BackendDescriptor graph_;
};

}  // namespace ucudnn::test
