// Execution plans of the graph API as engines: "graph:38[k2=1]" is engine 38 of the plan's own
// operation graph with knob 2 at 1. A plan serves its own graph at any batch, through its JSON.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cudnn/backend.h"
#include "cudnn/engine.h"
#include "cudnn/graph_plan.h"

namespace ucudnn::cudnn {

// What is kept of a finalized plan, to build it again for other batches.
struct GraphTemplate {
  std::string json;
  GraphPlan plan;
  planning::NumericClass numeric = planning::NumericClass::kDirect;
  bool deterministic = false;
  EngineNotes notes;
  // Made for a legacy kernel: a call's own beta, 0 or 1, holds, not the plan's.
  bool callers_beta = false;
};

// Whether an engine rounds no worse than another, and is deterministic and hands on NaNs if that
// one is and does: of what the other does not do, it converts nothing down, reduces nothing in
// lower precision and transforms nothing. Arithmetic in tensor cores as such is no loss.
bool IsExactAs(const EngineNotes& engine, const EngineNotes& other);

// Reads a finalized plan, whose JSON is `json`; an error says why it is left alone.
Result<GraphTemplate> ReadTemplate(const Functions& functions, cudnnBackendDescriptor_t plan,
                                   std::string json);
Result<GraphTemplate> ReadTemplate(const Functions& functions, cudnnBackendDescriptor_t plan);

// The same operation graph with the engine that "graph:38[k2=1]" names; other knobs are left at
// their default.
Result<GraphTemplate> WithOtherEngine(const Functions& functions, const PlanDevice& device,
                                      const GraphTemplate& original, std::string_view engine);

// `original` for another batch and other scales, finalized; an error when the library refuses it or
// what it built does not say what was asked for.
Result<BackendDescriptor> BuildAtBatch(const Functions& functions, const PlanDevice& device,
                                       const GraphTemplate& original, int n, double alpha,
                                       double beta);

class GraphEngines : public Engines {
 public:
  // The engines of `templates`, which are plans of one operation graph and outlive this object.
  // `device` is where plans are built; a handle's stream is where PreparedProblem::Run enqueues.
  GraphEngines(const Functions& functions, const PlanDevice& device,
               std::vector<const GraphTemplate*> templates)
      : functions_(functions), device_(device), templates_(std::move(templates)) {}

  // Each engine that can be built for the batch. The workspace is what it needs whether or not it
  // accumulates.
  Result<std::unique_ptr<PreparedProblem>> Prepare(const ConvolutionProblem& problem) override;
  Result<std::unique_ptr<Piece>> MakePiece(const ConvolutionProblem& problem,
                                           const MicroConfiguration& micro) override;
  Result<std::unique_ptr<PartialSum>> MakeSum(const ConvolutionProblem& problem) override {
    return PartialSum::Create(functions_, problem);
  }

 private:
  const GraphTemplate* Find(const std::string& engine) const;

  const Functions& functions_;
  const PlanDevice device_;
  const std::vector<const GraphTemplate*> templates_;
};

}  // namespace ucudnn::cudnn
