#include "cudnn/part_engines.h"

#include <utility>

#include "cudnn/compiled_plan.h"
#include "cudnn/graph_parts.h"
#include "cudnn/plan_edit.h"

namespace ucudnn::cudnn {
namespace {

// The most choices of the heuristics that are tried. The number is large because many choices may
// round worse than the plan.
constexpr int64_t kChoicesLookedAt = 16;

// Returns `own` with the engine of `plan`, which is a plan of a part of the convolution of `own`.
Result<GraphTemplate> WithEngineOf(const GraphTemplate& plan, const GraphTemplate& own) {
  GraphTemplate other = own;
  UCUDNN_ASSIGN_OR_RETURN(EditedPlan edited,
                          WithEngine(own.json, own.convolution, plan.convolution.engine.Unfused()));
  other.json = std::move(edited.json);
  other.convolution = std::move(edited.convolution);
  other.numeric = plan.numeric;
  other.deterministic = plan.deterministic;
  other.notes = plan.notes;
  return other;
}

}  // namespace

std::vector<GraphTemplate> EnginesOfPart(const Functions& functions, const PlanDevice& device,
                                         const GraphTemplate& own, const ConvolutionProblem& part,
                                         size_t most) {
  std::vector<GraphTemplate> engines;
  const FusedConvolution& convolution = own.convolution;
  const auto json = EditPlan(own.json, convolution, {part, convolution.alpha, convolution.beta});
  if (!json.ok()) return engines;
  const auto graph = GraphOfPlan(functions, device, *json);
  if (!graph.ok()) return engines;
  for (const BackendDescriptor& configuration :
       ChosenConfigurations(functions, device, graph->get(), kChoicesLookedAt)) {
    if (engines.size() == most) break;
    // Notes are read before the plan is built, because building may take long.
    const auto notes = ConfigurationNotes(functions, configuration.get());
    if (!notes.ok() || !RoundsNoWorse(*notes, own.notes) || FallsToTf32(*notes, own)) continue;
    const auto plan = MakePlan(functions, device, configuration.get());
    if (!plan.ok()) continue;
    const auto read = ReadTemplate(functions, plan->get());
    if (!read.ok() || read->convolution.compiled != convolution.compiled) continue;
    auto other = WithEngineOf(*read, own);
    if (!other.ok()) continue;
    // The engine is listed only if the plan that is edited for the part equals the plan that the
    // library itself built for the part.
    const auto edited =
        EditPlan(other->json, other->convolution, {part, convolution.alpha, convolution.beta});
    if (!edited.ok()) continue;
    const auto says = ReadFusedConvolution(*edited);
    if (says.ok() && *says == read->convolution) engines.push_back(std::move(*other));
  }
  return engines;
}

}  // namespace ucudnn::cudnn
