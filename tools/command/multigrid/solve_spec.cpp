#include "command/multigrid/solve_spec.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>

#include "base/byte_size.h"
#include "base/text.h"
#include "command/command.h"
#include "command/numbers.h"
#include "planner/machine/presets.h"
#include "planner/multigrid/data/data_file.h"
#include "planner/multigrid/data/labelled_images.h"
#include "spatial/agreement.h"

namespace ucudnn::command {
namespace {

using multigrid::NetworkSettings;
using multigrid::Start;

constexpr int kMostSteps = 1 << 20;
constexpr int kMostWhole = 1 << 30;
constexpr int kMostCycles = 1000;
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

// Returns the value of `choices` whose name is `text`. If there is none, the error names the option
// and lists the names of all values.
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

Result<double> ParsePositive(const std::string& option, const std::string& text) {
  const std::optional<double> number = ParseNumber<double>(text);
  if (number && *number > 0) return *number;
  return Status::Error(option + " " + Quoted(text) + ": expected a number above 0");
}

// Parses whole numbers, 2 or more, separated by commas.
Result<std::vector<int>> ParseList(const std::string& option, const std::string& text) {
  if (auto numbers = WholeNumbers(text, ',', 2, kMostSteps)) return std::move(*numbers);
  return Status::Error(option + " " + Quoted(text) + ": expected whole numbers from 2 to " +
                       std::to_string(kMostSteps) + ", with commas between");
}

// Parses F, FCF, FCFCF, ..., one for each level, into the numbers of C-relaxations.
Result<std::vector<int>> ParseRelaxation(const std::string& option, const std::string& text) {
  std::vector<int> levels;
  for (const std::string& word : Split(text, ',')) {
    int sweeps = 0;
    std::string rest = word;
    while (rest.size() > 2 && rest.compare(0, 2, "FC") == 0) {
      rest.erase(0, 2);
      ++sweeps;
    }
    if (rest != "F") {
      return Status::Error(option + " " + Quoted(text) +
                           ": expected F, FCF or FCFCF, or one for each level with commas between");
    }
    levels.push_back(sweeps);
  }
  return levels;
}

// Each of the following functions returns a reader of an option. The reader stores the option's
// value at place(spec).

template <typename Place>
auto Text(Place place) {
  return [place](const std::string&, const std::string& text, SolveSpec& spec) {
    place(spec) = text;
    return Status::Ok();
  };
}

template <typename Place>
auto Flag(Place place) {
  return [place](const std::string&, const std::string&, SolveSpec& spec) {
    place(spec) = true;
    return Status::Ok();
  };
}

// This reader stores parse(option, text).
template <typename Parse, typename Place>
auto Parsed(Parse parse, Place place) {
  return [parse, place](const std::string& option, const std::string& text,
                        SolveSpec& spec) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(place(spec), parse(option, text));
    return Status::Ok();
  };
}

template <typename Place>
auto Whole(int least, int most, Place place) {
  return Parsed(
      [=](const auto& option, const auto& text) { return ParseWhole(option, text, least, most); },
      place);
}

template <typename T, size_t N, typename Place>
auto Choice(const std::pair<const char*, T> (&choices)[N], Place place) {
  return Parsed(
      [&choices](const auto& option, const auto& text) { return Choose(option, text, choices); },
      place);
}

// This reader stores parse(text), and puts the option's name before the error of a failed parse.
template <typename T, typename Place>
auto Named(Result<T> (*parse)(const std::string&), Place place) {
  return Parsed(
      [parse](const auto& option, const auto& text) {
        Result<T> value = parse(text);
        return value.ok() ? value : Result<T>(Status::Error(option + " " + value.message()));
      },
      place);
}

Result<size_t> ParseLimit(const std::string& option, const std::string& text) {
  Result<size_t> limit = ParseByteSize(text);
  if (limit.ok()) return limit;
  return Status::Error(option + " " + Quoted(text) + ": expected bytes, as in 64MiB");
}

Result<double> ParseMomentum(const std::string& option, const std::string& text) {
  const double momentum = ParseNumber<double>(text).value_or(-1);
  if (momentum >= 0 && momentum < 1) return momentum;
  return Status::Error(option + " " + Quoted(text) + ": expected a number from 0 to below 1");
}

// A lambda that returns spec.member, for use as `place`.
#define UCUDNN_SPEC(member) \
  [](SolveSpec & spec) -> auto& { return spec.member; }

std::vector<SpecOption> ProblemOptions() {
  return {
      {"NET", "", "",
       "a built-in network (any other word lists them), FILE.onnx, FILE.prototxt,\n"
       "FILE.json (ucudnn-net), or chain: the residual steps of --weights alone",
       Text(UCUDNN_SPEC(net)), Agreement::kContents},
      {"--weights", "FILE.safetensors", "",
       "weights from safetensors: arrays named like the network's layers, or of a chain\n"
       "K [N,C,C,k,k], b [N,C] and u0 [C,H,W] (default: drawn by --seed)",
       Text(UCUDNN_SPEC(weights)), Agreement::kContents},
      {"--activation", "NAME", "relu", "the activation of a chain: relu or tanh",
       Choice(kActivations, UCUDNN_SPEC(activation))},
      {"--layers", "N", "", "residual layers of kirby-3m (default: 4,093)",
       Whole(2, kMostSteps, UCUDNN_SPEC(layers))},
      {"--depths", "N,...", "",
       "solve kirby-3m with each of these numbers of residual layers, side by side",
       Parsed(ParseList, UCUDNN_SPEC(depths))},
      {"--seed", "N", "0", "the seed of weights, image and order of training",
       Whole(0, kMostSeed, UCUDNN_SPEC(training.seed))},
      {"--frozen-norms", nullptr, "", "batch normalisations inside steps have frozen statistics",
       Flag(UCUDNN_SPEC(frozen_norms))},
      {"--time", "T", "", "h = T / N for a stage of N steps (default of Kirby's: 1)",
       Parsed(ParsePositive, UCUDNN_SPEC(time))},
      {"--step", "H", "", "h of every step, u + h F(u) (default: 1, but for Kirby's networks)",
       Parsed(ParsePositive, UCUDNN_SPEC(step))},
  };
}

std::vector<SpecOption> SolveOptions() {
  return {
      {"--cycles", "N", "",
       "how many cycles (default: 2); with a --tolerance at most so many (default: 100),\n"
       "then serial propagation solves the rest",
       Whole(1, kMostCycles, UCUDNN_SPEC(cycles))},
      {"--tolerance", "R", "", "the residual at which a solve ends (default: none)",
       Parsed(ParsePositive, UCUDNN_SPEC(network().forward.tolerance))},
      {"--norm", "NAME", "absolute",
       "how residuals are measured, in L2: absolute, or relative to the largest state",
       Choice(kNorms, UCUDNN_SPEC(network().forward.scale))},
      {"--coarsening", "C,...", "",
       "how many layers a coarse layer stands for, for each level (default: 8, or half of\n"
       "fewer than 16 layers)",
       Parsed(ParseList, UCUDNN_SPEC(network().coarsening))},
      {"--levels", "L", "", "1 is serial propagation (default: as many as leave 2 to 7 layers)",
       Whole(1, 64, UCUDNN_SPEC(network().levels))},
      {"--relaxation", "NAME,...", "FCF", "F, FCF or FCFCF, for each level",
       Parsed(ParseRelaxation, UCUDNN_SPEC(network().forward.c_sweeps))},
      {"--coarse", "NAME", "",
       "what a coarse layer computes: inject or sum (default: inject; of a GPU sum where the\n"
       "layers of a block at once take at most twice as long as one)",
       Named(multigrid::ParseCoarseOperator, UCUDNN_SPEC(coarse))},
      {"--start", "NAME", "",
       "broadcast, nested: coarse levels first, or, of mini-batches that --repeat repeats,\n"
       "previous: their last states (default: broadcast, with --repeat previous)",
       Choice(kStarts, UCUDNN_SPEC(start))},
      {"--skip-first-down", nullptr, "", "the first cycle goes down without relaxing",
       Flag(UCUDNN_SPEC(network().forward.skips_first_down))},
      {"--storage", "NAME", "all",
       "states kept: all, or c-points, between which others are computed again",
       Choice(kStorages, UCUDNN_SPEC(network().storage))},
  };
}

std::vector<SpecOption> MachineOptions() {
  return {
      {"--backend", "NAME", "",
       "cpu64, double precision on the host, or cudnn, stages on devices (default: cpu64;\n"
       "with --host cudnn)",
       Choice(kBackends, UCUDNN_SPEC(on_device))},
      {"--host", nullptr, "", "cudnn on the CPU stand-in: its times are CPU times",
       Flag(UCUDNN_SPEC(host))},
      {"--way", "NAME", "auto",
       "how a device runs the blocks of a level: streams, grouped (as one convolution of many\n"
       "groups), or auto, the faster one as measured",
       Choice(kWayNames, UCUDNN_SPEC(device.way))},
      {"--launch", "NAME", "auto",
       "how a device is given a cycle: each call, as one CUDA graph, or auto, a graph where\n"
       "cycles can be recorded",
       Choice(kLaunchNames, UCUDNN_SPEC(device.launch))},
      {"--precision", "NAME", "fp32", "of a device's numbers: " + multigrid::PrecisionNames(),
       Named(multigrid::ParsePrecision, UCUDNN_SPEC(precision))},
      {"--streams", "N", "8", "how many streams the way streams takes",
       Whole(1, 1024, UCUDNN_SPEC(device.lanes))},
      {"--workspace-limit", "SIZE", "64MiB", "workspace of all blocks at once",
       Parsed(ParseLimit, UCUDNN_SPEC(device.workspace_limit))},
      {"--threads", "N", "",
       "how many threads run blocks of layers (default: as many as processors)",
       Whole(1, 1024, UCUDNN_SPEC(threads)), Agreement::kNone},
      {"--batch", "N", "", "images in a mini-batch (default: 1, in training 32)",
       Whole(1, kMostSteps, UCUDNN_SPEC(batch))},
      {"--check", "WHEN", "", "compare with serial propagation: once, or in training every:K steps",
       Text(UCUDNN_SPEC(check))},
      {"--timeline", nullptr, "",
       "note which layers each thread or stream runs when in one cycle, for --json, --report",
       Flag(UCUDNN_SPEC(network().notes_timeline)), Agreement::kNone},
      {"--json", nullptr, "", "print JSON (planner/report/FORMAT.md)", Flag(UCUDNN_SPEC(json)),
       Agreement::kNone},
      {"--report", "FILE.json", "",
       "write the JSON to a file, too; `ucudnn report FILE.json` draws it",
       Text(UCUDNN_SPEC(report)), Agreement::kNone},
  };
}

std::vector<SpecOption> TrainingOptions() {
  return {
      {"--train", "FOLDER", "", "train on digits: the folder of four IDX files with MNIST's names",
       Text(UCUDNN_SPEC(train)), Agreement::kContents},
      {"--epochs", "E", "5", "passes over the images", Whole(1, kMostSteps, UCUDNN_SPEC(epochs))},
      {"--examples", "N", "", "train on the first N images (default: all)",
       Whole(1, kMostWhole, UCUDNN_SPEC(most_examples))},
      {"--rate", "R", "0.002", "learning rate",
       Parsed(ParsePositive, UCUDNN_SPEC(training.learning_rate))},
      {"--momentum", "M", "0.9", "momentum of SGD",
       Parsed(ParseMomentum, UCUDNN_SPEC(training.momentum))},
      {"--repeat", "K", "1", "steps with each mini-batch",
       Whole(1, kMostSteps, UCUDNN_SPEC(training.repeats))},
      {"--backward-cycles", "N", "", "cycles of adjoint solves (default: as --cycles)",
       Whole(1, kMostCycles, UCUDNN_SPEC(backward_cycles))},
  };
}

std::vector<SpecOption> PlaceOptions() {
  return {
      {"--analyse", nullptr, "",
       "say whether it pays: model the fastest setting on each number of devices, against\n"
       "serial propagation, from single layers and from how fast solves converge",
       Flag(UCUDNN_SPEC(analyse)), Agreement::kNone},
      {"--machine", "FILE|NAME", "",
       "to analyse: a machine's file or name (" + Join(planner::MachineNames(), ", ") +
           ";\nN nodes: " + planner::ClusterNames() +
           "); default: this one, with a core as a device",
       Text(UCUDNN_SPEC(machine)), Agreement::kNone},
      {"--devices", "N", "",
       "share the layers out over N threads, of cudnn with a device each; processes that\n"
       "torchrun, MPI or SLURM started are devices by themselves. To analyse: N,... (default: 1, "
       "2, 4, ... 64)",
       Text(UCUDNN_SPEC(devices)), Agreement::kNone},
      {"--method", "NAME", "multigrid",
       "multigrid, or partitioned: the same layers on the same devices, one after the\n"
       "other",
       Choice(kMethods, UCUDNN_SPEC(network().method))},
      {"--data-parallel", "D", "1", "train D replicas, each on --devices, that sum their gradients",
       Whole(1, kMostMultigridDevices, UCUDNN_SPEC(replicas))},
  };
}

#undef UCUDNN_SPEC

// Checks --check: `once` for a single solve, every:K for training. Stores K in spec.training.
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
  const auto steps = ParseNumber<int>(check.substr(sizeof kEvery - 1), 1, kMostWhole);
  if (!steps) {
    return Status::Error(option + "every:K with a whole number of steps, as in every:10");
  }
  spec.training.checked_every = *steps;
  return Status::Ok();
}

// Sets the members that depend on several options. Fails if options contradict each other.
Status Complete(SolveSpec& spec) {
  if (spec.time && spec.step) {
    return Status::Error("--time and --step both say how far a layer goes; expected one of them");
  }
  if (!spec.on_device) spec.on_device = spec.host;
  NetworkSettings& network = spec.network();
  network.batch = spec.batch.value_or(spec.trains() ? kTrainingBatch : 1);
  const bool repeats = spec.training.repeats > 1;
  if (spec.start == Start::kPrevious && !repeats) {
    return Status::Error("--start previous: no mini-batch is solved twice; expected " +
                         std::string(spec.analyse ? "broadcast or nested with --analyse"
                                                  : "--repeat 2 or more with it"));
  }
  multigrid::SolveOptions& forward = network.forward;
  forward.start = spec.start.value_or(repeats ? Start::kPrevious : Start::kBroadcast);
  forward.cycles =
      spec.cycles.value_or(forward.tolerance ? kCyclesToTolerance : kCyclesWithoutTolerance);
  network.backward = forward;
  network.backward.cycles = spec.backward_cycles.value_or(forward.cycles);
  return ReadCheck(spec);
}

// Returns a hash of the bytes of a file, or of all files of a data set, as hexadecimal digits.
Result<std::string> ContentsHash(const std::string& path) {
  std::vector<std::string> files = {path};
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    UCUDNN_ASSIGN_OR_RETURN(files, multigrid::DataSetFiles(path));
  }
  std::vector<char> block(size_t{1} << 20);
  uint64_t hash = 0;
  for (const std::string& name : files) {
    UCUDNN_ASSIGN_OR_RETURN(const multigrid::DataFile file, multigrid::DataFile::Open(name));
    for (uint64_t at = 0; at < file.size(); at += block.size()) {
      const auto size = static_cast<size_t>(std::min<uint64_t>(block.size(), file.size() - at));
      UCUDNN_RETURN_IF_ERROR(file.Read(at, std::span(block).first(size)));
      // Hashes the hash of all earlier blocks together with this block.
      std::string text(sizeof hash, '\0');
      std::copy_n(reinterpret_cast<const char*>(&hash), sizeof hash, text.begin());
      hash = spatial::HashOf(text.append(block.data(), size));
    }
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

void DescribeSpec(const SolveSpec& spec, const NetworkSettings& network, MultigridReport& report) {
  report.weights = spec.weights.empty() ? "drawn" : spec.weights;
  report.most_cycles = network.forward.cycles;
  report.tolerance = network.forward.tolerance;
  report.norm = NormText(network.forward);
  report.relaxation = RelaxationText(network.forward.c_sweeps);
  report.coarse = multigrid::NameOf(network.coarse);
  report.start = StartText(network.forward.start);
  report.storage = NameIn(kStorages, network.storage);
  report.backend = NameIn(kBackends, *spec.on_device);
  report.precision = *spec.on_device ? spec.precision->name : "fp64";
  report.batch = network.batch;
  report.method = NameIn(kMethods, spec.network().method);
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
    if (!text.empty()) UCUDNN_RETURN_IF_ERROR(option.read(option.name, text, spec));
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
    if (option.agreement == Agreement::kContents && !value.empty()) {
      const Result<std::string> hash = ContentsHash(value);
      if (hash.ok()) value = *hash;
    }
    terms.push_back({option.name, value});
  }
  return terms;
}

const char* NormText(const multigrid::SolveOptions& options) {
  return options.scale == multigrid::ResidualScale::kAbsolute ? "L2, absolute"
                                                              : "L2, relative to the largest state";
}

std::string RelaxationText(const std::vector<int>& c_sweeps) {
  std::vector<std::string> texts;
  for (const int sweeps : c_sweeps) {
    std::string& text = texts.emplace_back("F");
    for (int sweep = 0; sweep < sweeps; ++sweep) text += "CF";
  }
  return Join(texts, ",");
}

const char* StartText(Start start) { return NameIn(kStarts, start); }

}  // namespace ucudnn::command
