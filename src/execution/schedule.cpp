#include "execution/schedule.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <string>

#include "convolution/partial_sums.h"
#include "cudnn/descriptors.h"

namespace ucudnn::execution {
namespace {

bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a), b_begin = reinterpret_cast<uintptr_t>(b);
  return a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

// Partials lie on kPartialSumAlignment.
Status CheckPartialAlignment(size_t needed) {
  if (needed > 0 && kPartialSumAlignment % needed == 0) return Status::Ok();
  return Status::Error("a partial is on " + std::to_string(kPartialSumAlignment) +
                       " bytes, not on " + std::to_string(needed));
}

}  // namespace

Result<std::unique_ptr<Schedule>> Schedule::Make(cudnn::Engines& engines, const Ingredients& of) {
  std::unique_ptr<Schedule> schedule(new Schedule(of.problem));
  if (!of.undivided.engine.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(schedule->undivided_,
                            engines.MakePiece(of.problem, of.undivided.engine, of.scales,
                                              of.undivided.workspace_bytes));
  }
  if (!of.configuration.runs.empty()) {
    UCUDNN_RETURN_IF_ERROR(schedule->MakePieces(engines, of));
  }
  return schedule;
}

Status Schedule::MakePieces(cudnn::Engines& engines, const Ingredients& of) {
  if (!of.configuration.Covers(problem_.n)) {
    return Status::Error("a configuration of " + std::to_string(of.configuration.Images()) +
                         " images does not divide " + Describe(problem_));
  }
  workspace_bytes_ = of.configuration.WorkspaceBytes();
  cudnn::PieceScales scales = of.scales;
  if (of.configuration.Pieces() > 1) {
    scales.may_add = adds_up_;
    if (SumsPartials(problem_)) {
      scales = {.are_plain = true, .may_add = false};
      if (workspace_bytes_ < PartialSumBytes(problem_)) {
        return Status::Error("a workspace of " + std::to_string(workspace_bytes_) +
                             " bytes does not hold the sum of partials of " + Describe(problem_));
      }
      UCUDNN_ASSIGN_OR_RETURN(sum_, engines.MakeSum(problem_));
    }
  }
  int64_t images = 0;
  for (size_t run = 0; run < of.configuration.runs.size(); ++run) {
    const auto& [micro, count] = of.configuration.runs[run];
    assert(count >= 1 && micro.micro_batch >= 1);
    ConvolutionProblem part = problem_;
    part.n = micro.micro_batch;
    UCUDNN_ASSIGN_OR_RETURN(
        std::unique_ptr<cudnn::Piece> piece,
        engines.MakePiece(part, micro.engine, scales, EngineBytes(problem_, micro)));
    if (sum_ != nullptr) {
      UCUDNN_RETURN_IF_ERROR(CheckPartialAlignment(piece->FilterAlignment()));
      partial_alignment_ = std::max(partial_alignment_, piece->FilterAlignment());
    }
    for (int i = 0; i < count; ++i, images += micro.micro_batch) {
      parts_.push_back({piece.get(), run, static_cast<int>(parts_.size()),
                        cudnn::AtImage(problem_, of.fused, images)});
    }
    pieces_.push_back(std::move(piece));
  }
  return Status::Ok();
}

bool Schedule::Suits(const void* workspace) const {
  return sum_ == nullptr || reinterpret_cast<uintptr_t>(workspace) % partial_alignment_ == 0;
}

Schedule::Work::Work(const Schedule& schedule, const cudnn::ConvolutionCall& call, void* sums,
                     void* workspace)
    : schedule_(schedule), whole_(call), sums_(sums), part_(call) {
  cudnn::ConvolutionCall& part = part_.get();
  part.workspace = workspace;
  if (schedule.parts_.size() > 1) {
    // The caller's describe all images.
    part.descriptors.x = nullptr;
    part.descriptors.y = nullptr;
  }
  if (schedule.sums_partials()) {
    part.alpha = cudnn::OneOf(schedule.problem_.type);
    part.beta = cudnn::ZeroOf(schedule.problem_.type);
  }
}

const cudnn::ConvolutionCall& Schedule::Work::CallOf(const Part& part) {
  part_.MoveTo(part.at);
  cudnn::ConvolutionCall& call = part_.get();
  call.workspace_bytes = part.piece->workspace_bytes();
  if (schedule_.sums_partials()) call.w = schedule_.sum_->Partial(sums_);
  return call;
}

cudnnStatus_t Schedule::Work::Enqueue(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kSum:
      return schedule_.sum_->Add(whole_.handle, sums_, !step.adds);
    case Step::Kind::kStore:
      return schedule_.sum_->Store(whole_.handle, sums_, whole_.alpha, whole_.beta, whole_.w);
    case Step::Kind::kPiece:
      break;
  }
  return step.part->piece->Run(CallOf(*step.part), step.adds);
}

// Whether the undivided engine may run after pieces have changed the output: only if it neither
// reads that output nor reads inputs from its memory.
bool Schedule::MayRerun(const cudnn::ConvolutionCall& call) const {
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

cudnnStatus_t Schedule::Run(const cudnn::ConvolutionCall& call, Outcome& outcome) const {
  if (!has_pieces()) return RunUndivided(call, outcome);
  const bool usable = call.workspace != nullptr || workspace_bytes_ == 0;
  if (!usable || call.workspace_bytes < workspace_bytes_) {
    outcome = Outcome::kNotAttempted;
    return CUDNN_STATUS_SUCCESS;
  }
  if (!Suits(call.workspace)) return RunUndivided(call, outcome);
  Work work(*this, call, call.workspace,
            sums_partials() ? sum_->EngineWorkspace(call.workspace) : call.workspace);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  bool untouched = true;
  const bool all = ForEach([&](const Step& step) {
    status = work.Enqueue(step);
    if (status != CUDNN_STATUS_SUCCESS) return false;
    untouched = sums_partials();
    return true;
  });
  if (!all) return AfterFailure(call, status, untouched, outcome);
  outcome = Outcome::kPlanned;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Schedule::AfterFailure(const cudnn::ConvolutionCall& call, cudnnStatus_t status,
                                     bool untouched, Outcome& outcome) const {
  const bool may_run_again = untouched || MayRerun(call);
  if (has_undivided() && may_run_again) return RunUndivided(call, outcome);
  outcome = may_run_again ? Outcome::kNotAttempted : Outcome::kFailed;
  return status;
}

cudnnStatus_t Schedule::RunUndivided(const cudnn::ConvolutionCall& call, Outcome& outcome) const {
  const size_t bytes = has_undivided() ? undivided_->workspace_bytes() : 0;
  const bool usable = call.workspace != nullptr || bytes == 0;
  if (!has_undivided() || !usable || call.workspace_bytes < bytes) {
    outcome = Outcome::kNotAttempted;
    return CUDNN_STATUS_SUCCESS;
  }
  cudnn::ConvolutionCall undivided = call;
  undivided.workspace_bytes = bytes;
  outcome = Outcome::kUndivided;
  return undivided_->Run(undivided, false);
}

}  // namespace ucudnn::execution
