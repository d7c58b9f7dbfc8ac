#include "command/multigrid_training.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/text.h"
#include "command/multigrid_json.h"
#include "command/multigrid_output.h"
#include "command/multigrid_progress.h"
#include "command/multigrid_solve.h"
#include "command/output_file.h"
#include "planner/multigrid/data/image_scaler.h"
#include "planner/multigrid/data/labelled_images.h"

namespace ucudnn::command {
namespace {

using multigrid::Problem;
using multigrid::Trainer;

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

struct DigitSets {
  multigrid::Examples training;
  multigrid::Examples test;
};

Result<DigitSets> ReadDigits(const std::string& folder, const MultigridTraining& training,
                             const Problem& problem) {
  const planner::Shape& input = problem.chain.shapes.front();
  const planner::Shape& output = problem.chain.shapes.back();
  if (input.c != 1 || input.spatial_rank != 2 || output.Features() != multigrid::kLabels) {
    return Status::Error("--train: " + Quoted(problem.chain.graph.name) + " takes images of " +
                         std::to_string(input.c) + (input.c == 1 ? " channel" : " channels") +
                         " and gives " + std::to_string(output.Features()) +
                         " numbers; expected a network for digits, of one channel and 10 classes");
  }
  Result<multigrid::DataSet> data = multigrid::LoadDataSet(folder);
  if (!data.ok()) return Status::Error("--train " + data.message());
  DigitSets digits = {ExamplesOf(data->training, data->full_scale, input, training.most_examples),
                      ExamplesOf(data->test, data->full_scale, input, 0)};
  const int batch = training.settings.network.batch;
  if (digits.training.count() >= batch) return digits;
  return Status::Error("--batch " + std::to_string(batch) + ": there are " +
                       std::to_string(digits.training.count()) +
                       " images to train on; expected at most as many in a mini-batch");
}

// Whatever a user must know besides the table, once.
class Notices {
 public:
  explicit Notices(const CLI::App& app) : app_(app) {}

  void Look(int number, const multigrid::EpochResult& epoch) {
    if (epoch.serial_solves > 0 && !told_fallback_) {
      Tell(app_, "epoch " + std::to_string(number) + ": " + std::to_string(epoch.serial_solves) +
                     " of " + std::to_string(epoch.solves) +
                     " solves fell back to serial propagation, the first since " + epoch.fallback);
      told_fallback_ = true;
    }
    if (!std::isfinite(epoch.loss) && !told_loss_) {
      Tell(app_, "epoch " + std::to_string(number) +
                     ": the loss is not finite; a smaller --rate may help");
      told_loss_ = true;
    }
  }

 private:
  const CLI::App& app_;
  bool told_fallback_ = false;
  bool told_loss_ = false;
};

std::string EpochText(int number, int epochs) {
  return "epoch " + std::to_string(number) + " of " + std::to_string(epochs);
}

// One epoch and its test.
Result<TrainedEpoch> RunEpoch(Trainer& trainer, const DigitSets& digits, int number,
                              const MultigridTraining& training, MultigridProgress& progress) {
  const int steps = digits.training.count() / training.settings.network.batch;
  const Stopwatch stopwatch;
  TrainedEpoch epoch;
  const auto before_step = [&](int step) {
    const double done = number - 1 + static_cast<double>(step) / steps;
    progress.Show(EpochText(number, training.epochs) + ": step " + std::to_string(step + 1) + "/" +
                      std::to_string(steps),
                  done / training.epochs);
  };
  UCUDNN_ASSIGN_OR_RETURN(epoch.result, trainer.RunEpoch(digits.training, before_step));
  progress.Show(EpochText(number, training.epochs) + ": testing",
                static_cast<double>(number) / training.epochs);
  UCUDNN_ASSIGN_OR_RETURN(epoch.result.top1, trainer.Evaluate(digits.test));
  epoch.seconds = stopwatch.Seconds();
  progress.Clear();
  return epoch;
}

int RunEpochs(const CLI::App& app, const MultigridWords& words, const TrainingFacts& facts,
              Trainer& trainer, const DigitSets& digits) {
  MultigridProgress progress;
  Notices notices(app);
  std::vector<TrainedEpoch> epochs;
  for (int number = 1; number <= facts.training.epochs; ++number) {
    Result<TrainedEpoch> epoch = RunEpoch(trainer, digits, number, facts.training, progress);
    progress.Clear();
    if (!epoch.ok()) {
      // A tolerance below what the states can reach is noticed by the first solve.
      const bool asks_too_much = facts.training.settings.network.forward.tolerance.has_value();
      return Refuse(app, epoch.message(), asks_too_much ? kBadUsage : kFailed);
    }
    notices.Look(number, epoch->result);
    if (!words.json) PrintEpoch(number, *epoch);
    epochs.push_back(*std::move(epoch));
    if (words.report.empty()) continue;
    const int code = WriteOutput(app, FormatTraining(words, facts, epochs), words.report);
    if (code != 0) return code;
  }
  return words.json ? WriteOutput(app, FormatTraining(words, facts, epochs), "") : 0;
}

}  // namespace

int Train(const CLI::App& app, const MultigridWords& words, const Problem& problem,
          const MultigridSettings& settings) {
  const Result<MultigridTraining> training = ReadTraining(words, settings);
  if (!training.ok()) return Refuse(app, training.message());
  const multigrid::NetworkSettings& network = training->settings.network;
  const Result<DigitSets> digits = ReadDigits(words.train, *training, problem);
  if (!digits.ok()) return Refuse(app, digits.message());
  constexpr int kWays = 2;  // forward and backward
  if (const Status memory = CheckStateMemory(problem, network, kWays); !memory.ok()) {
    return Refuse(app, memory.message());
  }
  const Result<std::unique_ptr<Trainer>> trainer =
      Trainer::Make(problem.chain, problem.parameters, training->settings);
  if (!trainer.ok()) return Refuse(app, trainer.message());
  const TrainingFacts facts = {FactsOf(problem, network), *training, digits->training.count(),
                               digits->test.count()};
  if (!words.json) PrintTraining(words, facts);
  return RunEpochs(app, words, facts, **trainer, *digits);
}

}  // namespace ucudnn::command
