// `ucudnn multigrid`: a residual network solved over all its layers at once, and trained so.
#include <chrono>
#include <cmath>
#include <memory>
#include <string>

#include "base/text.h"
#include "command/command.h"
#include "command/multigrid_output.h"
#include "command/multigrid_words.h"
#include "command/output_file.h"
#include "planner/multigrid/data/image_scaler.h"
#include "planner/multigrid/data/labelled_images.h"
#include "planner/multigrid/host/network.h"
#include "planner/multigrid/host/training.h"

namespace ucudnn::command {
namespace {

using multigrid::HostNetwork;
using multigrid::Problem;

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The problem's image, as often as a mini-batch has images.
std::vector<double> Repeated(const std::vector<double>& image, int batch) {
  std::vector<double> images;
  for (int i = 0; i < batch; ++i) images.insert(images.end(), image.begin(), image.end());
  return images;
}

Result<std::vector<double>> RunForward(HostNetwork& network, const std::vector<double>& images,
                                       int batch, double& seconds) {
  const Stopwatch stopwatch;
  UCUDNN_ASSIGN_OR_RETURN(const double* logits, network.Forward(images.data()));
  seconds = stopwatch.Seconds();
  return std::vector<double>(logits, logits + network.output_size() * batch);
}

double RelativeError(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, reference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    reference += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / reference);
}

Result<MultigridRun> SolveOnce(const Problem& problem, const MultigridSettings& settings) {
  multigrid::NetworkSettings network_settings(settings.network);
  network_settings.forward.measures_start = true;
  UCUDNN_ASSIGN_OR_RETURN(const auto network,
                          HostNetwork::Make(problem.chain, problem.parameters, network_settings));
  const int batch = settings.network.batch;
  const std::vector<double> images = Repeated(problem.input, batch);
  MultigridRun run;
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> logits,
                          RunForward(*network, images, batch, run.seconds));
  run.stages = network->forward_solutions();
  if (!settings.checks) return run;
  network_settings.levels = 1;
  UCUDNN_ASSIGN_OR_RETURN(const auto serial,
                          HostNetwork::Make(problem.chain, problem.parameters, network_settings));
  double seconds = 0;
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<double> expected,
                          RunForward(*serial, images, batch, seconds));
  run.serial_seconds = seconds;
  run.output_error = RelativeError(logits, expected);
  return run;
}

// The first `most` images (all where it is 0), scaled to what the network takes.
multigrid::Examples ExamplesOf(const multigrid::LabelledImages& from, int full_scale,
                               const planner::Shape& input, int64_t most) {
  const multigrid::Images& images = from.images;
  const int64_t count = most > 0 ? std::min(most, images.count) : images.count;
  const multigrid::ImageScaler scaler({images.rows, images.columns},
                                      {input.extents[1], input.extents[2]}, full_scale);
  const int64_t pixels = images.rows * images.columns;
  const int64_t features = input.Features();
  multigrid::Examples examples;
  examples.images.resize(static_cast<size_t>(count * features));
  for (int64_t i = 0; i < count; ++i) {
    scaler.Scale({images.pixels.data() + i * pixels, static_cast<size_t>(pixels)},
                 {examples.images.data() + i * features, static_cast<size_t>(features)});
    examples.labels.push_back(from.labels[i]);
  }
  return examples;
}

struct Digits {
  multigrid::Examples training;
  multigrid::Examples test;
};

Result<Digits> ReadDigits(const MultigridWords& words, const Problem& problem) {
  const planner::Shape& input = problem.chain.shapes.front();
  const planner::Shape& output = problem.chain.shapes.back();
  if (input.c != 1 || input.spatial_rank != 2 || output.Features() != multigrid::kLabels) {
    return Status::Error("--train: " + Quoted(problem.chain.graph.name) + " takes images of " +
                         std::to_string(input.c) + " channels and tells " +
                         std::to_string(output.Features()) +
                         " classes apart; digits have one channel and 10 classes");
  }
  int most = 0;
  if (!words.examples.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(most, ParseWhole("--examples", words.examples, 1, 1 << 30));
  }
  Result<multigrid::DataSet> data = multigrid::LoadDataSet(words.train);
  if (!data.ok()) return Status::Error("--train " + data.message());
  return Digits{ExamplesOf(data->training, data->full_scale, input, most),
                ExamplesOf(data->test, data->full_scale, input, 0)};
}

Result<multigrid::TrainingSettings> ReadTraining(const MultigridWords& words,
                                                 const MultigridSettings& settings) {
  multigrid::TrainingSettings training;
  training.network = settings.network;
  if (words.batch.empty()) training.network.batch = 32;
  UCUDNN_ASSIGN_OR_RETURN(training.learning_rate, ParsePositive("--rate", words.rate));
  if (words.momentum != "0") {
    UCUDNN_ASSIGN_OR_RETURN(training.momentum, ParsePositive("--momentum", words.momentum));
  } else {
    training.momentum = 0;
  }
  UCUDNN_ASSIGN_OR_RETURN(const int seed, ParseWhole("--seed", words.seed, 0, 1 << 30));
  training.seed = static_cast<uint64_t>(seed);
  const std::string every = "every:";
  if (words.check.compare(0, every.size(), every) == 0) {
    UCUDNN_ASSIGN_OR_RETURN(
        training.checked_every,
        ParseWhole("--check every:", words.check.substr(every.size()), 1, 1 << 30));
  }
  return training;
}

int Train(const CLI::App& app, const MultigridWords& words, const Problem& problem,
          MultigridSettings settings) {
  const Result<int> epochs = ParseWhole("--epochs", words.epochs, 1, 1 << 20);
  if (!epochs.ok()) return Refuse(app, epochs.message());
  const Result<multigrid::TrainingSettings> training = ReadTraining(words, settings);
  if (!training.ok()) return Refuse(app, training.message());
  settings.network.batch = training->network.batch;
  const Result<Digits> digits = ReadDigits(words, problem);
  if (!digits.ok()) return Refuse(app, digits.message());
  Result<std::unique_ptr<multigrid::Trainer>> trainer =
      multigrid::Trainer::Make(problem.chain, problem.parameters, *training);
  if (!trainer.ok()) return Refuse(app, trainer.message());
  if (!words.json) {
    PrintProblem(words, problem, settings);
    std::printf("%d images of %s, %d to test, mini-batches of %d\n", digits->training.count(),
                words.train.c_str(), digits->test.count(), settings.network.batch);
    PrintEpochHead();
  }
  std::vector<multigrid::EpochResult> results;
  for (int number = 1; number <= *epochs; ++number) {
    const Stopwatch stopwatch;
    Result<multigrid::EpochResult> epoch = (*trainer)->RunEpoch(digits->training, [](int) {});
    if (!epoch.ok()) return Refuse(app, epoch.message(), kFailed);
    const Result<double> top1 = (*trainer)->Evaluate(digits->test);
    if (!top1.ok()) return Refuse(app, top1.message(), kFailed);
    epoch->top1 = *top1;
    if (!words.json) PrintEpoch(number, *epoch, stopwatch.Seconds());
    if (epoch->serial_solves > 0 && (results.empty() || results.back().serial_solves == 0)) {
      Tell(app, "solved serially, since " + epoch->fallback);
    }
    results.push_back(std::move(*epoch));
  }
  if (!words.json) return 0;
  return WriteOutput(app, FormatTraining(words, problem, settings, results), "");
}

Result<bool> ReadCheck(const MultigridWords& words) {
  if (words.check.empty()) return false;
  const bool is_once = words.check == "once";
  if (words.train.empty() ? is_once : words.check.rfind("every:", 0) == 0) return true;
  return Status::Error("--check " + Quoted(words.check) + ": expected " +
                       (words.train.empty() ? "once" : "every:K, with --train"));
}

int TellMultigrid(const CLI::App& app, const MultigridWords& words) {
  const Result<Problem> problem = ReadProblem(words);
  if (!problem.ok()) return Refuse(app, problem.message());
  Result<MultigridSettings> settings = ReadSettings(words, *problem);
  if (!settings.ok()) return Refuse(app, settings.message());
  const Result<bool> checks = ReadCheck(words);
  if (!checks.ok()) return Refuse(app, checks.message());
  settings->checks = *checks;
  if (!words.train.empty()) return Train(app, words, *problem, *settings);
  const Result<MultigridRun> run = SolveOnce(*problem, *settings);
  if (!run.ok()) return Refuse(app, run.message());
  if (words.json) return WriteOutput(app, FormatRun(words, *problem, *settings, *run), "");
  PrintProblem(words, *problem, *settings);
  PrintRun(*settings, *run);
  return 0;
}

void AddProblemOptions(CLI::App& app, MultigridWords& words) {
  app.add_option("NET", words.net,
                 "a built-in network (any other word lists them), FILE.onnx, FILE.prototxt,\n"
                 "FILE.json (ucudnn-net), or chain: the residual steps of --weights alone")
      ->required()
      ->type_name("");
  app.add_option("--weights", words.weights,
                 "NumPy's npz: K [N,C,C,k,k], b [N,C] and u0 [C,H,W] of a chain, or arrays named\n"
                 "like the network's layers (drawn by --seed)")
      ->type_name("FILE.npz");
  app.add_option("--activation", words.activation, "of a chain: relu or tanh (relu)")
      ->type_name("NAME");
  app.add_option("--layers", words.layers, "residual layers of kirby-3m, in place of 4,093")
      ->type_name("N");
  app.add_option("--seed", words.seed, "of weights, image and order of training (0)")
      ->type_name("N");
  app.add_flag("--frozen-norms", words.frozen_norms,
               "batch normalisations inside steps have frozen statistics")
      ->disable_flag_override();
  app.add_option("--time", words.time, "h = T / N for a stage of N steps (Kirby's: 1)")
      ->type_name("T");
  app.add_option("--step", words.step, "h of every step (1)")->type_name("H");
}

void AddSolveOptions(CLI::App& app, MultigridWords& words) {
  app.add_option("--cycles", words.cycles,
                 "cycles (2), or at most (100) with a tolerance: then the rest is serial")
      ->type_name("N");
  app.add_option("--backward-cycles", words.backward_cycles, "of adjoint solves (--cycles)")
      ->type_name("N");
  app.add_option("--tolerance", words.tolerance, "the residual at which a solve ends")
      ->type_name("R");
  app.add_option("--norm", words.norm,
                 "of residuals: absolute, or relative to the largest state\n"
                 "(absolute)")
      ->type_name("NAME");
  app.add_option("--coarsening", words.coarsening,
                 "layers of one coarse layer, of each level by commas (8)")
      ->type_name("C,...");
  app.add_option("--levels", words.levels,
                 "levels; 1 is serial propagation (as many as leave 2 to 7 layers)")
      ->type_name("L");
  app.add_option("--relaxation", words.relaxation, "F, FCF or FCFCF, of each level by commas (FCF)")
      ->type_name("NAME,...");
  app.add_option("--c-weight", words.weight, "of C-relaxation (1)")->type_name("W");
  app.add_option("--cycle", words.cycle, "V or F (V)")->type_name("NAME");
  app.add_option("--coarse", words.coarse, "inject, mid, mean, sum or sum2 (inject)")
      ->type_name("NAME");
  app.add_option("--start", words.start, "broadcast or nested (broadcast)")->type_name("NAME");
  app.add_flag("--skip-first-down", words.skip_first_down,
               "the first cycle goes down without relaxing")
      ->disable_flag_override();
  app.add_option("--storage", words.storage,
                 "states kept: all, or c-points, which compute others again (all)")
      ->type_name("NAME");
  app.add_option("--backend", words.backend, "cpu64: double precision on the host (cpu64)")
      ->type_name("NAME");
  app.add_option("--threads", words.threads, "(as many as this process may use)")->type_name("N");
  app.add_option("--batch", words.batch, "images in a mini-batch (1; 32 in training)")
      ->type_name("N");
  app.add_option(
         "--check", words.check,
         "once: solve serially, too, and tell the error; every:K: each Kth step of training")
      ->type_name("WHEN");
}

void AddTrainingOptions(CLI::App& app, MultigridWords& words) {
  app.add_option("--train", words.train, "train on the IDX files of MNIST's names in this folder")
      ->type_name("FOLDER");
  app.add_option("--epochs", words.epochs, "(5)")->type_name("E");
  app.add_option("--examples", words.examples, "train on the first N images (all)")->type_name("N");
  app.add_option("--rate", words.rate, "learning rate (0.05)")->type_name("R");
  app.add_option("--momentum", words.momentum, "(0.9)")->type_name("M");
  app.add_flag("--json", words.json, "print JSON")->disable_flag_override();
}

}  // namespace

Command AddMultigrid(CLI::App& ucudnn) {
  auto words = std::make_shared<MultigridWords>();
  CLI::App* app = AddSubcommand(ucudnn, "multigrid", "multigrid NET [OPTIONS]",
                                "solve or train a residual network over all its layers at once");
  AddProblemOptions(*app, *words);
  AddSolveOptions(*app, *words);
  AddTrainingOptions(*app, *words);
  return {app, [app, words](const ProgramWords&) { return TellMultigrid(*app, *words); }};
}

}  // namespace ucudnn::command
