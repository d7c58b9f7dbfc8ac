// Uses the real cuDNN without a GPU: makes operation graphs, engines and execution plans for a
// device that exists only as a description. Workspace sizes are the real library's, but no plan can
// run. `Graph` also makes the same graphs with any other library and its handle.
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

// Returns an edit that changes the convolution to `n` images and to these scaling factors.
inline cudnn::PlanEdit AtBatch(const cudnn::FusedConvolution& convolution, int n, double alpha = 1,
                               double beta = 0) {
  cudnn::PlanEdit edit = {convolution.problem, alpha, beta};
  edit.problem.n = n;
  return edit;
}

constexpr int64_t kUidX = 120, kUidW = 119, kUidY = 121, kUidResidual = 122, kUidBias = 98;
// The operand of GraphOptions::steps[i] has the uid kUidStep + i.
constexpr int64_t kUidStep = 300;

// A pointwise operation that follows the convolution in a graph.
struct FusedStep {
  enum class Reads {
    kNothing,
    kChannel,      // a value for each channel
    kScalar,       // one value
    kRow,          // a value for each column, shared by all images, channels and rows
    kWhole,        // a tensor laid out like the output
    kPerImage,     // a value for each image and channel
    kOtherLayout,  // a tensor of the output's extents in the other layout: NHWC if the problem is
                   // NCHW, and NCHW if it is NHWC
  };
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_RELU_FWD;
  Reads reads = Reads::kNothing;  // the operand in addition to the previous result
  std::optional<DataType> type;   // type of the operand; none: the problem's
  int64_t alignment = 16;
  bool reads_first = false;  // the operand is the operation's first input, and the previous result
                             // the second
};

// The parts and settings of a graph in addition to its convolution.
struct GraphOptions {
  double alpha = 1, beta = 0;
  int64_t x_alignment = 16, w_alignment = 16, y_alignment = 16;
  bool residual = false, bias = false, relu = false;
  double residual_scale = 1;
  double upper_clip = 0;         // upper bound of relu; 0: none
  std::vector<FusedStep> steps;  // follow the convolution, residual, bias and relu
  bool dynamic = false;
};

// An operand that a pointwise operation reads in addition to the previous operation's result: the
// residual, the bias or the operand of a FusedStep.
struct FusedTensor {
  int64_t uid = 0;
  DataType type = DataType::kFloat;
  std::vector<int64_t> dims, strides;
  int64_t alignment = 16;

  size_t Elements() const;  // number of elements that the tensor spans in memory, with its gaps
};
// Returns the operands of `options` in the order in which the graph's operations read them.
std::vector<FusedTensor> FusedTensors(const ConvolutionProblem& problem,
                                      const GraphOptions& options);

// An operation graph, which owns the descriptors that it is made of.
class Graph {
 public:
  explicit Graph(const ConvolutionProblem& problem, const GraphOptions& options = {})
      : Graph(problem, options, RealCudnn(), DescribedDevice()) {}
  Graph(const ConvolutionProblem& problem, const GraphOptions& options,
        const cudnn::Functions& functions, const cudnn::PlanDevice& device);
  bool ok() const { return ok_; }
  cudnnBackendDescriptor_t get() const { return graph_.get(); }

  int EngineCount() const;
  // Returns the finalized plan of an engine with its default knobs, or with `knobs` if they are
  // given. Returns none if the engine does not support the graph.
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
