// A Schedule has the pieces that compute one convolution one after the other in one workspace, and
// the steps of a call: the pieces, the copies that pack tiles, and the sums of partial results.
// Calls, comparisons of plans, UCUDNN_CHECK and native CUDA graphs run exactly these steps.
// Immutable once made. A call allocates nothing, takes no lock and does not synchronise.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "convolution/tiles.h"
#include "cudnn/engine.h"
#include "cudnn/part_call.h"
#include "execution/tile_packing.h"

namespace ucudnn::execution {

enum class Outcome {
  kPlanned,    // every step was enqueued
  kUndivided,  // the undivided engine ran instead of the pieces; the status is the engine's
  // A piece failed after other pieces had changed the output, and a rerun would read the changed
  // output. The status is the error of the piece.
  kFailed,
  // There are two cases:
  // - Nothing was enqueued, because the workspace is missing or too small, or because the pieces
  //   cannot run and there is no undivided engine. The status is success.
  // - A piece failed, and there is no undivided engine. Another attempt may write the whole output
  //   again. The status is the piece's error.
  kNotAttempted,
};

// One part of the convolution, some images or a tile, and the piece that computes it.
struct Part {
  const cudnn::Piece* piece = nullptr;
  size_t workspace_bytes = 0;  // the piece's share of the workspace
  size_t run = 0;              // index of the part's run in the configuration
  int number = 0;              // index in the order of execution, from 0
  cudnn::Offsets at;
  // The number of the first part that writes this part's output; later parts add to that output. It
  // is the part's own number if no earlier part writes the same output.
  int result = 0;
  const TilePacking* packing = nullptr;  // null: the part's tensors are not packed
};

struct Step {
  enum class Kind {
    kPack,    // copies a part's input tensors to the workspace
    kPiece,   // computes a part
    kUnpack,  // copies a part's result back to the output
    kSum,     // adds a piece's partial to the sum
    kStore,   // rounds the sum and writes it to the output
  };
  Kind kind = Kind::kPiece;
  const Part* part = nullptr;  // null for kStore
  bool adds = false;  // the step adds to the output, or to the sum, instead of replacing it
};

// The inputs of Schedule::Make.
struct Ingredients {
  const ConvolutionProblem& problem;
  const Division& division;             // if it has no runs, `undivided` always runs
  const MicroConfiguration& undivided;  // if its engine is empty, nothing replaces the pieces
  std::span<const cudnn::FusedOperand> fused = {};
  cudnn::PieceScales scales = {};  // of `undivided`; MakePieces derives the pieces' scales
  Copier copier = {};              // must be set if tiles have packed copies
};

class Schedule {
 public:
  class Work;

  static Result<std::unique_ptr<Schedule>> Make(cudnn::Engines& engines, const Ingredients& of);

  // Enqueues all steps of `call`. The call's descriptors, if it has any, describe the whole
  // problem. Does nothing (kNotAttempted) if the call's workspace is smaller than the pieces need.
  // Runs the undivided engine instead of the pieces in three cases: Suits() is false; takes_bias_
  // is false and the call has a bias; or a piece fails while the output is unchanged or may be
  // written again. If partials are summed, only the last step changes the output.
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call, Outcome& outcome) const;
  // Enqueues the undivided engine alone, in the call's workspace.
  cudnnStatus_t RunUndivided(const cudnn::ConvolutionCall& call, Outcome& outcome) const;

  // Calls visit(step) for each step until `visit` returns false. Parts come in their order, but the
  // part `first` comes before all others. Returns whether all steps were visited.
  template <typename Visit>
  bool ForEach(Visit visit, size_t first = 0) const {
    using Kind = Step::Kind;
    const bool sums = sum_ != nullptr;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i == 0 ? first : i <= first ? i - 1 : i];
      const bool packs = part.packing != nullptr;
      const bool adds = i > 0 && !sums && Adds(part, parts_[first]);
      if (packs && !visit(Step{Kind::kPack, &part})) return false;
      if (!visit(Step{Kind::kPiece, &part, adds})) return false;
      if (packs && part.packing->unpacks() && !visit(Step{Kind::kUnpack, &part})) return false;
      if (sums && !visit(Step{Kind::kSum, &part, i > 0})) return false;
    }
    return !sums || visit(Step{Kind::kStore});
  }
  // Returns false if partials or copies in `workspace` would be less aligned than engines expect.
  bool Suits(const void* workspace) const;
  // Returns the number of steps that a call enqueues.
  int StepCount() const {
    int steps = 0;
    ForEach([&](const Step&) {
      ++steps;
      return true;
    });
    return steps;
  }
  bool has_pieces() const { return !parts_.empty(); }
  bool has_undivided() const { return undivided_ != nullptr; }
  bool sums_partials() const { return sum_ != nullptr; }
  bool packs_tiles() const { return !packings_.empty(); }

 private:
  explicit Schedule(const ConvolutionProblem& problem) : problem_(problem) {}
  // Returns whether `part` must add to its output. `first` runs before `part`. `part` adds if
  // `first` or an earlier part of the configuration has written the same output.
  static bool Adds(const Part& part, const Part& first) {
    return part.result != part.number || part.result == first.result;
  }
  Status MakePieces(cudnn::Engines& engines, const Ingredients& of);
  Status MakeRun(cudnn::Engines& engines, const Ingredients& of, const cudnn::PieceScales& scales,
                 size_t run);
  bool MayRerun(const cudnn::ConvolutionCall& call) const;
  // Returns whether pieces of `call` may read the old content of their output.
  bool MayKeepOutput(const cudnn::ConvolutionCall& call) const;
  // Ends a call whose piece failed with `status`: runs the undivided engine if a rerun is allowed,
  // otherwise returns `status`. `untouched` is true if no piece has changed the output.
  cudnnStatus_t AfterFailure(const cudnn::ConvolutionCall& call, cudnnStatus_t status,
                             bool untouched, Outcome& outcome) const;

  const ConvolutionProblem problem_;
  bool plain_scales_ = false;
  bool has_tiles_ = false;
  // True if every part can read the bias and z of a legacy call in the caller's memory.
  bool takes_bias_ = true;
  std::vector<std::unique_ptr<cudnn::Piece>> pieces_;  // by run of the configuration
  std::vector<TilePacking> packings_;                  // by run; empty if no tile is packed
  std::vector<Part> parts_;
  std::unique_ptr<cudnn::PartialSum> sum_;  // null: pieces write the output themselves
  size_t partial_alignment_ = cudnn::kLegacyAlignment;
  size_t workspace_bytes_ = 0;
  std::unique_ptr<cudnn::Piece> undivided_;
};

// One execution of a schedule for a call of the whole problem. Keeps references to the schedule and
// the call.
class Schedule::Work {
 public:
  // If partials are summed, `sums` has PartialSumBytes (convolution/partial_sums.h). `workspace` is
  // for the copies of packed tiles and for the engines.
  Work(const Schedule& schedule, const cudnn::ConvolutionCall& call, void* sums, void* workspace);

  // Enqueues one step of ForEach.
  cudnnStatus_t Enqueue(const Step& step) {
    if (step.kind != Step::Kind::kPiece) return EnqueueBeside(step);
    return step.part->piece->Run(CallOf(*step.part), step.adds);
  }
  // Returns the call of a part's piece. It is valid until the next CallOf.
  const cudnn::ConvolutionCall& CallOf(const Part& part) {
    cudnn::ConvolutionCall& call = InPlace(part);
    if (part.packing != nullptr) part.packing->MoveToCopies(call);
    return call;
  }

 private:
  // Enqueues a copy or a sum.
  cudnnStatus_t EnqueueBeside(const Step& step);
  // Returns the call of a part with pointers into the caller's tensors, not to packed copies.
  cudnn::ConvolutionCall& InPlace(const Part& part) {
    part_.MoveTo(part.at);
    cudnn::ConvolutionCall& call = part_.get();
    call.workspace = workspace_;
    call.workspace_bytes = part.workspace_bytes;
    if (schedule_.sums_partials()) call.w = schedule_.sum_->Partial(sums_);
    return call;
  }

  const Schedule& schedule_;
  const cudnn::ConvolutionCall& whole_;
  void* const sums_;
  void* const workspace_;
  cudnn::PartCall part_;
};

}  // namespace ucudnn::execution
