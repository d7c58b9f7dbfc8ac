#include "execution/micro_batched_convolution.h"

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_engines.h"

namespace ucudnn::execution {
namespace {

// The scales of partials, which are summed apart from the caller's.
constexpr float kOne = 1, kZero = 0;

void* Advance(void* pointer, size_t bytes) { return static_cast<char*>(pointer) + bytes; }

bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a), b_begin = reinterpret_cast<uintptr_t>(b);
  return a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

}  // namespace

Result<std::unique_ptr<MicroBatchedConvolution>> MicroBatchedConvolution::Create(
    const cudnn::Functions& functions, const ConvolutionProblem& problem,
    const Configuration& configuration, const MicroConfiguration& undivided) {
  // Making pieces needs no handle.
  cudnn::LegacyEngines engines(functions, nullptr);
  return Create(engines, problem, configuration, undivided);
}

Result<std::unique_ptr<MicroBatchedConvolution>> MicroBatchedConvolution::CreateUndivided(
    const cudnn::Functions& functions, const ConvolutionProblem& problem,
    const MicroConfiguration& undivided) {
  cudnn::LegacyEngines engines(functions, nullptr);
  return CreateUndivided(engines, problem, undivided);
}

Result<std::unique_ptr<MicroBatchedConvolution>> MicroBatchedConvolution::Create(
    cudnn::Engines& engines, const ConvolutionProblem& problem, const Configuration& configuration,
    const MicroConfiguration& undivided) {
  UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<MicroBatchedConvolution> runnable,
                          CreateUndivided(engines, problem, undivided));
  if (configuration.Images() != problem.n) {
    return Status::Error("a configuration of " + std::to_string(configuration.Images()) +
                         " images does not divide " + Describe(problem));
  }
  const size_t element = ElementBytes(problem.type);
  for (const ucudnn::Run& run : configuration.runs) {
    assert(run.count >= 1 && run.micro.micro_batch >= 1);
    MicroConfiguration micro = run.micro;
    micro.workspace_bytes = EngineBytes(problem, run.micro);
    UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<cudnn::Piece> piece, engines.MakePiece(problem, micro));
    runnable->partial_alignment_ = std::max(runnable->partial_alignment_, piece->FilterAlignment());
    const auto images = static_cast<size_t>(micro.micro_batch);
    runnable->parts_.push_back({std::move(piece), run.count, images,
                                images * static_cast<size_t>(problem.x_strides[0]) * element,
                                images * static_cast<size_t>(problem.y_strides[0]) * element,
                                micro.workspace_bytes});
  }
  if (configuration.Pieces() > 1 && SumsPartials(problem)) {
    if (configuration.WorkspaceBytes() < PartialSumBytes(problem)) {
      return Status::Error("a workspace of " + std::to_string(configuration.WorkspaceBytes()) +
                           " bytes does not hold the sum of partials of " + Describe(problem));
    }
    UCUDNN_ASSIGN_OR_RETURN(runnable->sum_, engines.MakeSum(problem));
  }
  runnable->workspace_bytes_ = configuration.WorkspaceBytes();
  return runnable;
}

Result<std::unique_ptr<MicroBatchedConvolution>> MicroBatchedConvolution::CreateUndivided(
    cudnn::Engines& engines, const ConvolutionProblem& problem,
    const MicroConfiguration& undivided) {
  std::unique_ptr<MicroBatchedConvolution> runnable(new MicroBatchedConvolution(problem));
  if (!undivided.engine.empty()) {
    MicroConfiguration of_all = undivided;
    of_all.micro_batch = problem.n;
    UCUDNN_ASSIGN_OR_RETURN(runnable->undivided_, engines.MakePiece(problem, of_all));
    runnable->undivided_bytes_ = undivided.workspace_bytes;
  }
  return runnable;
}

bool MicroBatchedConvolution::Suits(const void* workspace) const {
  return sum_ == nullptr || reinterpret_cast<uintptr_t>(workspace) % partial_alignment_ == 0;
}

// Whether the undivided engine may run after pieces have changed the output: only if it neither
// reads that output nor reads inputs from its memory.
bool MicroBatchedConvolution::MayRerun(const cudnn::ConvolutionCall& call) const {
  const size_t x_bytes = cudnn::ImageBytes(problem_);
  const size_t w_bytes = cudnn::FilterBytes(problem_);
  const size_t y_bytes = cudnn::OutputBytes(problem_);
  if (call.bias != nullptr) {
    const bool reads_z = cudnn::ScaleOf(call.bias->alpha2, problem_.type) != 0;
    if (reads_z && Overlap(call.bias->z, y_bytes, call.y, y_bytes)) return false;
    const size_t bias_bytes = problem_.k * ElementBytes(problem_.type);
    if (Overlap(call.bias->bias, bias_bytes, call.y, y_bytes)) return false;
  } else if (cudnn::ScaleOf(call.beta, problem_.type) != 0) {
    return false;
  }
  if (call.fused != nullptr) {
    const bool forward = problem_.operation == Operation::kForward;
    const std::span<const cudnn::FusedOperand> operands = call.fused->operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (Overlap(call.fused->pointers[i], operands[i].Bytes(problem_.n), forward ? call.y : call.x,
                  forward ? y_bytes : x_bytes)) {
        return false;
      }
    }
  }
  switch (problem_.operation) {
    case Operation::kForward:
      return !Overlap(call.y, y_bytes, call.x, x_bytes) &&
             !Overlap(call.y, y_bytes, call.w, w_bytes);
    case Operation::kBackwardData:
      return !Overlap(call.x, x_bytes, call.y, y_bytes) &&
             !Overlap(call.x, x_bytes, call.w, w_bytes);
    case Operation::kBackwardFilter:
      return !Overlap(call.w, w_bytes, call.x, x_bytes) &&
             !Overlap(call.w, w_bytes, call.y, y_bytes);
  }
  return false;
}

cudnnStatus_t MicroBatchedConvolution::Run(const cudnn::ConvolutionCall& call,
                                           Outcome& outcome) const {
  if (parts_.empty()) return RunUndivided(call, outcome);
  const bool usable = call.workspace != nullptr || workspace_bytes_ == 0;
  if (!usable || call.workspace_bytes < workspace_bytes_) {
    outcome = Outcome::kNotAttempted;
    return CUDNN_STATUS_SUCCESS;
  }
  if (!Suits(call.workspace)) return RunUndivided(call, outcome);
  cudnn::ConvolutionCall piece = call;
  if (sum_ != nullptr) {
    piece.alpha = &kOne;
    piece.beta = &kZero;
    piece.w = sum_->Partial(call.workspace);
    piece.workspace = sum_->EngineWorkspace(call.workspace);
  }
  cudnn::BiasActivation bias;
  if (call.bias != nullptr) {
    bias = *call.bias;
    piece.bias = &bias;
  }
  cudnn::FusedPointers fused;
  if (call.fused != nullptr) {
    fused = *call.fused;
    piece.fused = &fused;
  }
  int done = 0;
  for (const Part& part : parts_) {
    assert(part.workspace_bytes <= call.workspace_bytes);
    piece.workspace_bytes = part.workspace_bytes;
    for (int i = 0; i < part.count; ++i) {
      // Gradients of the filter add up, so the caller's beta holds for the first piece only.
      const bool accumulate =
          problem_.operation == Operation::kBackwardFilter && done > 0 && sum_ == nullptr;
      cudnnStatus_t status = part.piece->Run(piece, accumulate);
      if (status == CUDNN_STATUS_SUCCESS && sum_ != nullptr) {
        status = sum_->Add(call.handle, call.workspace, done == 0);
      }
      if (status != CUDNN_STATUS_SUCCESS) {
        return AfterFailure(call, status, done == 0 || sum_ != nullptr, outcome);
      }
      ++done;
      piece.x = Advance(piece.x, part.x_bytes);
      piece.y = Advance(piece.y, part.y_bytes);
      if (bias.z != nullptr) bias.z = static_cast<const char*>(bias.z) + part.y_bytes;
      fused.Advance(part.images);
    }
  }
  if (sum_ != nullptr) {
    const cudnnStatus_t status =
        sum_->Store(call.handle, call.workspace, call.alpha, call.beta, call.w);
    if (status != CUDNN_STATUS_SUCCESS) return AfterFailure(call, status, true, outcome);
  }
  outcome = Outcome::kPlanned;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t MicroBatchedConvolution::AfterFailure(const cudnn::ConvolutionCall& call,
                                                    cudnnStatus_t status, bool untouched,
                                                    Outcome& outcome) const {
  const bool may_run_again = untouched || MayRerun(call);
  if (has_undivided() && may_run_again) return RunUndivided(call, outcome);
  outcome = may_run_again ? Outcome::kNotAttempted : Outcome::kFailed;
  return status;
}

cudnnStatus_t MicroBatchedConvolution::RunUndivided(const cudnn::ConvolutionCall& call,
                                                    Outcome& outcome) const {
  const bool usable = call.workspace != nullptr || undivided_bytes_ == 0;
  if (!has_undivided() || !usable || call.workspace_bytes < undivided_bytes_) {
    outcome = Outcome::kNotAttempted;
    return CUDNN_STATUS_SUCCESS;
  }
  cudnn::ConvolutionCall undivided = call;
  undivided.workspace_bytes = undivided_bytes_;
  outcome = Outcome::kUndivided;
  return undivided_->Run(undivided, false);
}

}  // namespace ucudnn::execution
