// Execution plans of the graph API as engines: "graph:38[k2=1]" is engine 38 of the plan's own
// operation graph with knob 2 at 1. A plan for a part of this graph is built from edited JSON. A
// plan whose CUDA kernels are compiled for one batch is compiled again instead (compiled_plan.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cudnn/backend.h"
#include "cudnn/engine.h"
#include "cudnn/fused_convolution.h"
#include "cudnn/plan_edit.h"

namespace ucudnn::cudnn {

// The data of a finalized plan that are needed to build the plan again for parts of its
// convolution.
struct GraphTemplate {
  std::string json;
  FusedConvolution convolution;
  NumericClass numeric = NumericClass::kDirect;
  bool deterministic = false;
  EngineNotes notes;
  // True if the plan was made for a legacy kernel. The plan's beta is then replaced by the call's
  // own beta, which is 0 or 1.
  bool callers_beta = false;
};

// Returns whether `engine` rounds no worse than `other`, and is deterministic if `other` is.
// `engine` may convert to a narrower type, sum in lower precision or transform (Winograd, FFT) only
// if `other` does the same. Tensor cores alone do not count as worse.
bool RoundsNoWorse(const EngineNotes& engine, const EngineNotes& other);
// Returns whether `engine` may replace `other`: it rounds no worse, and propagates NaNs if `other`
// does.
bool IsExactAs(const EngineNotes& engine, const EngineNotes& other);

// Returns whether the engine with the notes `other` computes in TF32 while the engine of `own`
// computes in fp32.
bool FallsToTf32(const EngineNotes& other, const GraphTemplate& own);
// Returns whether `other` computes the same convolution as `own`, is as exact (IsExactAs), and does
// not compute in TF32 where `own` computes in fp32 (FallsToTf32).
bool MayReplace(const GraphTemplate& other, const GraphTemplate& own);

// Reads a finalized plan, whose JSON is `json`. The error says why ucudnn does not divide the plan.
Result<GraphTemplate> ReadTemplate(const Functions& functions, cudnnBackendDescriptor_t plan,
                                   std::string json);
Result<GraphTemplate> ReadTemplate(const Functions& functions, cudnnBackendDescriptor_t plan);

// Returns a template of the operation graph of `original` with `engine`, which names no fused
// operations. Knobs that `engine` does not name have their default.
Result<GraphTemplate> WithOtherEngine(const Functions& functions, const PlanDevice& device,
                                      const GraphTemplate& original, const EngineId& engine);

// Builds a finalized plan of `original`, changed by `edit`. Fails if the library refuses the edited
// JSON, or if a plan that is compiled again does not have the edited JSON.
Result<BackendDescriptor> BuildPart(const Functions& functions, const PlanDevice& device,
                                    const GraphTemplate& original, const PlanEdit& edit);

class GraphEngines : public Engines {
 public:
  // `templates` are plans of one operation graph; the caller owns them and keeps them alive. Plans
  // are built on `device`.
  GraphEngines(const Functions& functions, const PlanDevice& device,
               std::vector<const GraphTemplate*> templates)
      : functions_(functions), device_(device), templates_(std::move(templates)) {}

  // Returns each engine that can be built for the part. The stated workspace is enough whether the
  // piece adds or not.
  Result<std::vector<ListedEngine>> List(const ConvolutionProblem& part) override;
  // A piece uses the beta of the call if GraphTemplate::callers_beta is true and the scales are not
  // plain. Such a piece for a gradient of the filter may add even if scales.may_add is false.
  Result<std::unique_ptr<Piece>> MakePiece(const ConvolutionProblem& part, const EngineId& engine,
                                           const PieceScales& scales,
                                           size_t workspace_bytes) override;
  Result<std::unique_ptr<PartialSum>> MakeSum(const ConvolutionProblem& problem) override {
    return PartialSum::Create(functions_, problem);
  }

 private:
  const GraphTemplate* Find(const EngineId& engine) const;
  Result<std::unique_ptr<Piece>> Build(const GraphTemplate& original,
                                       const ConvolutionProblem& part,
                                       const PieceScales& scales) const;

  const Functions& functions_;
  const PlanDevice device_;
  const std::vector<const GraphTemplate*> templates_;
};

}  // namespace ucudnn::cudnn
