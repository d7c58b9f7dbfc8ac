#include "command/multigrid_words.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/free_memory.h"
#include "planner/graph/network_file.h"
#include "planner/graph/networks/families.h"
#include "planner/graph/shapes.h"

namespace ucudnn::command {
namespace {

using multigrid::BatchNorms;
using multigrid::Problem;

constexpr char kChain[] = "chain";
constexpr char kEvery[] = "every:";
constexpr char kPrevious[] = "previous";
constexpr int kMostSteps = 1 << 20;
constexpr int kMostSeed = std::numeric_limits<int>::max() - 1;
constexpr int kTrainingBatch = 32;

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

// The number that all of `text` is, where it is finite.
std::optional<double> NumberOf(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_all = error == std::errc() && end == text.data() + text.size();
  return is_all && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

Result<double> ParsePositive(const std::string& option, const std::string& text) {
  const std::optional<double> number = NumberOf(text);
  if (number && *number > 0) return *number;
  return Status::Error(option + " " + Quoted(text) + ": expected a number above 0");
}

std::optional<int> WholeOf(const std::string& text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_all = error == std::errc() && end == text.data() + text.size();
  return is_all && number >= least && number <= most ? std::optional(number) : std::nullopt;
}

// Whole numbers of 2 and more with commas between.
Result<std::vector<int>> ParseList(const std::string& option, const std::string& text) {
  std::vector<int> numbers;
  for (const std::string& word : Split(text, ',')) {
    const auto number = WholeOf(word, 2, kMostSteps);
    if (!number) {
      return Status::Error(option + " " + Quoted(text) + ": expected whole numbers from 2 to " +
                           std::to_string(kMostSteps) + ", with commas between");
    }
    numbers.push_back(*number);
  }
  return numbers;
}

// How often F, FCF, FCFCF, ... have C-relaxation, of each level.
Result<std::vector<int>> ParseRelaxation(const std::string& text) {
  std::vector<int> levels;
  for (const std::string& word : Split(text, ',')) {
    int sweeps = 0;
    std::string rest = word;
    while (rest.size() > 2 && rest.compare(0, 2, "FC") == 0) {
      rest.erase(0, 2);
      ++sweeps;
    }
    if (rest != "F") {
      return Status::Error("--relaxation " + Quoted(text) +
                           ": expected F, FCF or FCFCF, or one for each level with commas between");
    }
    levels.push_back(sweeps);
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
    return Status::Error((words.depths.empty() ? "--layers: " : "--depths: ") + Quoted(words.net) +
                         " has the layers that it has; expected kirby-3m, which can have others");
  }
  UCUDNN_ASSIGN_OR_RETURN(const int layers, ParseWhole("--layers", words.layers, 2, kMostSteps));
  return planner::Kirby(words.net, {4, layers, 0, words.net == "kirby-3m"});
}

Result<Problem> ReadChain(const MultigridWords& words) {
  if (words.weights.empty()) {
    return Status::Error(
        "chain: --weights FILE.safetensors is expected, with its arrays K, b and u0");
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto activation, Choose<planner::ActivationKind>(
                                                     "--activation", words.activation,
                                                     {{"relu", planner::ActivationKind::kRelu},
                                                      {"tanh", planner::ActivationKind::kTanh}}));
  UCUDNN_ASSIGN_OR_RETURN(const multigrid::ChainWeights weights,
                          multigrid::LoadChainWeights(words.weights));
  return multigrid::ProblemOf(weights, activation);
}

// In double precision, in training with gradients and velocities; what a solve needs besides is
// another matter.
Status CheckParameterMemory(const planner::Graph& graph, bool trains) {
  const Result<int64_t> count = planner::ParameterCount(graph);
  if (!count.ok()) return Status::Ok();  // who reads the shapes says why
  const int64_t bytes = (trains ? 3 : 1) * *count * static_cast<int64_t>(sizeof(double));
  const int64_t free = FreeMemoryBytes();
  if (bytes <= free) return Status::Ok();
  return Status::Error(graph.name + ": " + std::to_string(*count) + " parameters take " +
                       FormatByteSize(static_cast<size_t>(bytes)) + " in double precision" +
                       (trains ? " with their gradients and velocities, and " : ", and ") +
                       FormatByteSize(static_cast<size_t>(free)) +
                       " of memory are free; expected a machine with more, or a smaller network");
}

BatchNorms NormsOf(const MultigridWords& words) {
  return words.frozen_norms ? BatchNorms::kFrozen : BatchNorms::kRefused;
}

// Where frozen statistics would do, that is the reason for `refusal`.
Status WithFrozenNorms(const planner::Graph& graph, const MultigridWords& words,
                       const Status& refusal) {
  const bool thaws =
      !words.frozen_norms && multigrid::MakeResidualChain(graph, BatchNorms::kFrozen).ok();
  return Status::Error(refusal.message() + (thaws ? ": --frozen-norms" : ""));
}

Status SetTime(const MultigridWords& words, Problem& problem) {
  if (!words.time.empty() && !words.step.empty()) {
    return Status::Error("--time and --step both say how far a layer goes; expected one of them");
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
  UCUDNN_ASSIGN_OR_RETURN(options.c_sweeps, ParseRelaxation(words.relaxation));
  UCUDNN_ASSIGN_OR_RETURN(options.start,
                          Choose<multigrid::Start>("--start", StartText(words),
                                                   {{"broadcast", multigrid::Start::kBroadcast},
                                                    {"nested", multigrid::Start::kNested},
                                                    {kPrevious, multigrid::Start::kPrevious}}));
  if (options.start == multigrid::Start::kPrevious && words.repeat == "1") {
    return Status::Error(
        "--start previous: no mini-batch is solved twice; expected --repeat 2 or more with it");
  }
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
  return options;
}

Result<bool> ReadCheck(const MultigridWords& words) {
  if (words.check.empty()) return false;
  const bool is_every = words.check.compare(0, sizeof kEvery - 1, kEvery) == 0;
  if (words.train.empty() ? words.check == "once" : is_every) return true;
  return Status::Error("--check " + Quoted(words.check) + ": expected " +
                       (words.train.empty()
                            ? "once; every:K is of training"
                            : "every:K, as in every:10: once is of a single solve"));
}

}  // namespace

Result<int> ParseWhole(const std::string& option, const std::string& text, int least, int most) {
  if (const auto number = WholeOf(text, least, most)) return *number;
  return Status::Error(option + " " + Quoted(text) + ": expected a whole number from " +
                       std::to_string(least) + " to " + std::to_string(most));
}

std::string StartText(const MultigridWords& words) {
  if (!words.start.empty()) return words.start;
  return words.repeat == "1" ? "broadcast" : kPrevious;
}

Result<uint64_t> ReadSeed(const MultigridWords& words) {
  UCUDNN_ASSIGN_OR_RETURN(const int seed, ParseWhole("--seed", words.seed, 0, kMostSeed));
  return static_cast<uint64_t>(seed);
}

Result<Problem> ReadUndrawnProblem(const MultigridWords& words) {
  if (words.net == kChain || !words.weights.empty()) return ReadProblem(words);
  UCUDNN_ASSIGN_OR_RETURN(const planner::Graph graph, LoadNet(words));
  Result<Problem> undrawn = multigrid::UndrawnProblem(graph, NormsOf(words));
  if (!undrawn.ok()) return WithFrozenNorms(graph, words, undrawn.status());
  UCUDNN_RETURN_IF_ERROR(SetTime(words, *undrawn));
  return undrawn;
}

Result<Problem> ReadProblem(const MultigridWords& words) {
  if (words.net == kChain) {
    UCUDNN_ASSIGN_OR_RETURN(Problem problem, ReadChain(words));
    UCUDNN_RETURN_IF_ERROR(SetTime(words, problem));
    return problem;
  }
  UCUDNN_ASSIGN_OR_RETURN(const planner::Graph graph, LoadNet(words));
  UCUDNN_RETURN_IF_ERROR(CheckParameterMemory(graph, !words.train.empty()));
  UCUDNN_ASSIGN_OR_RETURN(const uint64_t seed, ReadSeed(words));
  Result<Problem> drawn = multigrid::DrawnProblem(graph, NormsOf(words), seed);
  if (!drawn.ok()) return WithFrozenNorms(graph, words, drawn.status());
  Problem problem = std::move(*drawn);
  if (!words.weights.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto file, multigrid::DataFile::Open(words.weights));
    UCUDNN_ASSIGN_OR_RETURN(const auto arrays, multigrid::ReadSafetensors(file));
    UCUDNN_RETURN_IF_ERROR(multigrid::TakeWeights(arrays, words.weights, problem));
  }
  UCUDNN_RETURN_IF_ERROR(SetTime(words, problem));
  return problem;
}

Result<Problem> ReadSharedProblem(const MultigridWords& words) {
  UCUDNN_ASSIGN_OR_RETURN(Problem problem, ReadUndrawnProblem(words));
  if (!problem.parameters.empty()) return problem;
  UCUDNN_ASSIGN_OR_RETURN(problem.seed, ReadSeed(words));
  problem.input = multigrid::DrawImage(problem.chain, problem.seed);
  return problem;
}

std::string MultigridSettings::MachineText() const {
  if (device) return device->Text(*ranks);
  std::string text = "double precision on the host, ";
  if (ranks->all() > 1) text += ranks->Text() + ", each with ";
  return text + std::to_string(network.lanes) + (network.lanes == 1 ? " thread" : " threads");
}

namespace {

// The stage with the most steps; null where there is none.
const multigrid::Stage* LongestStage(const Problem& problem) {
  const multigrid::Stage* longest = nullptr;
  for (const auto& section : problem.chain.sections) {
    const auto* stage = std::get_if<multigrid::Stage>(&section);
    if (stage == nullptr) continue;
    if (longest == nullptr || stage->steps.size() > longest->steps.size()) longest = stage;
  }
  return longest;
}

// --coarsening. Without it the longest stage keeps two coarse layers.
Result<std::vector<int>> ReadCoarsening(const MultigridWords& words, const Problem& problem) {
  if (!words.coarsening.empty()) return ParseList("--coarsening", words.coarsening);
  const multigrid::Stage* const longest = LongestStage(problem);
  const int steps = longest != nullptr ? static_cast<int>(longest->steps.size()) : 0;
  return std::vector<int>{std::clamp(steps / 2, 2, 8)};
}

// --coarse. Without it that of processors is inject, and a device's what fits it, in the longest
// stage.
Result<multigrid::CoarseOperator> ReadCoarse(const MultigridWords& words, const Problem& problem,
                                             const MultigridSettings& settings) {
  if (!words.coarse.empty()) {
    const Result<multigrid::CoarseOperator> coarse = multigrid::ParseCoarseOperator(words.coarse);
    return coarse.ok() ? coarse : Status::Error("--coarse " + coarse.message());
  }
  const multigrid::NetworkSettings& network = settings.network;
  const bool has_levels = network.levels != 1 && network.method == multigrid::Method::kMultigrid;
  if (settings.RunsOnCpu() || !has_levels || words.analyse || network.coarsening.empty()) {
    return multigrid::CoarseOperator::kInject;
  }
  const multigrid::Stage* const longest = LongestStage(problem);
  if (longest == nullptr) return multigrid::CoarseOperator::kInject;
  const int batch = words.batch.empty() && !words.train.empty() ? kTrainingBatch : network.batch;
  auto chosen = static_cast<double>(multigrid::CoarseOperator::kInject);
  if (settings.ranks->speaks()) {
    const multigrid::CoarseOperator fitting =
        settings.device->solvers(settings.ranks->first_here())
            .MeasureOperator(problem.chain, *longest, batch, network.coarsening.front());
    chosen = static_cast<double>(fitting);
  }
  UCUDNN_RETURN_IF_ERROR(settings.ranks->Share(chosen));
  return static_cast<multigrid::CoarseOperator>(static_cast<int>(chosen));
}

}  // namespace

Result<MultigridSettings> ReadSettings(const MultigridWords& words, const Problem& problem,
                                       std::shared_ptr<MultigridRanks> ranks) {
  MultigridSettings settings;
  settings.ranks = std::move(ranks);
  multigrid::NetworkSettings& network = settings.network;
  UCUDNN_ASSIGN_OR_RETURN(const bool is_device, Choose<bool>("--backend", words.backend,
                                                             {{"cpu64", false}, {"cudnn", true}}));
  if (is_device) {
    UCUDNN_ASSIGN_OR_RETURN(settings.device, MultigridDevice::Open(words, *settings.ranks));
  }
  int threads = ProcessorsOfThisProcess();
  if (!words.threads.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(threads, ParseWhole("--threads", words.threads, 1, 1024));
  }
  network.lanes = std::max(1, threads / settings.ranks->on_this_host());
  if (!words.batch.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(network.batch, ParseWhole("--batch", words.batch, 1, kMostSteps));
  }
  UCUDNN_ASSIGN_OR_RETURN(network.method, Choose<multigrid::Method>(
                                              "--method", words.method,
                                              {{"multigrid", multigrid::Method::kMultigrid},
                                               {"partitioned", multigrid::Method::kPartitioned}}));
  network.notes_timeline = words.timeline;
  network.time = problem.time;
  network.step = problem.step;
  UCUDNN_ASSIGN_OR_RETURN(network.coarsening, ReadCoarsening(words, problem));
  if (!words.levels.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(network.levels, ParseWhole("--levels", words.levels, 1, 64));
  }
  UCUDNN_ASSIGN_OR_RETURN(network.coarse, ReadCoarse(words, problem, settings));
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
  UCUDNN_ASSIGN_OR_RETURN(settings.checks, ReadCheck(words));
  return settings;
}

Result<std::vector<int>> ReadDepths(const MultigridWords& words) {
  if (words.depths.empty()) return std::vector<int>();
  return ParseList("--depths", words.depths);
}

Result<MultigridTraining> ReadTraining(const MultigridWords& words,
                                       const MultigridSettings& settings) {
  MultigridTraining training;
  training.settings.network = settings.network;
  training.device = settings.device;
  if (words.batch.empty()) training.settings.network.batch = kTrainingBatch;
  UCUDNN_ASSIGN_OR_RETURN(training.settings.learning_rate, ParsePositive("--rate", words.rate));
  training.settings.momentum = NumberOf(words.momentum).value_or(-1);
  if (!(training.settings.momentum >= 0 && training.settings.momentum < 1)) {
    return Status::Error("--momentum " + Quoted(words.momentum) +
                         ": expected a number from 0 to below 1");
  }
  UCUDNN_ASSIGN_OR_RETURN(const int seed, ParseWhole("--seed", words.seed, 0, kMostSeed));
  training.settings.seed = static_cast<uint64_t>(seed);
  if (settings.checks) {
    const auto steps = WholeOf(words.check.substr(sizeof kEvery - 1), 1, 1 << 30);
    if (!steps) {
      return Status::Error("--check " + Quoted(words.check) +
                           ": expected every:K with a whole number of steps, as in every:10");
    }
    training.settings.checked_every = *steps;
  }
  UCUDNN_ASSIGN_OR_RETURN(training.settings.repeats,
                          ParseWhole("--repeat", words.repeat, 1, kMostSteps));
  UCUDNN_ASSIGN_OR_RETURN(training.epochs, ParseWhole("--epochs", words.epochs, 1, 1 << 20));
  if (!words.examples.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(training.most_examples,
                            ParseWhole("--examples", words.examples, 1, 1 << 30));
  }
  return training;
}

}  // namespace ucudnn::command
