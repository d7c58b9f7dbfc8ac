#include "command/multigrid/training.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "base/text.h"
#include "command/multigrid/output.h"
#include "command/multigrid/solve.h"
#include "command/numbers.h"
#include "command/progress.h"
#include "planner/multigrid/data/image_scaler.h"
#include "planner/multigrid/data/labelled_images.h"
#include "planner/multigrid/distributed/some_peers.h"

namespace ucudnn::command {
namespace {

using multigrid::Problem;
using multigrid::Trainer;

// Returns the first `most` images (0: all), scaled to the network's input.
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

struct DigitSets {
  multigrid::Examples training;
  multigrid::Examples test;
};

Result<DigitSets> ReadDigits(const SolveSpec& spec, const Problem& problem) {
  const planner::Shape& input = problem.chain.shapes.front();
  const planner::Shape& output = problem.chain.shapes.back();
  if (input.c != 1 || input.spatial_rank != 2 || output.Features() != multigrid::kLabels) {
    return Status::Error("--train: " + Quoted(problem.chain.graph.name) + " takes images of " +
                         Counted(input.c, "channel") + " and gives " +
                         std::to_string(output.Features()) +
                         " numbers; expected a network for digits, of one channel and 10 classes");
  }
  Result<multigrid::DataSet> data = multigrid::LoadDataSet(spec.train);
  if (!data.ok()) return Status::Error("--train " + data.message());
  DigitSets digits = {ExamplesOf(data->training, data->full_scale, input, spec.most_examples),
                      ExamplesOf(data->test, data->full_scale, input, 0)};
  const int batch = spec.network().batch;
  const int replicas = spec.replicas;
  if (digits.training.count() >= batch * replicas) return digits;
  return Status::Error(
      "--batch " + std::to_string(batch) + ": there are " +
      std::to_string(digits.training.count()) +
      " images to train on; expected at most as many in " +
      (replicas == 1 ? "a mini-batch" : std::to_string(replicas) + " mini-batches at once"));
}

// Prints warnings about epochs: fallbacks, solves far from serial propagation, and a loss that is
// not finite. Prints each kind at most once.
class Notices {
 public:
  explicit Notices(const CLI::App& app) : app_(app) {}

  void Look(int number, const multigrid::EpochResult& epoch) {
    const std::string begin = "epoch " + std::to_string(number) + ": ";
    const std::string of_all = " of " + std::to_string(epoch.solves) + " solves ";
    TellOnce(epoch.serial_solves > 0, told_fallback_,
             begin + std::to_string(epoch.serial_solves) + of_all +
                 "fell back to serial propagation, the first since " + epoch.fallback);
    TellOnce(epoch.far_solves > 0, told_far_,
             begin + std::to_string(epoch.far_solves) + of_all +
                 "ended far from serial propagation; more --cycles, a --tolerance or a smaller h "
                 "may help (--time, --step)");
    TellOnce(!std::isfinite(epoch.loss), told_loss_,
             begin + "the loss is not finite; a smaller --rate may help");
  }

 private:
  void TellOnce(bool holds, bool& told, const std::string& text) const {
    if (holds && !std::exchange(told, true)) Tell(app_, text);
  }

  const CLI::App& app_;
  bool told_fallback_ = false, told_far_ = false, told_loss_ = false;
};

std::string EpochText(int number, int epochs) {
  return "epoch " + std::to_string(number) + " of " + std::to_string(epochs);
}

// `done` is the share of the training that is done.
using ShowProgress = std::function<void(const std::string& text, double done)>;
Result<TrainedEpoch> RunEpoch(Trainer& trainer, const DigitSets& digits, int number, int epochs,
                              const ShowProgress& show) {
  const int steps = trainer.StepsOf(digits.training);
  const Stopwatch stopwatch;
  TrainedEpoch epoch;
  const auto before_step = [&](int step) {
    const double done = number - 1 + static_cast<double>(step) / steps;
    show(EpochText(number, epochs) + ": step " + std::to_string(step + 1) + "/" +
             std::to_string(steps),
         done / epochs);
  };
  UCUDNN_ASSIGN_OR_RETURN(epoch.result, trainer.RunEpoch(digits.training, before_step));
  show(EpochText(number, epochs) + ": testing", static_cast<double>(number) / epochs);
  UCUDNN_ASSIGN_OR_RETURN(epoch.result.top1, trainer.Evaluate(digits.test));
  epoch.seconds = stopwatch.Seconds();
  return epoch;
}

// Writes the output of training. Used on rank 0 only.
class Reporter {
 public:
  Reporter(const CLI::App& app, const SolveSpec& spec, TrainingFacts& facts)
      : app_(app), spec_(spec), facts_(facts), notices_(app) {}

  // Prints the head of the table. Also writes the report, so that a file that cannot be written is
  // noticed before the first epoch and not after hours.
  Status Begin(const multigrid::Placement& placement) {
    has_begun_ = true;
    facts_.placement = placement;
    if (!spec_.json) PrintTraining(spec_, facts_);
    return Write();
  }
  void Show(const std::string& text, double done) { progress_.Show(text, done); }
  Status Add(int number, TrainedEpoch epoch) {
    progress_.Clear();
    notices_.Look(number, epoch.result);
    if (!spec_.json) PrintEpoch(number, epoch);
    epochs_.push_back(std::move(epoch));
    return Write();
  }
  void End() {
    progress_.Clear();
    if (spec_.json) code_ = WriteOutput(app_, FormatTraining(spec_, facts_, epochs_), "");
  }
  void Clear() { progress_.Clear(); }
  int code() const { return code_; }
  bool has_begun() const { return has_begun_; }

 private:
  // Fails if the report cannot be written; code() has the exit code.
  Status Write() {
    if (spec_.report.empty()) return Status::Ok();
    code_ = WriteOutput(app_, FormatTraining(spec_, facts_, epochs_), spec_.report);
    return code_ == 0 ? Status::Ok() : Status::Error("the report cannot be written");
  }

  const CLI::App& app_;
  const SolveSpec& spec_;
  TrainingFacts& facts_;
  Notices notices_;
  MultigridProgress progress_;
  std::vector<TrainedEpoch> epochs_;
  int code_ = 0;
  bool has_begun_ = false;
};

// Trains as one rank, together with the other ranks of `all`. `reporter` is null except on rank 0.
Status TrainOnRank(Problem& problem, const SolveSpec& spec, const MultigridSettings& of_all,
                   const DigitSets& digits, multigrid::Peers& all, Reporter* reporter) {
  constexpr auto kPasses = multigrid::Passes::kForwardAndBackward;
  multigrid::ReplicaPeers peers(all, spec.replicas);
  multigrid::TrainingSettings settings = spec.training;
  settings.network = of_all.network;
  multigrid::Placement placement;
  multigrid::Parameters parameters;
  if (of_all.device) settings.network.stage_solvers = &of_all.device->solvers(all.rank());
  if (all.size() == 1) {
    if (!of_all.device) {
      UCUDNN_RETURN_IF_ERROR(CheckStateMemory(problem, settings.network, kPasses));
    }
    parameters = std::move(problem.parameters);
  } else {
    settings.network.peers = &peers.network;
    if (spec.replicas > 1) settings.network.replicas = &peers.same_layers;
    UCUDNN_ASSIGN_OR_RETURN(placement,
                            PlaceOnRanks(problem, of_all, kPasses, all, settings.network));
    parameters = TakeParameters(peers.network.rank(), placement, spec.replicas > 1, problem);
    if (of_all.ranks->are_processes()) problem.parameters = {};  // frees parameters of other ranks
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto trainer,
                          Trainer::Make(problem.chain, std::move(parameters), settings));
  if (reporter != nullptr) UCUDNN_RETURN_IF_ERROR(reporter->Begin(placement));
  const auto show = [&](const std::string& text, double done) {
    if (reporter != nullptr) reporter->Show(text, done);
  };
  for (int number = 1; number <= spec.epochs; ++number) {
    UCUDNN_ASSIGN_OR_RETURN(TrainedEpoch epoch,
                            RunEpoch(*trainer, digits, number, spec.epochs, show));
    if (reporter != nullptr) UCUDNN_RETURN_IF_ERROR(reporter->Add(number, std::move(epoch)));
  }
  return Status::Ok();
}

}  // namespace

int Train(const CLI::App& app, const SolveSpec& spec, Problem& problem,
          const MultigridSettings& settings) {
  MultigridRanks& ranks = *settings.ranks;
  const Result<DigitSets> digits = ReadDigits(spec, problem);
  if (!digits.ok()) return Refuse(app, digits.message());
  TrainingFacts facts = {.problem = FactsOf(problem, settings.network),
                         .settings = settings,
                         .examples = digits->training.count(),
                         .test_examples = digits->test.count()};
  if (ranks.all() == 1 && !settings.device) {
    facts.problem.state_bytes =
        StateBytes(problem.chain, settings.network, multigrid::Passes::kForwardAndBackward);
  }
  Reporter reporter(app, spec, facts);
  const Status status = ranks.Run([&](multigrid::Peers& all) {
    const bool speaks = all.rank() == 0 && ranks.speaks();
    return TrainOnRank(problem, spec, settings, *digits, all, speaks ? &reporter : nullptr);
  });
  reporter.Clear();
  if (reporter.code() != 0) return reporter.code();
  if (!status.ok()) {
    // Before the first step, the options cause every error. Later, a tolerance may be the cause,
    // because states cannot reach it. Errors with these causes count as bad usage.
    const bool asks_too_much =
        !reporter.has_begun() || settings.network.forward.tolerance.has_value();
    return Refuse(app, status.message(),
                  asks_too_much && !ranks.others_failed() ? kBadUsage : kFailed);
  }
  if (ranks.speaks()) reporter.End();
  return reporter.code();
}

}  // namespace ucudnn::command
