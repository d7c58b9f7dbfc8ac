// Makes execution plans follow the file of a workspace plan. An execution plan runs the file's
// micro-batches with its own engine and knobs. But the first plan of a heuristics list runs the
// engines that the file names, if these engines can replace the plan's own.
#include <algorithm>

#include "interposer/graph/graph_kernel.h"
#include "interposer/pinned/confirm_configuration.h"

namespace ucudnn::interposer {

EngineTemplates GraphAnswers::EnginesOfFile(const Configuration& configuration) {
  EngineTemplates engines;
  for (const Run& run : configuration.runs) {
    const EngineId& name = run.micro.engine;
    EngineTemplate known = Find(name);
    if (known == nullptr) {
      if (!kernel_.is_heuristics_first) return {};
      known = Serving(name.Unfused());
      if (known == nullptr || known->convolution.engine.Unfused() != name.Unfused()) return {};
      known_.push_back(known);
    }
    engines.push_back(std::move(known));
  }
  return engines;
}

Result<Configuration> GraphAnswers::ConfirmWithEngines(Configuration configuration,
                                                       const EngineTemplates& engines) const {
  std::vector<std::unique_ptr<cudnn::GraphEngines>> owned;
  std::vector<cudnn::Engines*> asked;
  for (size_t at = 0; at < configuration.runs.size(); ++at) {
    configuration.runs[at].micro.engine = engines[at]->convolution.engine;
    owned.push_back(std::make_unique<cudnn::GraphEngines>(
        functions_, cudnn::PlanDevice{kernel_.handle, nullptr},
        std::vector<const cudnn::GraphTemplate*>{engines[at].get()}));
    asked.push_back(owned.back().get());
  }
  ConfirmedConfiguration confirmed = ConfirmConfiguration(kernel_.problem(), configuration, asked);
  UCUDNN_RETURN_IF_ERROR(confirmed.status);
  return std::move(confirmed.configuration);
}

Result<planning::ConfirmedGraphKernel> GraphAnswers::ConfirmKernel(
    const planning::WorkspacePlanKernel& kernel, size_t limit_bytes) {
  const EngineId& own = kernel_.own->convolution.engine;
  planning::ConfirmedGraphKernel confirmed;
  confirmed.limit_bytes = limit_bytes;
  const EngineTemplates engines = EnginesOfFile(kernel.configuration);
  if (!engines.empty()) {
    Configuration said = kernel.configuration;
    for (Run& run : said.runs) {
      run.micro.workspace_bytes = std::min(run.micro.workspace_bytes, limit_bytes);
    }
    auto configuration = ConfirmWithEngines(std::move(said), engines);
    const bool named_own =
        std::all_of(kernel.configuration.runs.begin(), kernel.configuration.runs.end(),
                    [&](const Run& run) { return run.micro.engine == own; });
    if (named_own && !configuration.ok()) return configuration.status();
    if (configuration.ok()) {
      confirmed.configuration = std::move(*configuration);
      confirmed.reason = {planning::ReasonKind::kWorkspacePlan};
      return confirmed;
    }
  }
  Configuration in_own = kernel.configuration;
  for (Run& run : in_own.runs) {
    run.micro.workspace_bytes = limit_bytes;
    run.micro.time_ms = kUnknownTime;
  }
  UCUDNN_ASSIGN_OR_RETURN(
      confirmed.configuration,
      ConfirmWithEngines(std::move(in_own),
                         EngineTemplates(kernel.configuration.runs.size(), kernel_.own)));
  confirmed.reason = {planning::ReasonKind::kWorkspacePlanOwnEngine};
  if (confirmed.configuration.Pieces() > 1 &&
      confirmed.configuration.WorkspaceBytes() >= kernel_.need_bytes) {
    confirmed.configuration = {
        {{{own, kernel_.problem().n, kUnknownTime, kernel_.need_bytes, kernel_.own->deterministic},
          1}}};
    confirmed.reason = {planning::ReasonKind::kWorkspacePlanNoGain};
  }
  return confirmed;
}

}  // namespace ucudnn::interposer
