// A configuration made ready for one problem: a piece for each run of micro-batches, whichever API
// its engine belongs to, and the undivided engine that may replace them. Immutable after Create; a
// call allocates nothing, takes no lock and does not synchronise.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "cudnn/convolution_call.h"
#include "cudnn/descriptors.h"
#include "cudnn/engine.h"
#include "execution/runnable.h"

namespace ucudnn::execution {

class MicroBatchedConvolution : public Runnable {
 public:
  // `engines` makes the pieces of `configuration` and of `undivided`. Where `undivided` has no
  // engine, nothing can replace the pieces.
  static Result<std::unique_ptr<MicroBatchedConvolution>> Create(
      cudnn::Engines& engines, const ConvolutionProblem& problem,
      const Configuration& configuration, const MicroConfiguration& undivided);
  // The same for legacy engines with the problem's own math type.
  static Result<std::unique_ptr<MicroBatchedConvolution>> Create(
      const cudnn::Functions& functions, const ConvolutionProblem& problem,
      const Configuration& configuration, const MicroConfiguration& undivided);

  // Makes no pieces: `undivided` always runs. Of a legacy engine this needs no descriptors of our
  // own.
  static Result<std::unique_ptr<MicroBatchedConvolution>> CreateUndivided(
      cudnn::Engines& engines, const ConvolutionProblem& problem,
      const MicroConfiguration& undivided);
  static Result<std::unique_ptr<MicroBatchedConvolution>> CreateUndivided(
      const cudnn::Functions& functions, const ConvolutionProblem& problem,
      const MicroConfiguration& undivided);

  // Enqueues all pieces of `call`, whose descriptors describe the problem that this was made for.
  // Uses at most the larger of both workspaces, within what the caller passed. Runs the undivided
  // engine instead where Suits() is false. Where partials are summed (convolution/partial_sums.h),
  // pieces leave the output alone until the end, so the undivided engine may replace them whenever
  // one fails.
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call, Outcome& outcome) const override;
  cudnnStatus_t RunUndivided(const cudnn::ConvolutionCall& call, Outcome& outcome) const override;
  // False where the partials in `workspace` would not be aligned as engines expect.
  bool Suits(const void* workspace) const override;
  bool has_pieces() const override { return !parts_.empty(); }
  bool has_undivided() const override { return undivided_ != nullptr; }

 private:
  struct Part {  // `count` equal pieces in a row
    std::unique_ptr<cudnn::Piece> piece;
    int count;
    size_t images;   // of each
    size_t x_bytes;  // from one piece to the next
    size_t y_bytes;
    size_t workspace_bytes;
  };

  explicit MicroBatchedConvolution(const ConvolutionProblem& problem) : problem_(problem) {}
  bool MayRerun(const cudnn::ConvolutionCall& call) const;
  // Ends a call whose piece failed with `status`: by the undivided engine where that may run, else
  // with the error. `untouched`: no piece has changed the output.
  cudnnStatus_t AfterFailure(const cudnn::ConvolutionCall& call, cudnnStatus_t status,
                             bool untouched, Outcome& outcome) const;

  ConvolutionProblem problem_;
  std::vector<Part> parts_;
  std::unique_ptr<cudnn::PartialSum> sum_;  // null: pieces write the output themselves
  size_t partial_alignment_ = cudnn::kLegacyAlignment;
  size_t workspace_bytes_ = 0;
  std::unique_ptr<cudnn::Piece> undivided_;
  size_t undivided_bytes_ = 0;
};

}  // namespace ucudnn::execution
