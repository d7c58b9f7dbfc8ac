#include "command/multigrid_words.h"

#include <sched.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"
#include "planner/graph/network_file.h"
#include "planner/graph/networks/families.h"
#include "planner/multigrid/data/byte_source.h"

namespace ucudnn::command {
namespace {

using multigrid::BatchNorms;
using multigrid::Problem;

constexpr char kChain[] = "chain";
constexpr int kMostSteps = 1 << 20;

// The value whose name is `text`; the error names the option and all names.
template <typename T, size_t N>
Result<T> Choose(const std::string& option, const std::string& text,
                 const std::pair<const char*, T> (&choices)[N]) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (text == name) return value;
    names.emplace_back(name);
  }
  return Status::Error(option + " " + Quoted(text) + ": expected one of " + Join(names, ", "));
}

Result<double> ParseNumber(const std::string& option, const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(number)) {
    return number;
  }
  return Status::Error(option + " " + Quoted(text) + ": not a number");
}

Result<std::vector<int>> ParseFactors(const std::string& text) {
  std::vector<int> factors;
  for (const std::string& word : Split(text, ',')) {
    UCUDNN_ASSIGN_OR_RETURN(const int factor, ParseWhole("--coarsening", word, 2, kMostSteps));
    factors.push_back(factor);
  }
  return factors;
}

// F, FCF, FCFCF, ... for each level.
Result<std::vector<multigrid::Relaxation>> ParseRelaxation(const std::string& text, double weight) {
  std::vector<multigrid::Relaxation> levels;
  for (const std::string& word : Split(text, ',')) {
    int sweeps = 0;
    std::string rest = word;
    while (rest.size() > 2 && rest.compare(0, 2, "FC") == 0) {
      rest.erase(0, 2);
      ++sweeps;
    }
    if (rest != "F") {
      return Status::Error("--relaxation " + Quoted(word) + ": expected F, FCF or FCFCF");
    }
    levels.push_back({sweeps, weight});
  }
  return levels;
}

int ProcessorsOfThisProcess() {
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof processors, &processors) != 0) return 1;
  return CPU_COUNT(&processors);
}

Result<planner::Graph> LoadNet(const MultigridWords& words) {
  if (words.layers.empty()) return planner::LoadNetwork(words.net);
  if (words.net != "kirby-3m" && words.net != "kirby-3m-nobias") {
    return Status::Error("--layers: " + Quoted(words.net) +
                         " has the layers that it has; kirby-3m can have others");
  }
  UCUDNN_ASSIGN_OR_RETURN(const int layers, ParseWhole("--layers", words.layers, 2, kMostSteps));
  return planner::Kirby(words.net, {4, layers, 0, words.net == "kirby-3m"});
}

Result<Problem> ReadChain(const MultigridWords& words) {
  if (words.weights.empty()) {
    return Status::Error("chain: --weights FILE.npz is expected, with its arrays K, b and u0");
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto activation, Choose<planner::ActivationKind>(
                                                     "--activation", words.activation,
                                                     {{"relu", planner::ActivationKind::kRelu},
                                                      {"tanh", planner::ActivationKind::kTanh}}));
  UCUDNN_ASSIGN_OR_RETURN(const multigrid::ChainWeights weights,
                          multigrid::LoadChainWeights(words.weights));
  return multigrid::ProblemOf(weights, activation);
}

Status SetTime(const MultigridWords& words, Problem& problem) {
  if (!words.time.empty() && !words.step.empty()) {
    return Status::Error("--time and --step both say how far a layer goes; one is expected");
  }
  if (!words.time.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(problem.time, ParsePositive("--time", words.time));
  }
  if (!words.step.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const double step, ParsePositive("--step", words.step));
    problem.step = step;
    problem.time = 0;
  }
  return Status::Ok();
}

Result<multigrid::SolveOptions> ReadSolve(const MultigridWords& words) {
  multigrid::SolveOptions options;
  UCUDNN_ASSIGN_OR_RETURN(const double weight, ParsePositive("--c-weight", words.weight));
  UCUDNN_ASSIGN_OR_RETURN(options.relaxation, ParseRelaxation(words.relaxation, weight));
  UCUDNN_ASSIGN_OR_RETURN(options.cycle,
                          Choose<multigrid::CycleKind>(
                              "--cycle", words.cycle,
                              {{"V", multigrid::CycleKind::kV}, {"F", multigrid::CycleKind::kF}}));
  UCUDNN_ASSIGN_OR_RETURN(options.start,
                          Choose<multigrid::Start>("--start", words.start,
                                                   {{"broadcast", multigrid::Start::kBroadcast},
                                                    {"nested", multigrid::Start::kNested}}));
  UCUDNN_ASSIGN_OR_RETURN(
      options.scale,
      Choose<multigrid::ResidualScale>("--norm", words.norm,
                                       {{"absolute", multigrid::ResidualScale::kAbsolute},
                                        {"relative", multigrid::ResidualScale::kLargestState}}));
  options.skips_first_down = words.skip_first_down;
  constexpr int kMostCycles = 1000;
  if (!words.tolerance.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const double tolerance, ParsePositive("--tolerance", words.tolerance));
    options.tolerance = tolerance;
    options.cycles = 100;
  }
  if (!words.cycles.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(options.cycles, ParseWhole("--cycles", words.cycles, 1, kMostCycles));
  }
  UCUDNN_RETURN_IF_ERROR(CheckOptions(options));
  return options;
}

}  // namespace

Result<int> ParseWhole(const std::string& option, const std::string& text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least &&
      number <= most) {
    return number;
  }
  return Status::Error(option + " " + Quoted(text) + ": expected a whole number from " +
                       std::to_string(least) + " to " + std::to_string(most));
}

Result<double> ParsePositive(const std::string& option, const std::string& text) {
  UCUDNN_ASSIGN_OR_RETURN(const double number, ParseNumber(option, text));
  if (number > 0) return number;
  return Status::Error(option + " " + Quoted(text) + ": a number above 0 is expected");
}

Result<Problem> ReadProblem(const MultigridWords& words) {
  if (words.net == kChain) {
    UCUDNN_ASSIGN_OR_RETURN(Problem problem, ReadChain(words));
    UCUDNN_RETURN_IF_ERROR(SetTime(words, problem));
    return problem;
  }
  UCUDNN_ASSIGN_OR_RETURN(const planner::Graph graph, LoadNet(words));
  UCUDNN_ASSIGN_OR_RETURN(const int seed,
                          ParseWhole("--seed", words.seed, 0, std::numeric_limits<int>::max() - 1));
  UCUDNN_ASSIGN_OR_RETURN(
      Problem problem, multigrid::DrawnProblem(
                           graph, words.frozen_norms ? BatchNorms::kFrozen : BatchNorms::kRefused,
                           static_cast<uint64_t>(seed)));
  if (!words.weights.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto file, multigrid::OpenByteSource(words.weights));
    UCUDNN_ASSIGN_OR_RETURN(const auto arrays, multigrid::ReadNpz(*file));
    UCUDNN_RETURN_IF_ERROR(multigrid::TakeWeights(arrays, words.weights, problem));
  }
  UCUDNN_RETURN_IF_ERROR(SetTime(words, problem));
  return problem;
}

Result<MultigridSettings> ReadSettings(const MultigridWords& words, const Problem& problem) {
  MultigridSettings settings;
  multigrid::NetworkSettings& network = settings.network;
  UCUDNN_RETURN_IF_ERROR(Choose<int>("--backend", words.backend, {{"cpu64", 0}}).status());
  network.lanes = ProcessorsOfThisProcess();
  if (!words.threads.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(network.lanes, ParseWhole("--threads", words.threads, 1, 1024));
  }
  if (!words.batch.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(network.batch, ParseWhole("--batch", words.batch, 1, kMostSteps));
  }
  network.time = problem.time;
  network.step = problem.step;
  UCUDNN_ASSIGN_OR_RETURN(network.coarsening, ParseFactors(words.coarsening));
  if (!words.levels.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(network.levels, ParseWhole("--levels", words.levels, 1, 64));
  }
  UCUDNN_ASSIGN_OR_RETURN(network.coarse, multigrid::ParseCoarseOperator(words.coarse));
  UCUDNN_ASSIGN_OR_RETURN(network.storage,
                          Choose<multigrid::Storage>("--storage", words.storage,
                                                     {{"all", multigrid::Storage::kAll},
                                                      {"c-points", multigrid::Storage::kCPoints}}));
  UCUDNN_ASSIGN_OR_RETURN(network.forward, ReadSolve(words));
  network.backward = network.forward;
  if (!words.backward_cycles.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(network.backward.cycles,
                            ParseWhole("--backward-cycles", words.backward_cycles, 1, 1000));
  }
  return settings;
}

}  // namespace ucudnn::command
