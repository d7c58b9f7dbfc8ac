// Compares the model's predictions for the networks and the machine of Kirby et al. ("the paper")
// with times derived by hand from the definition of a cycle, with the numbers that the paper
// prints, and with the table of docs/multigrid-model.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "planner/graph/network_file.h"
#include "planner/machine/presets.h"
#include "planner/multigrid/analysis/network_model.h"
#include "tests/support/must.h"

namespace ucudnn::multigrid {
namespace {

struct PapersNetwork {
  const char* name;
  double channels;      // channels of a state, which has 24 x 24 positions
  double convolutions;  // residual steps
  double connected;     // fully connected residual steps: steps 257, 514, ...
};
constexpr PapersNetwork kMillions = {"kirby-3m", 4, 4093, 0};
constexpr PapersNetwork kBillions = {"kirby-2b", 20, 4097, 15};

struct CycleShape {
  int c;
  int levels;
};
constexpr CycleShape kFine = {4, 2};
constexpr CycleShape kCoarse = {16, 3};

// A V100 has 14 TFLOP/s, 900 GB/s and 5120 units; 4 chains of operations keep a unit busy. PCI
// Express joins the two devices of a node. A message to another node is copied to the host, sent by
// 25 Gb/s Ethernet, and copied to the device. Each of these three steps has a latency of 10 us.
constexpr double kLaunchUs = 4;
constexpr double kKernelUs = 3;
constexpr double kBytesPerUs = 900e3;
constexpr int kCycles = 2;

// Derives times (us) of two cycles with FCF-relaxation and injection from the definition of a
// cycle, without the model's code. Devices have equal numbers of steps of the finest level. The
// layers before and after the residual steps are neglected.
class ByHand {
 public:
  // If `hides`, the device runs all fully connected kernels while the host launches the kernels of
  // other blocks. Otherwise the device runs no fully connected kernel during that time.
  ByHand(const PapersNetwork& network, bool hides) : network_(network), hides_(hides) {}

  double SerialUs(Workload workload) const {
    const double forward = InRow(steps(), network_.connected);
    if (workload == Workload::kInference) return forward;
    return 2 * forward + GradientsInRow() + network_.connected * UpdateUs();
  }
  // Returns the time of a forward and a backward pass, each with a message for each boundary, of
  // the gradients, and of the first device's update.
  double PartitionedUs(int devices) const {
    return 2 * InRow(steps(), network_.connected) + 2 * Boundaries(devices) + GradientsInRow() +
           std::floor(network_.connected / devices) * UpdateUs();
  }
  struct Solved {
    double us;
    double busy_us;  // sum of the busy times of all devices
  };
  Solved Solve(const CycleShape& shape, int devices, Workload workload) const {
    const Solved solve = Solve(shape, devices);
    if (workload == Workload::kInference) return solve;
    // A device with fully connected layers ends last. For the gradients, its host launches a kernel
    // for each layer.
    const double connected =
        std::min(network_.connected, std::max(1.0, std::floor(network_.connected / devices)));
    const double launches_us = steps() * kLaunchUs;
    return {2 * solve.us + connected * UpdateUs() +
                std::max(launches_us / devices, connected * (kKernelUs + WeightsUs())),
            2 * solve.busy_us + launches_us + network_.connected * UpdateUs()};
  }

 private:
  double steps() const { return network_.convolutions + network_.connected; }
  double StateBytes() const { return 4 * network_.channels * 24 * 24; }
  // The time in which the device reads the weights of a fully connected layer. The update of these
  // weights reads weight, gradient and velocity, and writes weight and velocity.
  double WeightsUs() const { return StateBytes() * StateBytes() / 4 / kBytesPerUs; }
  double UpdateUs() const { return 5 * WeightsUs(); }
  // A step has three kernels: one for the layer with its bias, one for ReLU, and one for the sum.
  // Its adjoint has three, too. In a convolutional step, a kernel ends before the host has launched
  // the next one, so launches determine the time.
  static constexpr double kStepUs = 3 * kLaunchUs;
  double InRow(double steps, double connected) const {
    return (steps - connected) * kStepUs + connected * (3 * kKernelUs + WeightsUs());
  }
  double InBlocks(double steps, double connected) const {
    return hides_ ? steps * kStepUs : InRow(steps, connected);
  }
  // The gradient of a 7 x 7 convolution is one kernel. It has as many chains of multiply-adds as a
  // state has numbers.
  double GradientsInRow() const {
    const double numbers = StateBytes() / 4;
    const double operations = 2 * 49 * network_.channels * numbers;
    const double fill = std::min(1.0, numbers / (5120 * 4));
    const double convolution_us = std::max(kLaunchUs, kKernelUs + operations / (14e6 * fill));
    return network_.convolutions * convolution_us + network_.connected * (kKernelUs + WeightsUs());
  }
  double BetweenNodes(double states) const { return 3 * 10 + states * StateBytes() / 3125; }
  // Returns the time of one message over each boundary between neighbouring devices. Two devices
  // form a node.
  double Boundaries(int devices) const {
    const int in_nodes = devices / 2;
    const int between_nodes = devices - 1 - in_nodes;
    return in_nodes * (10 + StateBytes() / 12e3) + between_nodes * BetweenNodes(1);
  }

  Solved Solve(const CycleShape& shape, int devices) const {
    // On a level with FCF, a cycle has F, a C-relaxation with F, the steps for right-hand sides,
    // and the F on the way up. On the finest level, this last F is also the first F of the next
    // cycle. So each cycle computes every step of the finest level twice, and after the last cycle
    // F computes the F-points once more.
    const double c = shape.c;
    double coarse = std::floor(steps() / c);
    // Level 1 has every c-th layer. So it has the fully connected layers 257 i with c dividing i.
    double connected = std::floor(network_.connected / c);
    Solved solved{0, (2 * kCycles + (c - 1) / c) * InBlocks(steps(), network_.connected) +
                         kCycles * InBlocks(coarse, connected)};
    solved.us = solved.busy_us / devices;
    if (shape.levels == 3) {
      // Each cycle computes the steps of level 1 twice, its F-points once more, and a step of level
      // 2 for each block of level 1: together three times as many steps as level 1 has. No device
      // has less than a block.
      const double relaxed_us = 3 * kCycles * InBlocks(coarse, connected);
      solved.busy_us += relaxed_us;
      solved.us += relaxed_us / std::min<double>(devices, std::ceil(coarse / c));
      // Messages of a cycle: a block of level 1 receives c right sides and its first state, and
      // returns c states; C-relaxation sends one state. Level 2 needs none, because its step j is
      // on the device of block j of level 1.
      const double cycle_us = BetweenNodes(c + 1) + BetweenNodes(c) + BetweenNodes(1);
      if (devices > 1) solved.us += kCycles * cycle_us;
      coarse = std::floor(coarse / c);
      connected = 0;
    }
    // One device after the other solves its part of the coarsest level. In the second cycle no
    // device waits for the one before it, which has been ahead since the first cycle.
    const double coarsest_us = InRow(coarse, connected);
    const double solvers = std::min<double>(devices, coarse);
    solved.busy_us += kCycles * coarsest_us;
    solved.us += coarsest_us * (1 + (kCycles - 1) / solvers);
    solved.us += devices <= coarse ? Boundaries(devices) : (coarse - 1) * BetweenNodes(1);
    return solved;
  }

  const PapersNetwork network_;
  const bool hides_;
};

// A number that the model predicts, and the two numbers that ByHand gives.
struct Predicted {
  double modelled;
  double hidden;  // with `hides`
  double exposed;
};

// ByHand gives each device the mean number of blocks, although a device has whole blocks: 255
// blocks on 24 devices are 10.6 in the mean, but up to 11 on a device. This is the relative error.
constexpr double kWholeBlocks = 11 / (255 / 24.0) - 1;
constexpr double kPrinted = 0.006;  // for numbers that are printed with two decimals

// The model must agree with the paper up to this factor. The paper prints neither c nor the number
// of levels, so its number is compared with the closer of two settings. docs/multigrid-model.md
// names costs of the paper's machine that are not modelled.
constexpr double kPaperFactor = 2;

class PapersMachine {
 public:
  explicit PapersMachine(const PapersNetwork& network)
      : hidden_(network, true),
        exposed_(network, false),
        chain_(*MakeResidualChain(*planner::LoadNetwork(network.name), BatchNorms::kRefused)),
        layers_(LayersOfNetwork(chain_, 1, 4)),
        machine_(*planner::MachineByName("v100x2-25g:32")),
        times_(machine_.device, layers_.kinds),
        model_(layers_, times_, machine_) {}

  Predicted OverSerial(const CycleShape& shape, Workload workload, int devices) const {
    const auto by_hand = [&](const ByHand& hand) {
      return hand.SerialUs(workload) / hand.Solve(shape, devices, workload).us;
    };
    return {model_.Serial(workload, Launching::kEach)->ms / Run(shape, workload, devices).ms,
            by_hand(hidden_), by_hand(exposed_)};
  }
  Predicted OverPartitioned(const CycleShape& shape, int devices) const {
    const auto by_hand = [&](const ByHand& hand) {
      return hand.PartitionedUs(devices) / hand.Solve(shape, devices, Workload::kTraining).us;
    };
    return {model_.Partitioned(Workload::kTraining, devices)->ms /
                Run(shape, Workload::kTraining, devices).ms,
            by_hand(hidden_), by_hand(exposed_)};
  }
  Predicted ComputingShare(const CycleShape& shape, int devices) const {
    const auto by_hand = [&](const ByHand& hand) {
      const ByHand::Solved solved = hand.Solve(shape, devices, Workload::kTraining);
      return solved.busy_us / (solved.us * devices);
    };
    return {Run(shape, Workload::kTraining, devices).computing_share, by_hand(hidden_),
            by_hand(exposed_)};
  }

 private:
  // Returns the fastest run over all values of CoarsePlace. A run has two cycles with
  // FCF-relaxation and injection, a stream for each block, and a launch for each kernel.
  ModelledRun Run(const CycleShape& shape, Workload workload, int devices) const {
    MultigridSetting setting = {.coarsening = {shape.c}, .levels = shape.levels, .cycles = kCycles};
    const auto made = test::Must(MultigridModel::Make(model_, setting));
    double least_ms = 0;
    ModelledRun best;
    for (const CoarsePlace place :
         {CoarsePlace::kDistributed, CoarsePlace::kCoarsestOnOne, CoarsePlace::kAllOnOne}) {
      setting.place = place;
      const auto run = test::Must(made.Run(workload, devices, setting));
      if (least_ms == 0 || run.ms < least_ms) best = run;
      least_ms = best.ms;
    }
    return best;
  }

  const ByHand hidden_;
  const ByHand exposed_;
  const ResidualChain chain_;
  const NetworkLayers layers_;
  const planner::Machine machine_;
  const RooflineTimes times_;
  const NetworkModel model_;
};

struct InTable {
  double fine;
  double coarse;
};

// Checks predict(kFine) and predict(kCoarse) against ByHand, `in_table` and, if set, `paper`.
template <typename Predict>
void Expect(const Predict& predict, const InTable& in_table, std::optional<double> paper) {
  double factor = std::numeric_limits<double>::infinity();
  for (const auto& [shape, printed] :
       {std::pair(kFine, in_table.fine), std::pair(kCoarse, in_table.coarse)}) {
    const Predicted number = predict(shape);
    const auto [least, most] = std::minmax(number.hidden, number.exposed);
    EXPECT_GE(number.modelled, least * (1 - kWholeBlocks)) << "in the table: " << printed;
    EXPECT_LE(number.modelled, most * (1 + kWholeBlocks)) << "in the table: " << printed;
    EXPECT_NEAR(number.modelled, printed, kPrinted);
    if (!paper) continue;
    factor = std::min(factor, std::max(number.modelled / *paper, *paper / number.modelled));
  }
  if (!paper) return;
  EXPECT_LT(factor, kPaperFactor) << "in the paper: " << *paper;
}

TEST(PapersMachine, ThreeMillionParameters) {
  const PapersMachine kirby(kMillions);
  const auto over_serial = [&](Workload workload, int devices) {
    return [&kirby, workload, devices](const CycleShape& shape) {
      return kirby.OverSerial(shape, workload, devices);
    };
  };
  Expect(over_serial(Workload::kInference, 1), {0.17, 0.18}, 0.25);
  Expect(over_serial(Workload::kInference, 4), {0.61, 0.73}, 1.25);
  Expect(over_serial(Workload::kInference, 24), {2.06, 3.86}, 4);
  Expect(over_serial(Workload::kTraining, 64), {3.19, 9.35}, 3.5);
  Expect([&](const CycleShape& shape) { return kirby.OverPartitioned(shape, 64); }, {3.26, 9.57},
         5);
  // The paper's share is not compared. It is 3 %, because of how the paper's program sends
  // messages.
  Expect([&](const CycleShape& shape) { return kirby.ComputingShare(shape, 64); }, {0.253, 0.703},
         {});
}

TEST(PapersMachine, TwoBillionParameters) {
  const PapersMachine kirby(kBillions);
  const auto over_partitioned = [&](int devices) {
    return [&kirby, devices](const CycleShape& shape) {
      return kirby.OverPartitioned(shape, devices);
    };
  };
  const auto computing_share = [&](int devices) {
    return
        [&kirby, devices](const CycleShape& shape) { return kirby.ComputingShare(shape, devices); };
  };
  Expect(over_partitioned(4), {0.90, 1.05}, 1.3);
  Expect(over_partitioned(64), {3.36, 8.23}, 10.2);
  Expect(computing_share(4), {0.893, 0.987}, 0.928);
  Expect(computing_share(64), {0.242, 0.573}, 0.345);
  // The paper says: "Multigrid outperforms its counterpart when using at least four GPUs."
  EXPECT_LT(kirby.OverPartitioned(kCoarse, 3).modelled, 1);
  EXPECT_GT(kirby.OverPartitioned(kCoarse, 4).modelled, 1);
}

}  // namespace
}  // namespace ucudnn::multigrid
