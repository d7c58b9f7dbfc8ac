#include "planner/multigrid/analysis/analysis.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace ucudnn::multigrid {
namespace {

constexpr CoarsePlace kPlaces[] = {CoarsePlace::kDistributed, CoarsePlace::kCoarsestOnOne,
                                   CoarsePlace::kAllOnOne};

struct Candidate {
  MultigridModel model;
  bool is_asked = false;      // whether CyclesSource has returned `cycles`
  std::optional<int> cycles;  // none: the setting does not converge
};

class Search {
 public:
  Search(const NetworkModel& model, const AnalysisChoices& choices, const CyclesSource& cycles)
      : model_(model), choices_(choices), cycles_(cycles) {}

  Status Prepare() {
    for (const MultigridSetting& setting : CandidatesFor(model_.network(), choices_)) {
      UCUDNN_ASSIGN_OR_RETURN(MultigridModel made, MultigridModel::Make(model_, setting));
      candidates_.push_back({std::move(made)});
    }
    return Status::Ok();
  }
  Result<std::optional<ChosenSetting>> Fastest(Workload workload, int devices);

 private:
  // Chooses where the coarse levels of a candidate run. Returns the setting for which `cycles`
  // cycles on `devices` devices are fastest.
  Result<ChosenSetting> Place(const Candidate& candidate, Workload workload, int devices,
                              int cycles) const;

  const NetworkModel& model_;
  const AnalysisChoices& choices_;
  const CyclesSource& cycles_;
  std::vector<Candidate> candidates_;
};

Result<ChosenSetting> Search::Place(const Candidate& candidate, Workload workload, int devices,
                                    int cycles) const {
  ChosenSetting chosen;
  chosen.setting = candidate.model.setting();
  chosen.levels = candidate.model.LongestHierarchy().levels();
  chosen.run.ms = std::numeric_limits<double>::infinity();
  MultigridSetting setting = chosen.setting;
  setting.cycles = cycles;
  for (const CoarsePlace place : kPlaces) {
    const bool repeats = place != CoarsePlace::kDistributed &&
                         (devices == 1 || (place == CoarsePlace::kAllOnOne && chosen.levels == 2));
    if (repeats) continue;
    setting.place = place;
    UCUDNN_ASSIGN_OR_RETURN(const ModelledRun run, candidate.model.Run(workload, devices, setting));
    if (run.ms >= chosen.run.ms) continue;
    chosen.run = run;
    chosen.setting = setting;
  }
  return chosen;
}

// Visits the candidates in ascending order of LeastMs, a lower bound of their times. Ends at the
// first bound that is not below the best time, so most candidates need neither a simulation nor a
// call of CyclesSource.
Result<std::optional<ChosenSetting>> Search::Fastest(Workload workload, int devices) {
  std::vector<std::pair<double, Candidate*>> order;
  for (Candidate& candidate : candidates_) {
    if (candidate.model.MostDevices() < devices || (candidate.is_asked && !candidate.cycles)) {
      continue;
    }
    order.emplace_back(candidate.model.LeastMs(workload, devices, candidate.cycles.value_or(1)),
                       &candidate);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::optional<ChosenSetting> fastest;
  const auto is_slower = [&](double ms) { return fastest && ms >= fastest->run.ms; };
  for (const auto& [least_ms, candidate] : order) {
    if (is_slower(least_ms)) break;
    if (!candidate->is_asked) {
      UCUDNN_ASSIGN_OR_RETURN(const ChosenSetting one_cycle,
                              Place(*candidate, workload, devices, 1));
      if (is_slower(one_cycle.run.ms)) continue;
      UCUDNN_ASSIGN_OR_RETURN(candidate->cycles, cycles_(candidate->model.setting()));
      candidate->is_asked = true;
    }
    if (!candidate->cycles) continue;
    if (is_slower(candidate->model.LeastMs(workload, devices, *candidate->cycles))) continue;
    UCUDNN_ASSIGN_OR_RETURN(ChosenSetting chosen,
                            Place(*candidate, workload, devices, *candidate->cycles));
    if (!is_slower(chosen.run.ms)) fastest = std::move(chosen);
  }
  return fastest;
}

Result<ModelledRun> LaunchedStreams(const NetworkModel& model, MultigridSetting setting,
                                    Workload workload, int devices) {
  setting.blocks = BlocksAtOnce::kStreams;
  setting.launching = Launching::kEach;
  UCUDNN_ASSIGN_OR_RETURN(const MultigridModel made, MultigridModel::Make(model, setting));
  return made.Run(workload, devices, setting);
}

}  // namespace

const ModelledRun* WorkloadAnalysis::Baseline(const planner::Device& device, int devices) const {
  const ModelledRun* best = nullptr;
  const auto consider = [&](const ModelledRun& run) {
    if (run.Fits(device) && (best == nullptr || run.ms < best->ms)) best = &run;
  };
  consider(serial);
  consider(captured);
  for (const DevicesRow& row : rows) {
    if (row.devices <= devices) consider(row.partitioned);
  }
  return best;
}

const DevicesRow* WorkloadAnalysis::Best(const planner::Device& device) const {
  const DevicesRow* best = nullptr;
  for (const DevicesRow& row : rows) {
    if (!row.multigrid || !row.multigrid->run.Fits(device)) continue;
    if (best == nullptr || row.multigrid->run.ms < best->multigrid->run.ms) best = &row;
  }
  return best;
}

const DevicesRow* WorkloadAnalysis::FirstThatPays(const planner::Device& device) const {
  for (const DevicesRow& row : rows) {
    if (!row.multigrid || !row.multigrid->run.Fits(device)) continue;
    const ModelledRun* const baseline = Baseline(device, row.devices);
    if (baseline == nullptr || row.multigrid->run.ms < baseline->ms) return &row;
  }
  return nullptr;
}

std::vector<MultigridSetting> CandidatesFor(const NetworkLayers& network,
                                            const AnalysisChoices& choices) {
  std::vector<MultigridSetting> candidates;
  const int longest = network.LongestStage();
  if (longest < 0) return candidates;
  const auto steps = static_cast<int>(network.sections[longest].kinds.size());
  for (const std::vector<int>& coarsening : choices.coarsening) {
    std::vector<int> level_counts;
    for (const int levels : choices.levels) {
      const Result<Hierarchy> hierarchy = Hierarchy::Make(steps, coarsening, levels);
      if (!hierarchy.ok() || hierarchy->levels() == 1) continue;
      if (std::count(level_counts.begin(), level_counts.end(), hierarchy->levels()) > 0) continue;
      level_counts.push_back(hierarchy->levels());
      for (const std::vector<int>& c_sweeps : choices.c_sweeps) {
        for (const CoarseOperator coarse : choices.coarse) {
          MultigridSetting& setting = candidates.emplace_back(choices.common);
          setting.coarsening = coarsening;
          setting.levels = levels;
          setting.coarse = coarse;
          setting.c_sweeps = c_sweeps;
        }
      }
    }
  }
  return candidates;
}

double LayersApplied(const MultigridSetting& setting, const Hierarchy& hierarchy, int cycles) {
  const bool sums = setting.coarse == CoarseOperator::kSum;
  const auto layers_of = [&](int level) {
    const Level& shape = hierarchy.level(level);
    return static_cast<double>(shape.steps) * (sums ? shape.span : 1);
  };
  double layers = 0;
  for (int level = 0; level < hierarchy.levels(); ++level) {
    // A cycle applies the steps of a level SweepsOf + 1 times on the way down and once on the way
    // up. On a coarse level it applies them once more, to compute the level's right sides. The
    // coarsest level is solved once.
    const bool is_coarsest = level == hierarchy.coarsest();
    const int passes = is_coarsest ? 1 : SweepsOf(setting.c_sweeps, level) + 2;
    layers += (passes + (level > 0 ? 1 : 0)) * layers_of(level);
  }
  return cycles * layers;
}

Result<std::vector<WorkloadAnalysis>> Analyse(const NetworkModel& model,
                                              const AnalysisChoices& choices,
                                              const std::vector<int>& devices,
                                              const CyclesSource& cycles) {
  Search search(model, choices, cycles);
  UCUDNN_RETURN_IF_ERROR(search.Prepare());
  std::vector<WorkloadAnalysis> analyses;
  for (const Workload workload : {Workload::kInference, Workload::kTraining}) {
    WorkloadAnalysis analysis;
    analysis.workload = workload;
    UCUDNN_ASSIGN_OR_RETURN(analysis.serial, model.Serial(workload, Launching::kEach));
    UCUDNN_ASSIGN_OR_RETURN(analysis.captured, model.Serial(workload, Launching::kCaptured));
    for (const int count : devices) {
      DevicesRow row;
      row.devices = count;
      UCUDNN_ASSIGN_OR_RETURN(row.partitioned, model.Partitioned(workload, count));
      UCUDNN_ASSIGN_OR_RETURN(row.multigrid, search.Fastest(workload, count));
      if (row.multigrid) {
        UCUDNN_ASSIGN_OR_RETURN(row.launched_streams,
                                LaunchedStreams(model, row.multigrid->setting, workload, count));
      }
      analysis.rows.push_back(std::move(row));
    }
    analyses.push_back(std::move(analysis));
  }
  return analyses;
}

}  // namespace ucudnn::multigrid
