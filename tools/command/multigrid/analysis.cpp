#include "command/multigrid/analysis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "command/machine_file.h"
#include "command/multigrid/free_memory.h"
#include "command/numbers.h"
#include "command/progress.h"
#include "planner/multigrid/distributed/thread_ranks.h"
#include "planner/multigrid/host/measured_layers.h"
#include "planner/multigrid/host/rate_probe.h"

namespace ucudnn::command {
namespace {

using multigrid::AnalysisChoices;
using multigrid::ConvergenceEstimate;
using multigrid::MultigridSetting;
using multigrid::Problem;
using multigrid::Stage;

constexpr int kMostListed = 64;
// Analyst::Verify solves a network itself only within two limits: on the operations of the solve
// (so many take a few seconds on one processor), and on the network's parameters.
constexpr double kVerifiedOperations = 4e10;
constexpr int64_t kVerifiedParameters = 20'000'000;

// Fails if options are given that have no effect with --analyse, or that the models do not support.
Status CheckAnalysis(const SolveSpec& spec) {
  UCUDNN_RETURN_IF_ERROR(
      spec.Refuse({"--train", "--epochs", "--examples", "--rate", "--momentum", "--repeat",
                   "--backward-cycles", "--data-parallel"},
                  "says how to train; --analyse models one training step, and runs none"));
  UCUDNN_RETURN_IF_ERROR(spec.Refuse({"--depths", "--check", "--report"},
                                     "--analyse models one forward pass and one training step; "
                                     "expected --json for a document"));
  UCUDNN_RETURN_IF_ERROR(spec.Refuse(
      {"--timeline"}, "notes when a solve runs its layers; --analyse runs no solve to show"));
  if (spec.network().levels == 1) {
    return Status::Error(
        "--levels 1: is serial propagation, with which --analyse compares multigrid; expected 2 or "
        "more levels");
  }
  if (spec.device.way == multigrid::Way::kGrouped &&
      spec.network().storage == multigrid::Storage::kCPoints) {
    return Status::Error(
        "--storage c-points: --way grouped keeps all states, side by side; streams is expected");
  }
  if (*spec.on_device && spec.machine.empty()) {
    return Status::Error(
        "--backend cudnn: layers are measured on a device, and --machine says how many there are "
        "and what joins them; expected --machine with it");
  }
  return Status::Ok();
}

// Returns the numbers of devices to analyse: those of --devices, or else powers of two up to
// kMostListed. None exceeds the network's number of layers or the machine's number of devices (for
// CPU times of this machine: kMostListed).
Result<std::vector<int>> ReadDevices(const SolveSpec& spec, const NetworkAnalysis& analysis) {
  std::vector<int> devices;
  const int of_machine = analysis.is_measured ? kMostListed : analysis.machine.Devices();
  const int most = std::min(of_machine, analysis.layers.Layers());
  if (spec.devices.empty()) {
    for (int count = 1; count <= std::min(most, kMostListed); count *= 2) devices.push_back(count);
    return devices;
  }
  for (const std::string& word : Split(spec.devices, ',')) {
    const Result<int> count = ParseWhole("--devices", word, 1, most);
    if (!count.ok()) {
      return Status::Error(count.message() + ", as " +
                           (most == of_machine ? Quoted(analysis.machine.name) + " has devices"
                                               : Quoted(analysis.layers.name) + " has layers"));
    }
    devices.push_back(*count);
  }
  return devices;
}

AnalysisChoices ChoicesOf(const SolveSpec& spec, const MultigridSettings& settings,
                          bool is_measured) {
  const multigrid::NetworkSettings& network = settings.network;
  AnalysisChoices choices;
  if (spec.IsGiven("--coarsening")) choices.coarsening = {network.coarsening};
  if (spec.IsGiven("--levels")) choices.levels = {network.levels};
  if (spec.IsGiven("--coarse")) choices.coarse = {network.coarse};
  if (spec.IsGiven("--relaxation")) choices.c_sweeps = {network.forward.c_sweeps};
  // The default of `common` is for GPUs. If `is_measured`, times are of one CPU core, which runs
  // blocks one after the other and launches nothing.
  if (is_measured) choices.common = {};
  choices.common.storage = network.storage;
  const multigrid::DeviceSetting& device = spec.device;
  if (network.storage == multigrid::Storage::kCPoints || device.way == multigrid::Way::kStreams) {
    choices.common.blocks = multigrid::BlocksAtOnce::kStreams;
  }
  if (device.launch == multigrid::Launch::kEach) {
    choices.common.launching = multigrid::Launching::kEach;
  }
  const bool has_streams = choices.common.blocks == multigrid::BlocksAtOnce::kStreams;
  if (*spec.on_device && (has_streams || spec.IsGiven("--streams"))) {
    choices.common.streams = device.lanes;
  }
  choices.common.start = network.forward.start;
  choices.common.skips_first_down = network.forward.skips_first_down;
  choices.common.measures_residuals = network.forward.tolerance.has_value();
  return choices;
}

// Returns the multigrid setting that `network` contains, from options or their defaults.
MultigridSetting SettingOf(const multigrid::NetworkSettings& network) {
  return {.coarsening = network.coarsening,
          .levels = network.levels,
          .coarse = network.coarse,
          .c_sweeps = network.forward.c_sweeps,
          .skips_first_down = network.forward.skips_first_down,
          .start = network.forward.start,
          .storage = network.storage};
}

// The order of table rows: by coarsening, levels, coarse operator and relaxation.
bool ComesFirst(const TriedSetting& a, const TriedSetting& b) {
  const auto key = [](const TriedSetting& tried) {
    return std::tuple(tried.setting.coarsening, tried.levels, tried.setting.coarse,
                      tried.setting.c_sweeps);
  };
  return key(a) < key(b);
}

planner::Machine CoresOf(double copy_gb_per_s) {
  planner::Machine machine;
  machine.name = "this machine";
  machine.device = {"core", FreeMemoryBytes(), 1, copy_gb_per_s};
  machine.device.launch_us = machine.device.kernel_us = 0;
  machine.device.concurrent_kernels = 1;
  machine.levels = {{"memory", kMostListed, copy_gb_per_s, 0}};
  return machine;
}

class Analyst {
 public:
  explicit Analyst(const SolveSpec& spec) : spec_(spec) {}

  Result<NetworkAnalysis> Run();

 private:
  Status ReadTimes();
  Status MeasureOnDevice();
  Result<double> MessageMs();
  Status EstimateRates(const AnalysisChoices& choices);
  Result<TriedSetting> Try(const MultigridSetting& setting);
  // Returns the residual after `cycles` cycles, extrapolated from the first two cycles.
  static double ResidualAfter(const ConvergenceEstimate& estimate, int cycles);
  std::optional<int> CyclesOf(const ConvergenceEstimate& estimate) const;
  Result<std::optional<int>> FindCycles(const MultigridSetting& setting);
  const Stage& LongestStage() const { return *problem_.chain.LongestStage(); }
  double StepOf(const Stage& stage) const {
    return problem_.time > 0 ? problem_.time / static_cast<double>(stage.steps.size())
                             : problem_.step;
  }
  // Returns the number of cycles to run on the network itself, at most two. With a tolerance it is
  // two, because two cycles give a rate. Otherwise it is no more than the setting needs, because
  // only residuals are shown.
  int VerifiedCycles(const TriedSetting& tried) const {
    const bool needs_rate = analysis_.settings.network.forward.tolerance.has_value();
    return needs_rate ? 2 : std::min(2, CyclesOf(tried.estimate).value_or(2));
  }
  // Returns whether Verify() is useful and cheap: residuals were estimated on a reduced network,
  // and the network itself is within kVerifiedParameters and kVerifiedOperations.
  bool IsVerifiable(const TriedSetting& tried) const;
  // Solves the network itself and sets analysis_.verified. Returns true if the user gave a
  // tolerance and the network needs another number of cycles than the reduced network.
  Result<bool> Verify(const TriedSetting& tried);

  const SolveSpec& spec_;
  MultigridProgress progress_;
  Problem problem_;
  std::unique_ptr<multigrid::RateProbe> probe_;
  bool has_one_candidate_ = false;
  NetworkAnalysis analysis_;
};

Status Analyst::ReadTimes() {
  analysis_.is_measured = spec_.machine.empty();
  const multigrid::Precision& precision = analysis_.settings.device
                                              ? analysis_.settings.device->precision()
                                              : multigrid::kSinglePrecision;
  const int element_bytes = analysis_.is_measured ? 8 : precision.bytes;
  analysis_.layers =
      multigrid::LayersOfNetwork(problem_.chain, analysis_.settings.network.batch, element_bytes);
  if (!analysis_.is_measured) {
    UCUDNN_ASSIGN_OR_RETURN(analysis_.machine, LoadMachine(spec_.machine));
    analysis_.times = std::make_unique<multigrid::RooflineTimes>(analysis_.machine.device,
                                                                 analysis_.layers.kinds);
    return analysis_.settings.device ? MeasureOnDevice() : Status::Ok();
  }
  progress_.Show("timing one layer of each kind");
  UCUDNN_ASSIGN_OR_RETURN(multigrid::HostMeasurement measured,
                          multigrid::MeasureLayers(problem_.chain, analysis_.layers));
  analysis_.machine = CoresOf(measured.copy_gb_per_s);
  analysis_.measurement_notes = measured.notes;
  analysis_.times = std::make_unique<multigrid::MeasuredTimes>(std::move(measured.kinds));
  return Status::Ok();
}

// Measures how long a message with one state of the longest stage takes between two ranks that
// share the device.
Result<double> Analyst::MessageMs() {
  const multigrid::DeviceSolvers& solvers = analysis_.settings.device->solvers(0);
  const int64_t numbers = LongestStage().shape.Features() * analysis_.settings.network.batch;
  constexpr int kRanks = 2;
  multigrid::ThreadRanks ranks(kRanks);
  double ms = 0;
  UCUDNN_RETURN_IF_ERROR(
      multigrid::RunOnThreads(ranks, kRanks, [&](multigrid::Peers& peers) -> Status {
        UCUDNN_ASSIGN_OR_RETURN(const multigrid::MessageCosts costs,
                                multigrid::MeasureDeviceMessages(
                                    solvers.target(), peers, solvers.setting().transport, numbers));
        if (peers.rank() == 0) ms = costs.message + costs.state;
        return Status::Ok();
      }));
  return ms;
}

// Replaces the modelled times of the stages' layers by times measured on the device. Messages stay
// modelled; one message is measured for the output.
Status Analyst::MeasureOnDevice() {
  progress_.Show("timing one layer of each kind, and several at once");
  MultigridDevice& device = *analysis_.settings.device;
  const multigrid::DeviceSolvers& solvers = device.solvers(0);
  constexpr multigrid::LayerPass kPasses[] = {multigrid::LayerPass::kForward,
                                              multigrid::LayerPass::kAdjoint,
                                              multigrid::LayerPass::kGradient};
  UCUDNN_ASSIGN_OR_RETURN(
      auto kinds, multigrid::MeasureDeviceLayers(solvers.target(), problem_.chain, analysis_.layers,
                                                 multigrid::StepsAtOnce::kSeveral, kPasses,
                                                 solvers.setting().workspace_limit));
  analysis_.modelled = std::move(analysis_.times);
  analysis_.times =
      std::make_unique<multigrid::MeasuredBatches>(std::move(kinds), *analysis_.modelled);
  analysis_.measured_on = device.DeviceText();
  UCUDNN_ASSIGN_OR_RETURN(const double message_ms, MessageMs());
  analysis_.measured_on +=
      NumberText("; a state goes from one rank on it to another in %.3g us", message_ms * 1e3);
  return Status::Ok();
}

Result<TriedSetting> Analyst::Try(const MultigridSetting& setting) {
  for (const TriedSetting& tried : analysis_.tried) {
    if (tried.setting.IsSameSolve(setting)) return tried;
  }
  progress_.Show("two cycles of setting " + std::to_string(analysis_.tried.size() + 1));
  TriedSetting tried;
  tried.setting = setting;
  UCUDNN_ASSIGN_OR_RETURN(tried.estimate, probe_->Estimate(setting));
  UCUDNN_ASSIGN_OR_RETURN(const multigrid::Hierarchy hierarchy,
                          multigrid::Hierarchy::Make(static_cast<int>(LongestStage().steps.size()),
                                                     setting.coarsening, setting.levels));
  tried.levels = hierarchy.levels();
  analysis_.tried.push_back(tried);
  return tried;
}

double Analyst::ResidualAfter(const ConvergenceEstimate& estimate, int cycles) {
  return cycles == 1 ? estimate.first
                     : estimate.second * std::pow(std::min(1.0, estimate.Rate()), cycles - 2);
}

std::optional<int> Analyst::CyclesOf(const ConvergenceEstimate& estimate) const {
  const multigrid::SolveOptions& options = analysis_.settings.network.forward;
  if (has_one_candidate_ && !options.tolerance) return options.cycles;
  const std::optional<int> cycles = multigrid::CyclesFor(estimate, analysis_.tolerance);
  return cycles && options.tolerance && *cycles > options.cycles ? std::nullopt : cycles;
}

Result<std::optional<int>> Analyst::FindCycles(const MultigridSetting& setting) {
  if (analysis_.verified && analysis_.verified->setting.IsSameSolve(setting)) {
    return analysis_.verified->cycles;
  }
  UCUDNN_ASSIGN_OR_RETURN(const TriedSetting tried, Try(setting));
  return CyclesOf(tried.estimate);
}

// Creates probe_ and sets analysis_.tolerance: the user's, or else the residual of a reference
// setting after its cycles.
Status Analyst::EstimateRates(const AnalysisChoices& choices) {
  const multigrid::NetworkSettings& network = analysis_.settings.network;
  const auto candidates = multigrid::CandidatesFor(analysis_.layers, choices);
  const auto steps = static_cast<int>(LongestStage().steps.size());
  if (candidates.empty()) {
    const Result<multigrid::Hierarchy> refused =
        multigrid::Hierarchy::Make(steps, choices.coarsening.front(), choices.levels.front());
    return Status::Error(Quoted(analysis_.facts.network) + ": " + refused.message());
  }
  has_one_candidate_ = candidates.size() == 1;
  multigrid::ProbeSettings settings = {.h = StepOf(LongestStage()),
                                       .seed = spec_.training.seed,
                                       .lanes = network.lanes,
                                       .scale = network.forward.scale};
  UCUDNN_ASSIGN_OR_RETURN(
      probe_, multigrid::RateProbe::Make(
                  problem_.chain, LongestStage(),
                  problem_.parameters.empty() ? nullptr : &problem_.parameters, settings));
  analysis_.reduction = probe_->differences();
  if (network.forward.tolerance) {
    analysis_.tolerance = *network.forward.tolerance;
    return Status::Ok();
  }
  MultigridSetting reference = SettingOf(network);
  const auto levels = multigrid::Hierarchy::Make(steps, reference.coarsening, reference.levels);
  if (!levels.ok() || levels->levels() == 1) reference = candidates.front();
  UCUDNN_ASSIGN_OR_RETURN(TriedSetting tried, Try(reference));
  tried.cycles = network.forward.cycles;
  analysis_.tolerance = ResidualAfter(tried.estimate, network.forward.cycles);
  analysis_.reference = std::move(tried);
  return Status::Ok();
}

bool Analyst::IsVerifiable(const TriedSetting& tried) const {
  if (analysis_.reduction.empty() || analysis_.parameters > kVerifiedParameters) return false;
  const auto operations_of = [&](const multigrid::LayerSection& section) {
    double operations = 0;
    for (const int kind : section.kinds) {
      for (const multigrid::LayerKernel& kernel :
           analysis_.layers.kinds[kind].kernels(multigrid::LayerPass::kForward)) {
        operations += kernel.operations / analysis_.layers.batch;
      }
    }
    return operations;
  };
  double operations = 0;
  for (const multigrid::LayerSection& section : analysis_.layers.sections) {
    double passes = 1;
    const auto levels = multigrid::Hierarchy::Make(static_cast<int>(section.kinds.size()),
                                                   tried.setting.coarsening, tried.setting.levels);
    if (section.is_stage && levels.ok()) {
      passes = multigrid::LayersApplied(tried.setting, *levels, VerifiedCycles(tried)) /
               levels->level(0).steps;
    }
    operations += passes * operations_of(section);
  }
  return operations <= kVerifiedOperations;
}

Result<bool> Analyst::Verify(const TriedSetting& tried) {
  const MultigridSetting& setting = tried.setting;
  progress_.Show("cycles of the network itself");
  if (problem_.parameters.empty()) {
    const multigrid::ResidualChain& chain = problem_.chain;
    UCUDNN_ASSIGN_OR_RETURN(
        Problem drawn,
        multigrid::DrawnProblem(chain.graph, multigrid::BatchNorms::kFrozen, spec_.training.seed));
    problem_.parameters = std::move(drawn.parameters);
    problem_.input = std::move(drawn.input);
  }
  multigrid::NetworkSettings network = analysis_.settings.network;
  network.batch = 1;
  network.time = problem_.time;
  network.step = problem_.step;
  network.coarsening = setting.coarsening;
  network.levels = setting.levels;
  network.coarse = setting.coarse;
  network.forward.c_sweeps = setting.c_sweeps;
  network.forward.tolerance.reset();
  network.forward.cycles = VerifiedCycles(tried);
  network.backward = network.forward;
  UCUDNN_ASSIGN_OR_RETURN(const auto made, multigrid::NetworkSolver::Make(
                                               problem_.chain, problem_.parameters, network));
  UCUDNN_RETURN_IF_ERROR(made->Forward(problem_.input.data()).status());
  const auto& solutions = made->forward_solutions();
  TriedSetting verified = tried;
  verified.estimate =
      multigrid::EstimateOf(LongestOf(solutions).solution, tried.estimate.direct_cycles);
  if (network.forward.cycles == 1) {
    verified.estimate.second = std::numeric_limits<double>::quiet_NaN();
  }
  verified.cycles = CyclesOf(verified.estimate);
  const bool changes = verified.cycles != CyclesOf(tried.estimate);
  // If the user gave no tolerance, the tolerance is a residual of the reference setting on the
  // reduced network. The network itself need not reach this residual, so the number of cycles of
  // the reduced network stays.
  if (!analysis_.settings.network.forward.tolerance) verified.cycles = CyclesOf(tried.estimate);
  analysis_.verified = std::move(verified);
  return changes && analysis_.settings.network.forward.tolerance.has_value();
}

Result<NetworkAnalysis> Analyst::Run() {
  UCUDNN_ASSIGN_OR_RETURN(problem_, ReadProblem(spec_, Drawn::kNothing));
  UCUDNN_ASSIGN_OR_RETURN(analysis_.settings,
                          SettingsOf(spec_, problem_, std::make_shared<MultigridRanks>()));
  UCUDNN_RETURN_IF_ERROR(CheckOptions(analysis_.settings.network.forward));
  analysis_.facts = FactsOf(problem_, analysis_.settings.network);
  UCUDNN_ASSIGN_OR_RETURN(analysis_.parameters, planner::ParameterCount(problem_.chain.graph));
  UCUDNN_RETURN_IF_ERROR(ReadTimes());
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<int> devices, ReadDevices(spec_, analysis_));
  const AnalysisChoices choices = ChoicesOf(spec_, analysis_.settings, analysis_.is_measured);
  UCUDNN_RETURN_IF_ERROR(EstimateRates(choices));
  const multigrid::NetworkModel model(analysis_.layers, *analysis_.times, analysis_.machine);
  const auto analyse = [&] {
    return multigrid::Analyse(model, choices, devices,
                              [&](const MultigridSetting& setting) { return FindCycles(setting); });
  };
  UCUDNN_ASSIGN_OR_RETURN(analysis_.workloads, analyse());
  const multigrid::DevicesRow* best = analysis_.workloads.front().Best(analysis_.machine.device);
  if (best != nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(const TriedSetting tried, Try(best->multigrid->setting));
    UCUDNN_ASSIGN_OR_RETURN(const bool changes,
                            IsVerifiable(tried) ? Verify(tried) : Result<bool>(false));
    if (changes) {
      UCUDNN_ASSIGN_OR_RETURN(analysis_.workloads, analyse());
    }
  }
  for (TriedSetting& tried : analysis_.tried) tried.cycles = CyclesOf(tried.estimate);
  std::sort(analysis_.tried.begin(), analysis_.tried.end(), ComesFirst);
  return std::move(analysis_);
}

}  // namespace

Result<int> AnalyseMultigrid(const CLI::App& app, const SolveSpec& spec) {
  UCUDNN_RETURN_IF_ERROR(CheckAnalysis(spec));
  UCUDNN_ASSIGN_OR_RETURN(const NetworkAnalysis analysis, Analyst(spec).Run());
  if (spec.json) return WriteOutput(app, FormatAnalysis(analysis), "");
  PrintAnalysis(analysis);
  return 0;
}

}  // namespace ucudnn::command
