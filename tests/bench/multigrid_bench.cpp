// Times layer-parallel multigrid in three ways. `multigrid_bench [MOST_LAYERS]`
// - Solves on the CPU stand-in are compared with serial propagation. They are timed for each of the
//   ways in which blocks run at the same time, launched call by call and as graphs.
// - The host's time for library calls is measured on a device that does nothing.
// - Training steps that update the weights on the device are compared with steps that update them
//   on the host.
// Times are processor times of all threads of the process, so that other programs do not count.
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "tests/bench/statistics.h"
#include "tests/support/null_device.h"
#include "tests/support/stand_in.h"
#include "unit/planner/multigrid/device_stage.h"

namespace ucudnn::multigrid {
namespace {

constexpr int kLanes = 8;
constexpr int kCycles = 2;
constexpr size_t kWorkspace = size_t{64} << 20;

CUcontext OpenContext() {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS) {
    std::fprintf(stderr, "no device\n");
    std::exit(1);
  }
  return context;
}

void Check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

// Returns a chain of layers of Kirby's network, with 4 channels of 24 x 24 pixels and filters of 7
// x 7.
WeightedChain KirbyChain(int layers) {
  std::mt19937_64 random(1);
  return DrawnChain({.steps = layers, .channels = 4, .extent = 24, .window = 7}, random);
}

class Solver {
 public:
  Solver(const DeviceTarget& target, const WeightedChain& chain, const WayAndLaunch& run,
         int levels)
      : stage_(target, chain,
               {.coarsening = {8},
                .levels = levels,
                .h = 1.0 / static_cast<double>(chain.stage().steps.size())},
               run, kLanes, kWorkspace),
        chain_(chain),
        last_(chain.first.size()) {
    Check(stage_.solver->LoadWeights());
  }

  // Returns the processor time in ms of the faster of two solves, after two solves that are not
  // timed.
  double Time(int cycles) {
    constexpr int kWarm = 2;
    constexpr int kRuns = 2;
    double fastest = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kWarm + kRuns; ++run) {
      const double begin = bench::ProcessorMs();
      Run(cycles);
      if (run >= kWarm) fastest = std::min(fastest, bench::ProcessorMs() - begin);
    }
    return fastest;
  }

  void Run(int cycles) {
    test::Must(stage_.solver->SolveForward(chain_.first.data(), Cycles(cycles), last_.data()));
  }

  enum class Descends { kOnDevice, kOnHost };
  // Runs a training step. The loss is half the sum of the squares of the network's output, so its
  // gradient is the output itself.
  void Train(Descends where) {
    constexpr Descent kDescent = {.rate = 1e-3, .momentum = 0.9};
    if (where == Descends::kOnHost) Check(stage_.solver->LoadWeights());
    Run(kCycles);
    test::Must(stage_.solver->SolveBackward(last_.data(), Cycles(kCycles), by_first_.data()));
    if (where == Descends::kOnDevice) return Check(stage_.solver->Descend(kDescent));
    Parameters gradient = ZerosLike(parameters_);
    Check(stage_.solver->AddGradients(gradient, nullptr));
    for (size_t node = 0; node < gradient.size(); ++node) {
      for (const auto member : {&NodeWeights::weights, &NodeWeights::bias}) {
        for (size_t i = 0; i < (gradient[node].*member).size(); ++i) {
          double& velocity = (velocity_[node].*member)[i];
          velocity = kDescent.momentum * velocity + (gradient[node].*member)[i];
          (parameters_[node].*member)[i] -= kDescent.rate * velocity;
        }
      }
    }
  }

 private:
  static SolveOptions Cycles(int cycles) {
    SolveOptions options;
    options.cycles = cycles;
    options.measures_cycles = false;
    return options;
  }

  DeviceStage stage_;
  const WeightedChain& chain_;
  std::vector<double> last_;
  std::vector<double> by_first_ = last_;
  Parameters parameters_ = chain_.parameters;  // the weights that Train updates on the host
  Parameters velocity_ = ZerosLike(parameters_);
};

void PrintWays(const DeviceTarget& target, int most_layers) {
  std::printf("processor ms of a solve of two cycles on the CPU stand-in, coarsening 8, FCF\n");
  std::printf("%-8s%18s", "layers", "serial");
  for (const WayAndLaunch& run : kWaysAndLaunches) std::printf("%18s", run.Name().c_str());
  std::printf("\n");
  for (int layers = 64; layers <= most_layers; layers *= 4) {
    const WeightedChain chain = KirbyChain(layers);
    Solver serial(target, chain, {}, 1);
    std::printf("%-8d%18.1f", layers, serial.Time(kCycles));
    for (const WayAndLaunch& run : kWaysAndLaunches) {
      std::printf("%18.1f", Solver(target, chain, run, 0).Time(kCycles));
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

// Prints times per cycle. Each time follows from the difference between two solves with different
// numbers of cycles, so that the beginning and the end of a solve do not count.
void PrintHostTimes(const DeviceTarget& target, int layers) {
  std::printf("\nprocessor time of a cycle of %d layers on a device that does nothing\n", layers);
  std::printf("%-18s%10s%12s%18s\n", "way", "calls", "us", "us for a call");
  const WeightedChain chain = KirbyChain(layers);
  constexpr int kMore = 48;  // too few cycles for relaxation alone to make a solve exact
  for (const WayAndLaunch& run : kWaysAndLaunches) {
    Solver solver(target, chain, run, 0);
    double ms[2];
    double calls[2];
    for (const int more : {0, 1}) {
      solver.Run(kCycles + more * kMore);
      ms[more] = solver.Time(kCycles + more * kMore);
      const long before = test::NullCalls();
      solver.Run(kCycles + more * kMore);
      calls[more] = static_cast<double>(test::NullCalls() - before);
    }
    const double us = (ms[1] - ms[0]) * 1e3 / kMore;
    const double calls_of_cycle = (calls[1] - calls[0]) / kMore;
    std::printf("%-18s%10.0f%12.2f%18.3f\n", run.Name().c_str(), calls_of_cycle, us,
                us / calls_of_cycle);
  }
}

// Prints the fastest times of training steps that update weights on the host and of steps that
// update them on the device. The two kinds of steps take turns.
void PrintTraining(const DeviceTarget& target, const char* device, int most_layers) {
  std::printf("\nprocessor ms of a step of training on %s, two cycles both ways, grouped, graph\n",
              device);
  std::printf("%-8s%20s%20s%8s\n", "layers", "by way of the host", "on the device", "ratio");
  for (int layers = 64; layers <= most_layers; layers *= 4) {
    const WeightedChain chain = KirbyChain(layers);
    Solver solver(target, chain, {Way::kGrouped, Launch::kGraph}, 0);
    constexpr int kWarm = 3;
    constexpr int kRuns = 6;
    double fastest[2] = {1e9, 1e9};
    for (int run = 0; run < kWarm + kRuns; ++run) {
      for (const auto where : {Solver::Descends::kOnHost, Solver::Descends::kOnDevice}) {
        const double begin = bench::ProcessorMs();
        solver.Train(where);
        if (cuCtxSynchronize() != CUDA_SUCCESS) std::abort();
        double& least = fastest[where == Solver::Descends::kOnDevice ? 1 : 0];
        if (run >= kWarm) least = std::min(least, bench::ProcessorMs() - begin);
      }
    }
    std::printf("%-8d%20.2f%20.2f%8.3f\n", layers, fastest[0], fastest[1], fastest[1] / fastest[0]);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace ucudnn::multigrid

int main(int count, char** arguments) {
  using namespace ucudnn;
  constexpr int kMostLayers = 4096;
  constexpr int kHostLayers = 1024;
  const int most = count > 1 ? std::atoi(arguments[1]) : kMostLayers;
  const CUcontext context = multigrid::OpenContext();
  const cudnn::Functions functions = test::StandIn();
  multigrid::PrintWays({cuda::GetDriver(), &functions, context}, most);
  const test::NullDevice device = test::MakeNullDevice();
  const multigrid::DeviceTarget null = {&device.driver, &device.functions, context};
  multigrid::PrintHostTimes(null, kHostLayers);
  constexpr int kTrainedLayers = 256;
  multigrid::PrintTraining({cuda::GetDriver(), &functions, context}, "the CPU stand-in",
                           std::min(most, kTrainedLayers));
  multigrid::PrintTraining(null, "a device that does nothing", kHostLayers);
  return 0;
}
