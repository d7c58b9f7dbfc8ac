// A configuration made ready for one problem: descriptors of every micro-batch, offsets, and the
// undivided algorithm that may take its place. Immutable after Create; a call allocates nothing,
// takes no lock and does not synchronise.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "cudnn/descriptors.h"
#include "cudnn/legacy_call.h"

namespace ucudnn::execution {

enum class Outcome {
  kPlanned,       // every piece was enqueued
  kUndivided,     // a piece failed; the undivided algorithm took its place, the result is right
  kFailed,        // a piece failed where a rerun would add twice; the error is the genuine one
  kNotAttempted,  // the workspace passed is too small or missing; nothing was enqueued
};

class PlannedConvolution {
 public:
  // `configuration` and `undivided` hold legacy engines with the problem's own math type. An
  // `undivided` without an engine means that nothing can take the pieces' place.
  static Result<std::unique_ptr<PlannedConvolution>> Create(const cudnn::Functions& functions,
                                                            const ConvolutionProblem& problem,
                                                            const Configuration& configuration,
                                                            const MicroConfiguration& undivided);

  // Without pieces: `undivided` in their place from the start. Needs no descriptors of its own.
  static Result<std::unique_ptr<PlannedConvolution>> CreateUndivided(
      const cudnn::Functions& functions, const ConvolutionProblem& problem,
      const MicroConfiguration& undivided);

  // Enqueues all pieces of `call`, whose descriptors describe the problem this was made for. Uses
  // at most the larger of both workspaces, out of what the caller passed.
  cudnnStatus_t Run(const cudnn::LegacyCall& call, Outcome& outcome) const;
  // The undivided algorithm alone, inside the same workspace.
  cudnnStatus_t RunUndivided(const cudnn::LegacyCall& call, Outcome& outcome) const;

  bool has_pieces() const { return !parts_.empty(); }
  bool has_undivided() const { return undivided_algorithm_ != kNoAlgorithm; }

 private:
  static constexpr int kNoAlgorithm = -1;
  struct Part {  // `count` equal pieces in a row
    int algorithm;
    int count;
    cudnn::OwnedDescriptors tensors;
    size_t x_bytes;  // from one piece to the next
    size_t y_bytes;
    size_t workspace_bytes;
  };

  PlannedConvolution(const cudnn::Functions& functions, const ConvolutionProblem& problem)
      : functions_(functions), problem_(problem) {}
  bool MayRerun(const cudnn::LegacyCall& call) const;

  const cudnn::Functions& functions_;
  ConvolutionProblem problem_;
  std::vector<Part> parts_;
  size_t workspace_bytes_ = 0;
  int undivided_algorithm_ = kNoAlgorithm;
  size_t undivided_bytes_ = 0;
};

}  // namespace ucudnn::execution
