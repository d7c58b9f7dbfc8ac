// A configuration made ready for one problem: a piece for every micro-batch, whichever API its
// engine belongs to, offsets, and the undivided engine that may take its place. Immutable after
// Create; a call allocates nothing, takes no lock and does not synchronise.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "cudnn/descriptors.h"
#include "cudnn/engine.h"
#include "cudnn/legacy_call.h"

namespace ucudnn::execution {

enum class Outcome {
  kPlanned,       // every piece was enqueued
  kUndivided,     // a piece failed; the undivided engine took its place, the result is right
  kFailed,        // a piece failed where a rerun would add twice; the error is the genuine one
  kNotAttempted,  // the workspace passed is too small or missing; the output was not touched
};

class PlannedConvolution {
 public:
  // `configuration` and `undivided` hold engines that `engines` makes pieces of. An `undivided`
  // without an engine means that nothing can take the pieces' place.
  static Result<std::unique_ptr<PlannedConvolution>> Create(cudnn::Engines& engines,
                                                            const ConvolutionProblem& problem,
                                                            const Configuration& configuration,
                                                            const MicroConfiguration& undivided);
  // The same for legacy engines with the problem's own math type.
  static Result<std::unique_ptr<PlannedConvolution>> Create(const cudnn::Functions& functions,
                                                            const ConvolutionProblem& problem,
                                                            const Configuration& configuration,
                                                            const MicroConfiguration& undivided);

  // Without pieces: `undivided` in their place from the start. A legacy engine needs no descriptors
  // of its own for that.
  static Result<std::unique_ptr<PlannedConvolution>> CreateUndivided(
      cudnn::Engines& engines, const ConvolutionProblem& problem,
      const MicroConfiguration& undivided);
  static Result<std::unique_ptr<PlannedConvolution>> CreateUndivided(
      const cudnn::Functions& functions, const ConvolutionProblem& problem,
      const MicroConfiguration& undivided);

  // Enqueues all pieces of `call`, whose descriptors describe the problem this was made for. Uses
  // at most the larger of both workspaces, out of what the caller passed. Pieces whose partials are
  // summed (convolution/partial_sums.h) leave the output alone until all are: whatever fails, the
  // undivided engine may still take their place. It does from the start where the workspace is not
  // suitable.
  cudnnStatus_t Run(const cudnn::LegacyCall& call, Outcome& outcome) const;
  // The undivided engine alone, inside the same workspace.
  cudnnStatus_t RunUndivided(const cudnn::LegacyCall& call, Outcome& outcome) const;

  // False where partials would lie in `workspace` otherwise aligned than engines expect.
  bool Suits(const void* workspace) const;

  bool has_pieces() const { return !parts_.empty(); }
  bool has_undivided() const { return undivided_ != nullptr; }

 private:
  struct Part {  // `count` equal pieces in a row
    std::unique_ptr<cudnn::Piece> piece;
    int count;
    size_t x_bytes;  // from one piece to the next
    size_t y_bytes;
    size_t workspace_bytes;
  };

  explicit PlannedConvolution(const ConvolutionProblem& problem) : problem_(problem) {}
  bool MayRerun(const cudnn::LegacyCall& call) const;

  ConvolutionProblem problem_;
  std::vector<Part> parts_;
  std::unique_ptr<cudnn::PartialSum> sum_;  // null: pieces write the output themselves
  size_t partial_alignment_ = cudnn::kLegacyAlignment;
  size_t workspace_bytes_ = 0;
  std::unique_ptr<cudnn::Piece> undivided_;
  size_t undivided_bytes_ = 0;
};

}  // namespace ucudnn::execution
