#include <algorithm>
#include <optional>

#include "cudnn/descriptors.h"
#include "facts_plans.h"
#include "tests/support/problem.h"

namespace ucudnn::facts {
namespace {

constexpr size_t kLaunchBytes = size_t{6} << 30;
constexpr double kMostLaunchesMs = 3000;
constexpr int kPlans = 20, kLaunches = 10, kSweepRounds = 3, kRepeats = 50;

size_t RoomBytes(const Options& options) { return options.tiny ? kTinyArenaBytes : kLaunchBytes; }

// Returns a graph of a 3x3 convolution whose result has the image's size.
NamedGraph Same(int n, int channels, int size, DataType type, Layout layout) {
  NamedGraph graph;
  graph.problem = test::ProblemWith(
      {.n = n, .c = channels, .k = channels, .x = {1, size, size}, .type = type, .layout = layout});
  graph.name = Describe(graph.problem);
  return graph;
}

void FillOperands(const NamedGraph& graph, const Operands& operands) {
  const ConvolutionProblem& problem = graph.problem;
  const size_t width = ElementBytes(problem.type);
  Fill(operands.pointers[0], cudnn::ImageBytes(problem) / width, problem.type, Filling::kRandom, 1);
  Fill(operands.pointers[1], cudnn::FilterBytes(problem) / width, problem.type, Filling::kRandom,
       2);
}

// The runs that compute a batch: one plan, and a variant pack for the images of each run.
struct Pieces {
  Plan plan;
  std::vector<cudnn::BackendDescriptor> packs;
};

// Times the batch `whole` in pieces of m images.
class Sweeper {
 public:
  Sweeper(const Options& options, const Device& device, const NamedGraph& whole)
      : device_(device),
        whole_(whole),
        arena_(whole.TensorBytes()),
        operands_(Placed(whole, arena_.at(0))) {
    FillOperands(whole, operands_);
    plan_.emplace(FirstPlan(whole.Build(of()).get(), of()));
    workspace_bytes_ = plan_->workspace_bytes;
    workspace_.emplace(workspace_bytes_);
    const auto pack = Pack(operands_, workspace_->get());
    device.WarmUp(options, [&] { Execute(device_, *plan_, pack); });
  }

  Json At(int m) {
    NamedGraph graph = whole_;
    graph.problem.n = m;
    const test::Graph piece = graph.Build(of());
    Json told;
    told["first"] = Timed(FirstPlan(piece.get(), of()), graph.problem);
    // This plan has the engine and the knobs of the undivided batch's plan.
    Plan same;
    if (auto built = piece.Plan(static_cast<int>(plan_->engine), plan_->knobs)) {
      same.workspace_bytes = Take(cudnn::PlanWorkspace(Linked(), built->get()));
      same.descriptor = std::move(*built);
      same.described = {{"engine", plan_->engine}, {"workspace_bytes", same.workspace_bytes}};
      told["whole's"] = Timed(std::move(same), graph.problem);
    } else {
      told["whole's"] = "not built at this size";
    }
    return told;
  }

 private:
  cudnn::PlanDevice of() const { return {device_.handle(), nullptr}; }

  // Times hot runs, which all read the same images, and cold runs, each of which reads different
  // images. Times are milliseconds for the whole batch.
  Json Timed(Plan plan, const ConvolutionProblem& problem) {
    if (plan.workspace_bytes > workspace_bytes_) {
      workspace_.reset();
      workspace_bytes_ = plan.workspace_bytes;
      workspace_.emplace(workspace_bytes_);
    }
    Json told = plan.described;
    std::vector<cudnn::BackendDescriptor> packs;
    for (int n = 0; n + problem.n <= whole_.problem.n; n += problem.n) {
      Operands own = operands_;
      const size_t images = static_cast<size_t>(n), width = ElementBytes(problem.type);
      own.pointers[0] = static_cast<char*>(own.pointers[0]) + images * problem.x_strides[0] * width;
      own.pointers[2] = static_cast<char*>(own.pointers[2]) + images * problem.y_strides[0] * width;
      packs.push_back(Pack(own, workspace_->get()));
    }
    const auto hot = [&] {
      for (size_t i = 0; i < packs.size(); ++i) Execute(device_, plan, packs[0]);
    };
    const auto cold = [&] {
      for (const auto& pack : packs) Execute(device_, plan, pack);
    };
    hot();
    for (int round = 0; round < kSweepRounds; ++round) {
      told["hot_ms"].push_back(device_.EventMs(hot));
      told["cold_ms"].push_back(device_.EventMs(cold));
      told["cold_enqueue_ms"].push_back(HostMs(cold));
      device_.Wait();
    }
    told["graph_ms"] = Replayed(cold);
    return told;
  }

  // Times the cold runs as one CUDA graph, so that the host's time for enqueueing does not count.
  Json Replayed(const std::function<void()>& enqueue) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    Check(cudaStreamBeginCapture(device_.stream(), cudaStreamCaptureModeRelaxed),
          "cudaStreamBeginCapture");
    std::string failed;
    try {
      enqueue();
    } catch (const Failure& failure) {
      failed = failure.what();
    }
    const cudaError_t ended = cudaStreamEndCapture(device_.stream(), &graph);
    if (!failed.empty() || ended != cudaSuccess) {
      cudaGetLastError();
      return "not captured: " + failed;
    }
    Json times = Json::array();
    const cudaError_t made = cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    Check(made, "cudaGraphInstantiate");
    for (int round = 0; round < kSweepRounds + 1; ++round) {
      const double ms = device_.EventMs(
          [&] { Check(cudaGraphLaunch(exec, device_.stream()), "cudaGraphLaunch"); });
      if (round > 0) times.push_back(ms);  // the first launch also uploads the graph
    }
    cudaGraphExecDestroy(exec);
    return times;
  }

  const Device& device_;
  const NamedGraph& whole_;
  const Memory arena_;
  const Operands operands_;
  std::optional<Plan> plan_;
  size_t workspace_bytes_ = 0;
  std::optional<Memory> workspace_;
};

}  // namespace

void Launches(const Options& options) {
  const Device device;
  const cudnn::PlanDevice of{device.handle(), nullptr};
  const size_t room = RoomBytes(options);
  const Memory arena(room);
  Fill(arena.get(), room / 2, DataType::kBfloat16, Filling::kRandom, 1);
  Cases cases(options);
  const std::vector<NamedGraph> graphs = NamedGraphs(options.tiny);
  for (int i = 0; i < kPlans; ++i) {
    // Each shape gives one graph, except the last shape, which is too large. The first shape also
    // gives a second graph.
    const NamedGraph& named = graphs[i < kPlans - 1 ? 3 * i + i % 3 : 1];
    cases.Run(named.name, [&]() -> Json {
      const size_t tensors = named.TensorBytes();
      if (tensors > room) return {{"too large", tensors}};
      std::optional<Plan> plan;
      const double build_ms = HostMs([&] { plan.emplace(FirstPlan(named.Build(of).get(), of)); });
      if (tensors + plan->workspace_bytes > room) throw Failure("its workspace is too large");
      const auto pack = Pack(Placed(named, arena.at(0)), arena.at(tensors));
      Json event_ms = Json::array(), enqueue_ms = Json::array(), done_ms = Json::array();
      double spent_ms = 0;
      for (int launch = 0; launch < kLaunches && spent_ms < kMostLaunchesMs; ++launch) {
        double enqueued = 0;
        done_ms.push_back(HostMs([&] {
          event_ms.push_back(
              device.EventMs([&] { enqueued = HostMs([&] { Execute(device, *plan, pack); }); }));
        }));
        enqueue_ms.push_back(enqueued);
        spent_ms += done_ms.back().get<double>();
      }
      return {{"plan", plan->described},
              {"build_ms", build_ms},
              {"event_ms", event_ms},
              {"enqueue_ms", enqueue_ms},
              {"done_ms", done_ms}};
    });
  }
}

void Sweep(const Options& options) {
  const Device device;
  const int n = options.tiny ? 4 : 256, channels = options.tiny ? 4 : 64;
  const int size = options.tiny ? 8 : 56;
  Cases cases(options);
  cases.Print({{"l2_bytes", L2Bytes()}});
  for (const NamedGraph& whole :
       {Same(n, channels, size, DataType::kFloat, Layout::kNchw),
        Same(n, channels, 2 * size, DataType::kBfloat16, Layout::kNchw)}) {
    std::optional<Sweeper> sweeper;  // made in the first case, which reports a failure
    for (int m = n; m >= 1; m /= 2) {
      cases.Run(whole.name + " in pieces of " + std::to_string(m), [&] {
        if (!sweeper) sweeper.emplace(options, device, whole);
        Json told = {{"m", m}, {"x_bytes", cudnn::ImageBytes(whole.problem)}};
        told.update(sweeper->At(m));
        return told;
      });
    }
  }
}

void Repeat(const Options& options) {
  const Device device;
  const cudnn::PlanDevice of{device.handle(), nullptr};
  const NamedGraph named = options.tiny ? Same(1, 4, 8, DataType::kFloat, Layout::kNhwc)
                                        : Same(64, 256, 56, DataType::kBfloat16, Layout::kNhwc);
  Cases cases(options);
  cases.Run(named.name, [&]() -> Json {
    const size_t tensors = named.TensorBytes();
    const Plan plan = FirstPlan(named.Build(of).get(), of);
    const Memory arena(tensors + plan.workspace_bytes);
    const Operands operands = Placed(named, arena.at(0));
    FillOperands(named, operands);
    const auto pack = Pack(operands, arena.at(tensors));
    const auto run = [&] { Execute(device, plan, pack); };
    device.WarmUp(options, run);
    Json times = Json::array();
    for (int i = 0; i < kRepeats; ++i) times.push_back(device.EventMs(run));
    return {{"plan", plan.described}, {"event_ms", times}};
  });
}

void Copy(const Options& options) {
  const Device device;
  const size_t bytes = options.tiny ? size_t{1} << 20 : size_t{2} << 30;
  Cases cases(options);
  cases.Run("copy", [&]() -> Json {
    const Memory from(bytes), to(bytes);
    Fill(from.get(), bytes / 4, DataType::kFloat, Filling::kRandom, 1);
    const auto copy = [&] {
      Check(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, device.stream()),
            "cudaMemcpyAsync");
    };
    device.WarmUp(options, copy);
    Json times = Json::array();
    double best_ms = 1e30;
    for (int i = 0; i < 10; ++i) {
      times.push_back(device.EventMs(copy));
      best_ms = std::min(best_ms, times.back().get<double>());
    }
    const double moved = 2 * static_cast<double>(bytes);
    return {{"bytes_read_and_written", moved},
            {"event_ms", times},
            {"gb_per_s", moved / best_ms * 1e-6}};
  });
}

}  // namespace ucudnn::facts
