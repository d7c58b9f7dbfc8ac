// Lets execution plans follow a plan file: in the file's micro-batches, with their own engine and
// knobs; the first plan of a heuristics list with the engines that the file names.
#include <algorithm>

#include "interposer/graph/graph_kernel.h"
#include "interposer/pinned/confirm_plan.h"

namespace ucudnn::interposer {

EngineTemplates GraphSteps::EnginesOfFile(const Configuration& plan) {
  EngineTemplates engines;
  for (const Run& run : plan.runs) {
    const EngineId& name = run.micro.engine;
    EngineTemplate known = Find(name);
    if (known == nullptr) {
      if (!kernel_.is_first) return {};
      known = Serving(name.Unfused());
      if (known == nullptr || known->plan.engine.Unfused() != name.Unfused()) return {};
      known_.push_back(known);
    }
    engines.push_back(std::move(known));
  }
  return engines;
}

Result<Configuration> GraphSteps::Confirm(Configuration plan,
                                          const EngineTemplates& engines) const {
  std::vector<std::unique_ptr<cudnn::GraphEngines>> owned;
  std::vector<cudnn::Engines*> asked;
  for (size_t at = 0; at < plan.runs.size(); ++at) {
    plan.runs[at].micro.engine = engines[at]->plan.engine;
    owned.push_back(std::make_unique<cudnn::GraphEngines>(
        process_.functions, cudnn::PlanDevice{kernel_.handle, nullptr},
        std::vector<const cudnn::GraphTemplate*>{engines[at].get()}));
    asked.push_back(owned.back().get());
  }
  ConfirmedPlan confirmed = ConfirmPlan(kernel_.problem(), plan, asked);
  UCUDNN_RETURN_IF_ERROR(confirmed.status);
  return std::move(confirmed.plan);
}

Result<planning::PinnedExecution> GraphSteps::Pinned(const planning::PinnedKernel& kernel,
                                                     size_t limit_bytes) {
  const EngineId& own = kernel_.own->plan.engine;
  planning::PinnedExecution pinned;
  pinned.limit_bytes = limit_bytes;
  const EngineTemplates engines = EnginesOfFile(kernel.plan);
  if (!engines.empty()) {
    Configuration said = kernel.plan;
    for (Run& run : said.runs) {
      run.micro.workspace_bytes = std::min(run.micro.workspace_bytes, limit_bytes);
    }
    auto plan = Confirm(std::move(said), engines);
    const bool named_own = std::all_of(kernel.plan.runs.begin(), kernel.plan.runs.end(),
                                       [&](const Run& run) { return run.micro.engine == own; });
    if (named_own && !plan.ok()) return plan.status();
    if (plan.ok()) {
      pinned.plan = std::move(*plan);
      pinned.reason = {planning::Because::kPlanFile};
      return pinned;
    }
  }
  Configuration in_own = kernel.plan;
  for (Run& run : in_own.runs) {
    run.micro.workspace_bytes = limit_bytes;
    run.micro.time_ms = kUnknownTime;
  }
  UCUDNN_ASSIGN_OR_RETURN(
      pinned.plan,
      Confirm(std::move(in_own), EngineTemplates(kernel.plan.runs.size(), kernel_.own)));
  pinned.reason = {planning::Because::kPlanFileOwnEngine};
  if (pinned.plan.Pieces() > 1 && pinned.plan.WorkspaceBytes() >= kernel_.need_bytes) {
    pinned.plan = {
        {{{own, kernel_.problem().n, kUnknownTime, kernel_.need_bytes, kernel_.own->deterministic},
          1}}};
    pinned.reason = {planning::Because::kPlanFileNoGain};
  }
  return pinned;
}

}  // namespace ucudnn::interposer
