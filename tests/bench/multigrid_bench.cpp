// Solves of layer-parallel multigrid on the CPU stand-in, in each of the ways in which blocks run
// at once, launched call by call and as graphs, beside serial propagation; and what a library call
// costs the host, on a device that does nothing. `multigrid_bench [MOST_LAYERS]`; times are what
// all threads of the process had of the processors, so that other programs beside it do not count.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "planner/multigrid/device/device_solvers.h"
#include "tests/support/null_device.h"
#include "tests/support/stand_in.h"
#include "unit/planner/multigrid/alone_stage.h"

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

double ProcessorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <typename T>
T Get(Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.message().c_str());
  std::exit(1);
}

// A chain of Kirby's layers: 4 channels of 24 x 24, 7 x 7.
struct Chain {
  explicit Chain(int layers)
      : layers(layers),
        random(1),
        chain(DrawnChain({.steps = layers, .channels = 4, .extent = 24, .window = 7}, random)) {}

  int layers;
  std::mt19937_64 random;
  WeightedChain chain;
};

class Solver {
 public:
  Solver(const DeviceTarget& target, const Chain& chain, Way way, Launch launch, int levels)
      : stage_(chain.chain, {.coarsening = {8}, .levels = levels, .h = 1.0 / chain.layers}),
        chain_(chain),
        last_(chain.chain.first.size()) {
    DeviceSolvers solvers(
        target, {.way = way, .launch = launch, .lanes = kLanes, .workspace_limit = kWorkspace});
    solver_ = Get(solvers.Make(stage_.ToSolve()));
    if (!solver_->LoadWeights().ok()) std::abort();
  }

  // Processor seconds of the fastest of a few solves, behind as many as make all ready.
  double Time(int cycles) {
    constexpr int kWarm = 2;
    constexpr int kRuns = 2;
    double fastest = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kWarm + kRuns; ++run) {
      const double begin = ProcessorSeconds();
      Run(cycles);
      if (run >= kWarm) fastest = std::min(fastest, ProcessorSeconds() - begin);
    }
    return fastest;
  }

  void Run(int cycles) {
    SolveOptions options;
    options.cycles = cycles;
    options.measures_cycles = false;
    Get(solver_->SolveForward(chain_.chain.first.data(), options, last_.data()));
  }

 private:
  AloneStage stage_;
  const Chain& chain_;
  std::unique_ptr<StageSolver> solver_;
  std::vector<double> last_;
};

struct Run {
  Way way;
  Launch launch;
  std::string Name() const { return std::string(NameOf(way)) + ", " + NameOf(launch); }
};
constexpr Run kRuns[] = {{Way::kStreams, Launch::kEach},
                         {Way::kGrouped, Launch::kEach},
                         {Way::kStreams, Launch::kGraph},
                         {Way::kGrouped, Launch::kGraph}};

void PrintWays(const DeviceTarget& target, int most_layers) {
  std::printf("processor ms of a solve of two cycles on the CPU stand-in, coarsening 8, FCF\n");
  std::printf("%-8s%18s", "layers", "serial");
  for (const Run& run : kRuns) std::printf("%18s", run.Name().c_str());
  std::printf("\n");
  for (int layers = 64; layers <= most_layers; layers *= 4) {
    const Chain chain(layers);
    Solver serial(target, chain, Way::kStreams, Launch::kEach, 1);
    std::printf("%-8d%18.1f", layers, serial.Time(kCycles) * 1e3);
    for (const Run& run : kRuns) {
      std::printf("%18.1f", Solver(target, chain, run.way, run.launch, 0).Time(kCycles) * 1e3);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

// Of each of so many more cycles, so that what a solve begins and ends with does not count.
void PrintHostTimes(const DeviceTarget& target, int layers) {
  std::printf("\nprocessor time of a cycle of %d layers on a device that does nothing\n", layers);
  std::printf("%-18s%10s%12s%18s\n", "way", "calls", "us", "us for a call");
  const Chain chain(layers);
  constexpr int kMore = 48;  // fewer than make relaxation exact, so that nothing is measured
  for (const Run& run : kRuns) {
    Solver solver(target, chain, run.way, run.launch, 0);
    double seconds[2];
    double calls[2];
    for (const int more : {0, 1}) {
      solver.Run(kCycles + more * kMore);
      seconds[more] = solver.Time(kCycles + more * kMore);
      const long before = test::NullCalls();
      solver.Run(kCycles + more * kMore);
      calls[more] = static_cast<double>(test::NullCalls() - before);
    }
    const double us = (seconds[1] - seconds[0]) * 1e6 / kMore;
    const double calls_of_cycle = (calls[1] - calls[0]) / kMore;
    std::printf("%-18s%10.0f%12.2f%18.3f\n", run.Name().c_str(), calls_of_cycle, us,
                us / calls_of_cycle);
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
  multigrid::PrintHostTimes({&device.driver, &device.functions, context}, kHostLayers);
  return 0;
}
