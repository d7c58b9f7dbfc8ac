#include "split_rank.h"

#include <gtest/gtest.h>
#include <ucudnn/ucudnn.h>

#include <thread>

#include "cases.h"
#include "layer.h"
#include "libraries.h"
#include "tests/support/problem.h"

namespace ucudnn::test {
namespace {

constexpr int kPlanEngine = 1;  // the stand-in's GEMM, which is exact on whole numbers
constexpr size_t kWorkspaceBytes = 65536;

// Fills an operand whose first row is row `first` of the uncut tensor. Each number depends only on
// its position in the uncut tensor.
void FillRows(Operand& operand, int seed, int first) {
  const int rows = operand.extents[1], columns = operand.extents[2];
  int at = 0;
  operand.Fill([&]() -> double {
    const int plane = at / (rows * columns), row = first + at / columns % rows;
    const int column = at++ % columns;
    return static_cast<double>((plane * 31 + row * 17 + column * 7 + seed) % 5) - 2;
  });
  operand.Upload();
}

}  // namespace

ConvolutionProblem LayerOf(Operation operation, int rows) {
  ConvolutionProblem problem = LayerProblem(operation, 2);
  problem.x[1] = rows;
  SetPackedStrides(problem);
  return AsRead(problem);
}

void FillStripe(Convolution& convolution, int first) {
  FillRows(convolution.x, 1, first);
  FillRows(convolution.w, 2, 0);
  FillRows(convolution.y, 3, first);
  if (convolution.extra() == Extra::kNone) return;
  FillRows(convolution.z, 4, first);
  FillRows(convolution.bias, 5, 0);
}

std::vector<double> ValuesOf(Convolution& convolution, const Bytes& bytes) {
  std::vector<double> values;
  const Operand& output = convolution.output();
  output.ForEach([&](size_t index) { values.push_back(output.Get(bytes, index)); });
  return values;
}

Expected::Expected(const ConvolutionProblem& problem, Extra extra) : operation_(problem.operation) {
  Convolution whole(problem, extra);
  FillStripe(whole, 0);
  values_ = ValuesOf(whole, whole.Expected());
  plane_ = static_cast<size_t>(whole.output().extents[1] * whole.output().extents[2]);
}

std::vector<double> Expected::PartOf(int rank, int ranks) const {
  if (operation_ == Operation::kBackwardFilter) return values_;
  std::vector<double> part;
  const size_t own = plane_ / static_cast<size_t>(ranks), first = static_cast<size_t>(rank) * own;
  for (size_t plane = 0; plane < values_.size(); plane += plane_) {
    const auto begin = values_.begin() + static_cast<long>(plane + first);
    part.insert(part.end(), begin, begin + static_cast<long>(own));
  }
  return part;
}

void OnThreads(int count, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int number = 0; number < count; ++number) threads.emplace_back(body, number);
}

SplitRank::SplitRank(int rank, bool joins) {
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnSetStream(handle_, stream_), CUDNN_STATUS_SUCCESS);
  EXPECT_TRUE(!joins || ucudnnSpatialJoin(handle_, rank) == CUDNN_STATUS_SUCCESS);
  for (const Operation operation : kOperations) {
    layers_.push_back(std::make_unique<Convolution>(LayerOf(operation, kRows)));
    FillStripe(*layers_.back(), rank % kRanks * kRows);
    layers_.back()->UseHandle(handle_);
  }
  EXPECT_EQ(cudaMalloc(&workspace_, kWorkspaceBytes), cudaSuccess);
  planned_ = std::make_unique<Convolution>(LayerOf(Operation::kForward, kRows));
  FillStripe(*planned_, rank % kRanks * kRows);
  graph_.emplace(planned_->problem(), GraphOptions{}, DropIn(),
                 cudnn::PlanDevice{handle_, nullptr});
}

SplitRank::~SplitRank() {
  plan_.reset();
  graph_.reset();
  planned_.reset();
  layers_.clear();
  EXPECT_EQ(cudaFree(workspace_), cudaSuccess);
  EXPECT_EQ(cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
}

bool SplitRank::MakePlan() {
  if (!plan_) plan_ = graph_->Plan(kPlanEngine);
  return plan_.has_value();
}

void SplitRank::Call(Round& round) {
  for (const auto& layer : layers_) round.push_back({layer->Run(DropIn(), 0, nullptr, 0), {}});
}

void SplitRank::CallPlan(Round& round) {
  const auto pack = PackOf(*planned_, workspace_);
  round.push_back({pack ? cudnnBackendExecute(handle_, plan_->get(), pack->get())
                        : CUDNN_STATUS_EXECUTION_FAILED,
                   {}});
}

cudnnStatus_t SplitRank::Populate(cudaGraph_t graph) {
  const auto pack = PackOf(*planned_, workspace_);
  return cudnnBackendPopulateCudaGraph(handle_, plan_->get(), pack->get(), graph);
}

cudnnStatus_t SplitRank::CallRefused() {
  Convolution& layer = *layers_.front();
  const float one = 1, zero = 0;
  cudnnTensorDescriptor_t bias = nullptr;
  cudnnActivationDescriptor_t relu = nullptr;
  EXPECT_EQ(cudnnCreateTensorDescriptor(&bias), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnSetTensor4dDescriptor(bias, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1,
                                       layer.problem().k, 1, 1),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnCreateActivationDescriptor(&relu), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0),
            CUDNN_STATUS_SUCCESS);
  const cudnn::Descriptors& of = layer.descriptors();
  const cudnnStatus_t status = cudnnConvolutionBiasActivationForward(
      handle_, &one, of.x, layer.x.memory.data(), of.w, layer.w.memory.data(), of.convolution,
      CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, nullptr, 0, &zero, bias,
      layer.w.memory.data(), bias, layer.w.memory.data(), relu, of.y, layer.y.memory.data());
  EXPECT_EQ(cudnnDestroyActivationDescriptor(relu), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnDestroyTensorDescriptor(bias), CUDNN_STATUS_SUCCESS);
  return status;
}

void SplitRank::Read(Round& round) {
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  for (size_t i = 0; i < round.size(); ++i) {
    Convolution& layer = i < layers_.size() ? *layers_[i] : *planned_;
    round[i].values = ValuesOf(layer, layer.TakeOutput());
    EXPECT_TRUE(layer.NothingElseWasWritten());
  }
}

}  // namespace ucudnn::test
