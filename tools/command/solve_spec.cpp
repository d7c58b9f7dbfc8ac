#include "command/solve_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/byte_size.h"
#include "base/text.h"
#include "planner/machine/presets.h"
#include "planner/multigrid/data/data_file.h"
#include "spatial/agreement.h"

namespace ucudnn::command {
namespace {

using multigrid::NetworkSettings;
using multigrid::Start;
using nlohmann::ordered_json;

constexpr int kMostSteps = 1 << 20;
constexpr int kMostCount = 1 << 30;
constexpr int kMostCycles = 1000;
constexpr int kMostRanks = 1024;
constexpr int kMostSeed = std::numeric_limits<int>::max() - 1;
constexpr int kTrainingBatch = 32;
constexpr int kCyclesWithoutTolerance = 2;
constexpr int kCyclesToTolerance = 100;
constexpr char kGiven[] = "yes";
constexpr char kEvery[] = "every:";

constexpr std::pair<const char*, planner::ActivationKind> kActivations[] = {
    {"relu", planner::ActivationKind::kRelu}, {"tanh", planner::ActivationKind::kTanh}};
constexpr std::pair<const char*, multigrid::ResidualScale> kNorms[] = {
    {"absolute", multigrid::ResidualScale::kAbsolute},
    {"relative", multigrid::ResidualScale::kLargestState}};
constexpr std::pair<const char*, Start> kStarts[] = {
    {"broadcast", Start::kBroadcast}, {"nested", Start::kNested}, {"previous", Start::kPrevious}};
constexpr std::pair<const char*, multigrid::Storage> kStorages[] = {
    {"all", multigrid::Storage::kAll}, {"c-points", multigrid::Storage::kCPoints}};
constexpr std::pair<const char*, bool> kBackends[] = {{"cpu64", false}, {"cudnn", true}};
constexpr std::pair<const char*, multigrid::Method> kMethods[] = {
    {"multigrid", multigrid::Method::kMultigrid}, {"partitioned", multigrid::Method::kPartitioned}};
constexpr std::pair<const char*, std::optional<multigrid::Way>> kWayNames[] = {
    {"auto", std::nullopt},
    {"streams", multigrid::Way::kStreams},
    {"grouped", multigrid::Way::kGrouped}};
constexpr std::pair<const char*, std::optional<multigrid::Launch>> kLaunchNames[] = {
    {"auto", std::nullopt},
    {"each", multigrid::Launch::kEach},
    {"graph", multigrid::Launch::kGraph}};

template <typename T, size_t N>
const char* NameIn(const std::pair<const char*, T> (&choices)[N], const T& value) {
  return std::find_if(std::begin(choices), std::end(choices),
                      [&](const auto& choice) { return choice.second == value; })
      ->first;
}

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

std::optional<int> WholeOf(const std::string& text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_all = error == std::errc() && end == text.data() + text.size();
  return is_all && number >= least && number <= most ? std::optional(number) : std::nullopt;
}

Result<double> ParsePositive(const std::string& option, const std::string& text) {
  const std::optional<double> number = NumberOf(text);
  if (number && *number > 0) return *number;
  return Status::Error(option + " " + Quoted(text) + ": expected a number above 0");
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

// Reads of options whose value is one place of the spec: `place(spec)` is it.

template <typename Place>
auto Text(Place place) {
  return [place](const std::string& text, SolveSpec& spec) {
    place(spec) = text;
    return Status::Ok();
  };
}

template <typename Place>
auto Flag(Place place) {
  return [place](const std::string&, SolveSpec& spec) {
    place(spec) = true;
    return Status::Ok();
  };
}

template <typename Parse, typename Place>
auto Parsed(Parse parse, Place place) {
  return [parse, place](const std::string& text, SolveSpec& spec) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(place(spec), parse(text));
    return Status::Ok();
  };
}

template <typename Place>
auto Whole(const char* option, int least, int most, Place place) {
  return Parsed([=](const std::string& text) { return ParseWhole(option, text, least, most); },
                place);
}

template <typename Place>
auto Positive(const char* option, Place place) {
  return Parsed([=](const std::string& text) { return ParsePositive(option, text); }, place);
}

template <typename T, size_t N, typename Place>
auto Choice(const char* option, const std::pair<const char*, T> (&choices)[N], Place place) {
  return Parsed([=, &choices](const std::string& text) { return Choose(option, text, choices); },
                place);
}

// The place of the spec that is called so.
#define UCUDNN_SPEC(member) \
  [](SolveSpec & spec) -> auto& { return spec.member; }

ordered_json NumberOrNull(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? ordered_json(*number) : ordered_json(nullptr);
}

std::vector<SpecOption> ProblemOptions() {
  return {
      {"NET", "", "",
       "a built-in network (any other word lists them), FILE.onnx, FILE.prototxt,\n"
       "FILE.json (ucudnn-net), or chain: the residual steps of --weights alone",
       Agreement::kValue, Text(UCUDNN_SPEC(net))},
      {"--weights", "FILE.safetensors", "",
       "weights from safetensors: arrays named like the network's layers, or of a chain\n"
       "K [N,C,C,k,k], b [N,C] and u0 [C,H,W] (default: drawn by --seed)",
       Agreement::kContents, Text(UCUDNN_SPEC(weights)), "weights",
       [](const SolveSpec& spec, const NetworkSettings&) {
         return ordered_json(spec.weights.empty() ? "drawn" : spec.weights);
       }},
      {"--activation", "NAME", "relu", "the activation of a chain: relu or tanh", Agreement::kValue,
       Choice("--activation", kActivations, UCUDNN_SPEC(activation))},
      {"--layers", "N", "", "residual layers of kirby-3m (default: 4,093)", Agreement::kValue,
       Whole("--layers", 2, kMostSteps, UCUDNN_SPEC(layers))},
      {"--depths", "N,...", "",
       "solve kirby-3m with each of these numbers of residual layers, side by side",
       Agreement::kValue,
       Parsed([](const std::string& text) { return ParseList("--depths", text); },
              UCUDNN_SPEC(depths))},
      {"--seed", "N", "0", "the seed of weights, image and order of training", Agreement::kValue,
       Whole("--seed", 0, kMostSeed, UCUDNN_SPEC(training.seed))},
      {"--frozen-norms", nullptr, "", "batch normalisations inside steps have frozen statistics",
       Agreement::kValue, Flag(UCUDNN_SPEC(frozen_norms))},
      {"--time", "T", "", "h = T / N for a stage of N steps (default of Kirby's: 1)",
       Agreement::kValue, Positive("--time", UCUDNN_SPEC(time))},
      {"--step", "H", "", "h of every step, u + h F(u) (default: 1, but for Kirby's networks)",
       Agreement::kValue, Positive("--step", UCUDNN_SPEC(step))},
  };
}

std::vector<SpecOption> SolveOptions() {
  return {
      {"--cycles", "N", "",
       "how many cycles (default: 2); with a --tolerance at most so many (default: 100),\n"
       "then serial propagation solves the rest",
       Agreement::kValue, Whole("--cycles", 1, kMostCycles, UCUDNN_SPEC(cycles)), "most_cycles",
       [](const SolveSpec&, const NetworkSettings& network) {
         return ordered_json(network.forward.cycles);
       }},
      {"--tolerance", "R", "", "the residual at which a solve ends (default: none)",
       Agreement::kValue, Positive("--tolerance", UCUDNN_SPEC(network().forward.tolerance)),
       "tolerance",
       [](const SolveSpec&, const NetworkSettings& network) {
         return NumberOrNull(network.forward.tolerance);
       }},
      {"--norm", "NAME", "absolute",
       "how residuals are measured, in L2: absolute, or relative to the largest state",
       Agreement::kValue, Choice("--norm", kNorms, UCUDNN_SPEC(network().forward.scale)), "norm",
       [](const SolveSpec&, const NetworkSettings& network) {
         return ordered_json(NormText(network.forward));
       }},
      {"--coarsening", "C,...", "",
       "how many layers a coarse layer stands for, for each level (default: 8, or half of\n"
       "fewer than 16 layers)",
       Agreement::kValue,
       Parsed([](const std::string& text) { return ParseList("--coarsening", text); },
              UCUDNN_SPEC(network().coarsening))},
      {"--levels", "L", "", "1 is serial propagation (default: as many as leave 2 to 7 layers)",
       Agreement::kValue, Whole("--levels", 1, 64, UCUDNN_SPEC(network().levels))},
      {"--relaxation", "NAME,...", "FCF", "F, FCF or FCFCF, for each level", Agreement::kValue,
       Parsed(ParseRelaxation, UCUDNN_SPEC(network().forward.c_sweeps)), "relaxation",
       [](const SolveSpec&, const NetworkSettings& network) {
         return ordered_json(RelaxationText(network.forward));
       }},
      {"--coarse", "NAME", "",
       "what a coarse layer computes: inject or sum (default: inject; of a GPU sum where the\n"
       "layers of a block at once take at most twice as long as one)",
       Agreement::kValue,
       Parsed(
           [](const std::string& text) {
             const auto coarse = multigrid::ParseCoarseOperator(text);
             return coarse.ok() ? coarse : Status::Error("--coarse " + coarse.message());
           },
           UCUDNN_SPEC(coarse)),
       "coarse",
       [](const SolveSpec&, const NetworkSettings& network) {
         return ordered_json(multigrid::NameOf(network.coarse));
       }},
      {"--start", "NAME", "",
       "broadcast, nested: coarse levels first, or, of mini-batches that --repeat repeats,\n"
       "previous: their last states (default: broadcast, with --repeat previous)",
       Agreement::kValue, Choice("--start", kStarts, UCUDNN_SPEC(start)), "start",
       [](const SolveSpec&, const NetworkSettings& network) {
         return ordered_json(StartText(network.forward.start));
       }},
      {"--skip-first-down", nullptr, "", "the first cycle goes down without relaxing",
       Agreement::kValue, Flag(UCUDNN_SPEC(network().forward.skips_first_down))},
      {"--storage", "NAME", "all",
       "states kept: all, or c-points, between which others are computed again", Agreement::kValue,
       Choice("--storage", kStorages, UCUDNN_SPEC(network().storage)), "storage",
       [](const SolveSpec&, const NetworkSettings& network) {
         return ordered_json(NameIn(kStorages, network.storage));
       }},
  };
}

std::vector<SpecOption> MachineOptions() {
  return {
      {"--backend", "NAME", "",
       "cpu64, double precision on the host, or cudnn, stages on devices (default: cpu64;\n"
       "with --host cudnn)",
       Agreement::kValue, Choice("--backend", kBackends, UCUDNN_SPEC(on_device)), "backend",
       [](const SolveSpec& spec, const NetworkSettings&) {
         return ordered_json(NameIn(kBackends, *spec.on_device));
       }},
      {"--host", nullptr, "", "cudnn on the CPU stand-in: its times are CPU times",
       Agreement::kValue, Flag(UCUDNN_SPEC(host))},
      {"--way", "NAME", "auto",
       "how a device runs the blocks of a level: streams, grouped (as one convolution of many\n"
       "groups), or auto, the faster one as measured",
       Agreement::kValue, Choice("--way", kWayNames, UCUDNN_SPEC(device.way))},
      {"--launch", "NAME", "auto",
       "how a device is given a cycle: each call, as one CUDA graph, or auto, a graph where\n"
       "cycles can be recorded",
       Agreement::kValue, Choice("--launch", kLaunchNames, UCUDNN_SPEC(device.launch))},
      {"--precision", "NAME", "fp32", "of a device's numbers: " + multigrid::PrecisionNames(),
       Agreement::kValue,
       Parsed(
           [](const std::string& text) {
             const auto precision = multigrid::ParsePrecision(text);
             return precision.ok() ? precision
                                   : Status::Error("--precision " + precision.message());
           },
           UCUDNN_SPEC(precision)),
       "precision",
       [](const SolveSpec& spec, const NetworkSettings&) {
         return ordered_json(*spec.on_device ? spec.precision->name : "fp64");
       }},
      {"--streams", "N", "8", "how many streams the way streams takes", Agreement::kValue,
       Whole("--streams", 1, 1024, UCUDNN_SPEC(device.lanes))},
      {"--workspace-limit", "SIZE", "64MiB", "workspace of all blocks at once", Agreement::kValue,
       Parsed(
           [](const std::string& text) {
             const Result<size_t> limit = ParseByteSize(text);
             if (limit.ok()) return limit;
             return Result<size_t>(Status::Error("--workspace-limit " + Quoted(text) +
                                                 ": expected bytes, as in 64MiB"));
           },
           UCUDNN_SPEC(device.workspace_limit))},
      {"--threads", "N", "",
       "how many threads run blocks of layers (default: as many as processors)", Agreement::kNone,
       Whole("--threads", 1, 1024, UCUDNN_SPEC(threads))},
      {"--batch", "N", "", "images in a mini-batch (default: 1, in training 32)", Agreement::kValue,
       Whole("--batch", 1, kMostSteps, UCUDNN_SPEC(batch)), "batch",
       [](const SolveSpec&, const NetworkSettings& network) {
         return ordered_json(network.batch);
       }},
      {"--check", "WHEN", "", "compare with serial propagation: once, or in training every:K steps",
       Agreement::kValue, Text(UCUDNN_SPEC(check))},
      {"--timeline", nullptr, "",
       "note which layers each thread or stream runs when in one cycle, for --json, --report",
       Agreement::kNone, Flag(UCUDNN_SPEC(network().notes_timeline))},
      {"--json", nullptr, "", "print JSON (planner/report/FORMAT.md)", Agreement::kNone,
       Flag(UCUDNN_SPEC(json))},
      {"--report", "FILE.json", "",
       "write the JSON to a file, too; `ucudnn report FILE.json` draws it", Agreement::kNone,
       Text(UCUDNN_SPEC(report))},
  };
}

Result<double> ParseMomentum(const std::string& text) {
  const double momentum = NumberOf(text).value_or(-1);
  if (momentum >= 0 && momentum < 1) return momentum;
  return Status::Error("--momentum " + Quoted(text) + ": expected a number from 0 to below 1");
}

std::vector<SpecOption> TrainingOptions() {
  return {
      {"--train", "FOLDER", "", "train on digits: the folder of four IDX files with MNIST's names",
       Agreement::kPresence, Text(UCUDNN_SPEC(train))},
      {"--epochs", "E", "5", "passes over the images", Agreement::kValue,
       Whole("--epochs", 1, kMostSteps, UCUDNN_SPEC(epochs))},
      {"--examples", "N", "", "train on the first N images (default: all)", Agreement::kValue,
       Whole("--examples", 1, kMostCount, UCUDNN_SPEC(most_examples))},
      {"--rate", "R", "0.002", "learning rate", Agreement::kValue,
       Positive("--rate", UCUDNN_SPEC(training.learning_rate))},
      {"--momentum", "M", "0.9", "momentum of SGD", Agreement::kValue,
       Parsed(ParseMomentum, UCUDNN_SPEC(training.momentum))},
      {"--repeat", "K", "1", "steps with each mini-batch", Agreement::kValue,
       Whole("--repeat", 1, kMostSteps, UCUDNN_SPEC(training.repeats))},
      {"--backward-cycles", "N", "", "cycles of adjoint solves (default: as --cycles)",
       Agreement::kValue, Whole("--backward-cycles", 1, kMostCycles, UCUDNN_SPEC(backward_cycles))},
  };
}

std::vector<SpecOption> PlaceOptions() {
  return {
      {"--analyse", nullptr, "",
       "say whether it pays: model the fastest setting on each number of devices, against\n"
       "serial propagation, from single layers and from how fast solves converge",
       Agreement::kNone, Flag(UCUDNN_SPEC(analyse))},
      {"--machine", "FILE|NAME", "",
       "to analyse: a machine's file or name (" + Join(planner::MachineNames(), ", ") +
           ";\nN nodes: " + planner::ClusterNames() +
           "); default: this one, with a core as a device",
       Agreement::kNone, Text(UCUDNN_SPEC(machine))},
      {"--devices", "N", "",
       "share the layers out over N threads, of cudnn with a device each; processes that\n"
       "torchrun, MPI or SLURM started are devices by themselves. To analyse: N,... (default: 1, "
       "2, 4, ... 64)",
       Agreement::kNone, Text(UCUDNN_SPEC(devices))},
      {"--method", "NAME", "multigrid",
       "multigrid, or partitioned: the same layers on the same devices, one after the\n"
       "other",
       Agreement::kValue, Choice("--method", kMethods, UCUDNN_SPEC(network().method)), "method",
       [](const SolveSpec& spec, const NetworkSettings&) {
         return ordered_json(NameIn(kMethods, spec.network().method));
       }},
      {"--data-parallel", "D", "1", "train D replicas, each on --devices, that sum their gradients",
       Agreement::kValue, Whole("--data-parallel", 1, kMostRanks, UCUDNN_SPEC(replicas))},
  };
}

#undef UCUDNN_SPEC

// --check every:K, of training.
Status ReadCheck(SolveSpec& spec) {
  const std::string& check = spec.check;
  if (check.empty()) return Status::Ok();
  const std::string option = "--check " + Quoted(check) + ": expected ";
  const bool is_every = check.starts_with(kEvery);
  if (!spec.trains()) {
    return check == "once" ? Status::Ok() : Status::Error(option + "once; every:K is of training");
  }
  if (!is_every) {
    return Status::Error(option + "every:K, as in every:10: once is of a single solve");
  }
  const auto steps = WholeOf(check.substr(sizeof kEvery - 1), 1, kMostCount);
  if (!steps) {
    return Status::Error(option + "every:K with a whole number of steps, as in every:10");
  }
  spec.training.checked_every = *steps;
  return Status::Ok();
}

// What follows from several options.
Status Complete(SolveSpec& spec) {
  if (spec.time && spec.step) {
    return Status::Error("--time and --step both say how far a layer goes; expected one of them");
  }
  if (!spec.on_device) spec.on_device = spec.host;
  NetworkSettings& network = spec.network();
  network.batch = spec.batch.value_or(spec.trains() ? kTrainingBatch : 1);
  const bool repeats = spec.training.repeats > 1;
  if (spec.start == Start::kPrevious && !repeats) {
    return Status::Error(
        "--start previous: no mini-batch is solved twice; expected --repeat 2 or more with it");
  }
  multigrid::SolveOptions& forward = network.forward;
  forward.start = spec.start.value_or(repeats ? Start::kPrevious : Start::kBroadcast);
  forward.cycles =
      spec.cycles.value_or(forward.tolerance ? kCyclesToTolerance : kCyclesWithoutTolerance);
  network.backward = forward;
  network.backward.cycles = spec.backward_cycles.value_or(forward.cycles);
  return ReadCheck(spec);
}

// A hash of the file's bytes, in hexadecimal digits.
Result<std::string> ContentsHash(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const multigrid::DataFile file, multigrid::DataFile::Open(path));
  std::vector<char> block(size_t{1} << 20);
  uint64_t hash = 0;
  for (uint64_t at = 0; at < file.size(); at += block.size()) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(block.size(), file.size() - at));
    UCUDNN_RETURN_IF_ERROR(file.Read(at, std::span(block).first(size)));
    // Of what was read before and of this block.
    std::string text(sizeof hash, '\0');
    std::copy_n(reinterpret_cast<const char*>(&hash), sizeof hash, text.begin());
    hash = spatial::HashOf(text.append(block.data(), size));
  }
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return std::string(digits);
}

}  // namespace

const std::vector<SpecOption>& SpecOptions() {
  static const auto* const all = [] {
    auto* options = new std::vector<SpecOption>();
    for (auto of_group :
         {ProblemOptions(), SolveOptions(), MachineOptions(), TrainingOptions(), PlaceOptions()}) {
      options->insert(options->end(), of_group.begin(), of_group.end());
    }
    return options;
  }();
  return *all;
}

void AddSpecOptions(CLI::App& app, std::map<std::string, std::string>& texts) {
  for (const SpecOption& option : SpecOptions()) {
    if (option.value == nullptr) {
      app.add_flag(option.name, option.help)->disable_flag_override();
      continue;
    }
    const bool tells = !option.by_default.empty();
    CLI::Option* const added = app.add_option(
        option.name, texts[option.name],
        option.help + (tells ? " (default: " + option.by_default + ")" : std::string()));
    added->type_name(option.value);
    if (!option.name.starts_with("-")) added->required();
  }
}

Result<SolveSpec> ReadSpec(const CLI::App& app, const std::map<std::string, std::string>& texts) {
  SolveSpec spec;
  for (const SpecOption& option : SpecOptions()) {
    const bool is_given = app.count(option.name) > 0;
    std::string text = option.by_default;
    if (is_given) text = option.value == nullptr ? kGiven : texts.at(option.name);
    spec.given[option.name] = is_given;
    spec.texts[option.name] = text;
    if (!text.empty()) UCUDNN_RETURN_IF_ERROR(option.read(text, spec));
  }
  UCUDNN_RETURN_IF_ERROR(Complete(spec));
  return spec;
}

Status SolveSpec::Refuse(const std::vector<const char*>& options, const std::string& why) const {
  for (const char* option : options) {
    if (IsGiven(option)) return Status::Error(option + (": " + why));
  }
  return Status::Ok();
}

std::vector<transport::Term> TermsOf(const SolveSpec& spec) {
  std::vector<transport::Term> terms;
  for (const SpecOption& option : SpecOptions()) {
    if (option.agreement == Agreement::kNone) continue;
    std::string value = spec.Text(option.name);
    if (option.agreement == Agreement::kPresence) value = spec.IsGiven(option.name) ? kGiven : "";
    if (option.agreement == Agreement::kContents && !value.empty()) {
      const Result<std::string> hash = ContentsHash(value);
      value = hash.ok() ? *hash : "cannot be read";
    }
    terms.push_back({option.name, value});
  }
  return terms;
}

Result<int> ParseWhole(const std::string& option, const std::string& text, int least, int most) {
  if (const auto number = WholeOf(text, least, most)) return *number;
  return Status::Error(option + " " + Quoted(text) + ": expected a whole number from " +
                       std::to_string(least) + " to " + std::to_string(most));
}

const char* NormText(const multigrid::SolveOptions& options) {
  return options.scale == multigrid::ResidualScale::kAbsolute ? "L2, absolute"
                                                              : "L2, relative to the largest state";
}

std::string RelaxationText(const multigrid::SolveOptions& options) {
  std::vector<std::string> texts;
  for (const int sweeps : options.c_sweeps) {
    std::string text = "F";
    for (int sweep = 0; sweep < sweeps; ++sweep) text += "CF";
    texts.push_back(text);
  }
  return Join(texts, ",");
}

const char* StartText(Start start) { return NameIn(kStarts, start); }

}  // namespace ucudnn::command
