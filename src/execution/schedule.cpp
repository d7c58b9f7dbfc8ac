#include "execution/schedule.h"

#include <algorithm>
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

// Partials are laid out in the workspace with the alignment kPartialSumAlignment. Fails if
// kPartialSumAlignment is no multiple of `needed`, the alignment that an engine needs.
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
  if (!of.division.configuration.runs.empty()) {
    UCUDNN_RETURN_IF_ERROR(schedule->MakePieces(engines, of));
  }
  return schedule;
}

Status Schedule::MakePieces(cudnn::Engines& engines, const Ingredients& of) {
  UCUDNN_RETURN_IF_ERROR(of.division.CheckCovers(problem_));
  const Configuration& configuration = of.division.configuration;
  const Tiles* const tiles = of.division.tiles.get();
  has_tiles_ = tiles != nullptr;
  workspace_bytes_ = configuration.WorkspaceBytes();
  cudnn::PieceScales scales = of.scales;
  const bool adds_up = of.division.AddsUp(problem_);
  if (adds_up) {
    scales.may_add = true;
    if (SumsPartials(problem_)) {
      scales = {.are_plain = true, .may_add = false};
      if (workspace_bytes_ < PartialSumBytes(problem_)) {
        return Status::Error("a workspace of " + std::to_string(workspace_bytes_) +
                             " bytes does not hold the sum of partials of " + Describe(problem_));
      }
      UCUDNN_ASSIGN_OR_RETURN(sum_, engines.MakeSum(problem_));
    }
  } else if (configuration.Pieces() > 1) {
    scales.may_add = false;
  }
  plain_scales_ = scales.are_plain;
  if (tiles != nullptr && std::any_of(tiles->kinds.begin(), tiles->kinds.end(),
                                      [](const TileKind& kind) { return PackedBytes(kind) > 0; })) {
    packings_.resize(configuration.runs.size());
  }
  for (size_t run = 0; run < configuration.runs.size(); ++run) {
    UCUDNN_RETURN_IF_ERROR(MakeRun(engines, of, scales, run));
  }
  int64_t images = 0;
  for (size_t run = 0; run < configuration.runs.size(); ++run) {
    const auto& [micro, count] = configuration.runs[run];
    for (int i = 0; i < count; ++i, images += micro.micro_batch) {
      const auto number = static_cast<int>(parts_.size());
      Part part = {pieces_[run].get(), pieces_[run]->workspace_bytes(), run, number};
      if (tiles != nullptr) {
        const Tile& tile = tiles->tiles[parts_.size()];
        part.at = cudnn::AtTile(problem_, of.fused, tile);
        part.result = static_cast<int>(tile.result);
      } else {
        part.at = cudnn::AtImage(problem_, of.fused, images);
        part.result = adds_up ? 0 : number;
      }
      if (packs_tiles() && packings_[run].packs()) part.packing = &packings_[run];
      takes_bias_ = takes_bias_ && part.at.w == 0;
      parts_.push_back(part);
    }
  }
  return Status::Ok();
}

Status Schedule::MakeRun(cudnn::Engines& engines, const Ingredients& of,
                         const cudnn::PieceScales& scales, size_t run) {
  const MicroConfiguration& micro = of.division.configuration.runs[run].micro;
  ConvolutionProblem part = problem_;
  part.n = micro.micro_batch;
  size_t bytes = EngineBytes(problem_, micro);
  if (of.division.tiles != nullptr) {
    const TileKind& kind = of.division.tiles->kinds[run];
    part = kind.problem;
    if (micro.engine.legacy() != nullptr && part.alignment < problem_.alignment) {
      return Status::Error(micro.engine.Text() + " may expect " +
                           std::to_string(problem_.alignment) + " bytes of alignment, and " +
                           Describe(part) + " begins on " + std::to_string(part.alignment));
    }
    UCUDNN_RETURN_IF_ERROR(cudnn::CheckReads(kind, of.fused));
    if (bytes < PackedBytes(kind)) {
      return Status::Error("a workspace of " + std::to_string(bytes) +
                           " bytes does not hold the copies of " + Describe(part));
    }
    bytes -= PackedBytes(kind);
    if (packs_tiles()) {
      UCUDNN_ASSIGN_OR_RETURN(packings_[run], TilePacking::Make(problem_, kind, of.copier));
      partial_alignment_ = std::max(partial_alignment_, static_cast<size_t>(part.alignment));
      takes_bias_ = takes_bias_ && !kind.packs_y;
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<cudnn::Piece> piece,
                          engines.MakePiece(part, micro.engine, scales, bytes));
  if (sum_ != nullptr) {
    UCUDNN_RETURN_IF_ERROR(CheckPartialAlignment(piece->FilterAlignment()));
    partial_alignment_ = std::max(partial_alignment_, piece->FilterAlignment());
  }
  pieces_.push_back(std::move(piece));
  return Status::Ok();
}

bool Schedule::Suits(const void* workspace) const {
  return (sum_ == nullptr && !packs_tiles()) ||
         reinterpret_cast<uintptr_t>(workspace) % partial_alignment_ == 0;
}

Schedule::Work::Work(const Schedule& schedule, const cudnn::ConvolutionCall& call, void* sums,
                     void* workspace)
    : schedule_(schedule), whole_(call), sums_(sums), workspace_(workspace), part_(call) {
  cudnn::ConvolutionCall& part = part_.get();
  // The caller's descriptors describe the undivided convolution. The descriptors of the filter and
  // of the convolution hold for any number of images. The descriptors of x and y hold only for all
  // images, so pieces use their own.
  if (schedule.parts_.size() > 1) {
    part.descriptors.x = nullptr;
    part.descriptors.y = nullptr;
  }
  if (schedule.has_tiles_) part.descriptors = {};
  if (schedule.sums_partials()) {
    part.alpha = cudnn::OneOf(schedule.problem_.type);
    part.beta = cudnn::ZeroOf(schedule.problem_.type);
  }
}

// If the scales are not plain, a plan of the graph API may contain a beta that the schedule does
// not know. So even a call without beta may read the old output.
bool Schedule::MayKeepOutput(const cudnn::ConvolutionCall& call) const {
  return !plain_scales_ && (call.beta == nullptr || cudnn::ScaleOf(call.beta, problem_.type) != 0);
}

cudnnStatus_t Schedule::Work::EnqueueBeside(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kPack:
      return step.part->packing->Pack(InPlace(*step.part), schedule_.MayKeepOutput(whole_));
    case Step::Kind::kUnpack:
      return step.part->packing->Unpack(InPlace(*step.part));
    case Step::Kind::kSum:
      return schedule_.sum_->Add(whole_.handle, sums_, !step.adds);
    case Step::Kind::kStore:
      return schedule_.sum_->Store(whole_.handle, sums_, whole_.alpha, whole_.beta, whole_.w);
    case Step::Kind::kPiece:
      break;
  }
  return CUDNN_STATUS_BAD_PARAM;
}

// Returns whether the undivided engine may run after pieces have changed the output. The engine may
// run if it does not read the output and no input shares the output's memory.
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
  if (!Suits(call.workspace) || (call.bias != nullptr && !takes_bias_)) {
    return RunUndivided(call, outcome);
  }
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
