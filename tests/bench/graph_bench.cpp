// Measures what ucudnn costs users of the graph API. Calls go to the drop-in, and the cuDNN behind
// it executes nothing. Both sides of each comparison take turns in one run.
// - An execution in m pieces may take 1 us + 0.3 us * m longer than m direct executions. It may not
//   allocate on the heap. A variant pack is made for each execution, as frameworks do.
// - Finalizing a plan that ucudnn does not change may take 0.2 us longer than finalizing it
//   directly. If ucudnn has to read the plan's JSON from cuDNN before it leaves the plan unchanged,
//   5 us are allowed.
// - The first finalize of a plan that a store divides may take 0.1 ms.
// - The first finalize and execution of a plan of one image in tiles may take 0.3 ms.
// - A schedule of m tiles may add 150 ns + 10 ns * m to m direct executions.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "cudnn/graph_engines.h"
#include "db/sqlite_store.h"
#include "execution/schedule.h"
#include "tests/bench/users_path.h"
#include "tests/support/problem.h"
#include "tuning/fitting_grids.h"
#include "tuning/measure.h"

namespace ucudnn {
namespace {

using bench::Fail;
using bench::Nanoseconds;

constexpr int kImages = 64;
constexpr int kCalls = 200;
constexpr int kStored = 200;  // the number of kernels that are timed at their first call
constexpr int kTiledRows = 512;
constexpr size_t kBytesPerImage = 1024;  // the workspace of the null library's engine 38
constexpr size_t kLimit = kBytesPerImage * kImages;  // the user's workspace limit

void Check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) Fail(std::string(what) + " failed");
}

ConvolutionProblem PointwiseProblem(int c, int k) {
  return test::ProblemWith({.n = kImages,
                            .c = c,
                            .k = k,
                            .x = {1, 28, 28},
                            .w = {1, 1, 1},
                            .pad = {0, 0, 0},
                            .alignment = 16});
}

// Returns the convolution that runs in `pieces` pieces. Its number of channels depends on `pieces`,
// so each number of pieces has its own kernel in the store.
ConvolutionProblem ProblemOf(int pieces) { return PointwiseProblem(16 * pieces, 32); }

// Returns the kernel with number `kernel`, for benches that time a kernel's first call.
ConvolutionProblem StoredProblem(int kernel) { return PointwiseProblem(17 + kernel, 64); }

// These constants and TiledProblem describe plans of one image that need more workspace than the
// limit. They run in tiles, whose measurements are in the store.
constexpr int kTiled = 50;
constexpr int kTiles = 4;
constexpr int kRowEngine = 40;  // an engine of the null library
ConvolutionProblem TiledProblem(int kernel) {
  return test::ProblemWith(
      {.n = 1, .c = 17 + kernel, .k = 32, .x = {1, kTiledRows, kTiledRows}, .alignment = 16});
}

std::string TensorJson(int uid, int n, int c, int extent) {
  const std::string plane = std::to_string(extent * extent), row = std::to_string(extent);
  return "{\"name\":\"" + std::to_string(uid) + "\",\"dataType\":\"CUDNN_DATA_FLOAT\",\"dim\":[" +
         std::to_string(n) + "," + std::to_string(c) + "," + row + "," + row + "],\"stride\":[" +
         std::to_string(c * extent * extent) + "," + plane + "," + row +
         ",1],\"isVirtual\":false,\"isByValue\":false,\"vectCount\":1,\"vectDim\":-1,"
         "\"ptrAlignment\":16,\"reordering\":\"CUDNN_TENSOR_REORDERING_NONE\"}";
}
// Returns a plan of the problem as JSON, in the form that cuDNN 9.19 writes.
std::string JsonOf(const ConvolutionProblem& problem, int schema = 4, int engine = 38) {
  const std::string pads = std::to_string(problem.pad[1]) + "," + std::to_string(problem.pad[2]);
  return "{\"cudnnVersion\":91900,\"schemaVersion\":" + std::to_string(schema) +
         ",\"operationGraph\":{\"finalizeMode\":\"CONV_FORWARD\",\"tensors\":[" +
         TensorJson(119, problem.k, problem.c, problem.w[2]) + "," +
         TensorJson(120, problem.n, problem.c, problem.x[2]) + "," +
         TensorJson(121, problem.n, problem.k, problem.x[2]) +
         "],\"nodes\":[{\"operation\":\"CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR\","
         "\"mode\":\"CUDNN_CROSS_CORRELATION\",\"mathPrec\":\"CUDNN_DATA_FLOAT\",\"alpha\":1.0,"
         "\"beta\":0.0,\"pad\":[" +
         pads +
         "],\"stride\":[1,1],\"dilation\":[1,1],\"X\":\"120\",\"W\":"
         "\"119\",\"Y\":\"121\"}]},\"GPUProfile\":{},\"engine\":{\"engineId\":" +
         std::to_string(engine) + ",\"smVersion\":900,\"knobChoices\":{}}}";
}

// Holds the functions of a library and makes calls as a program that uses the graph API does.
struct Program : bench::LibraryUser {
  Program(void* library, CUstream stream) : LibraryUser(library, stream) {
    if (!functions.HasGraphApi()) Fail("a library lacks functions");
  }

  cudnnBackendDescriptor_t New(cudnnBackendDescriptorType_t type) const {
    cudnnBackendDescriptor_t made = nullptr;
    Check(functions.cudnnBackendCreateDescriptor(type, &made), "creating a descriptor");
    return made;
  }
  template <typename Value>
  void Set(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, const std::vector<Value>& values) const {
    Check(functions.cudnnBackendSetAttribute(to, name, type, static_cast<int64_t>(values.size()),
                                             values.data()),
          "setting an attribute");
  }
  void SetDescriptor(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptor_t value) const {
    Set(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{value});
  }
  cudnnBackendDescriptor_t UnfinishedPlan() const {
    const cudnnBackendDescriptor_t plan = New(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    Set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle});
    return plan;
  }
  cudnnBackendDescriptor_t UnfinishedPlan(const std::string& json) const {
    const cudnnBackendDescriptor_t plan = UnfinishedPlan();
    Set(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
        std::vector<char>(json.begin(), json.end()));
    return plan;
  }
  cudnnBackendDescriptor_t UnfinishedPlan(cudnnBackendDescriptor_t configuration) const {
    const cudnnBackendDescriptor_t plan = UnfinishedPlan();
    SetDescriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    return plan;
  }
  // Returns an engine configuration for a graph of one operation, on a mini-batch of `batch`
  // images.
  cudnnBackendDescriptor_t ConfigurationOf(cudnnBackendDescriptorType_t type, int64_t batch) const {
    const auto x = New(CUDNN_BACKEND_TENSOR_DESCRIPTOR), operation = New(type);
    Set(x, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::vector<int64_t>{batch, 16, 28, 28});
    if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
      SetDescriptor(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    }
    const auto graph = New(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    SetDescriptor(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    const auto engine = New(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    SetDescriptor(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    const auto configuration = New(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    SetDescriptor(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    return configuration;
  }

  // Executes the plan with a variant pack that is made for the call and destroyed after it.
  void Execute(cudnnBackendDescriptor_t plan) const {
    static char device[64];
    void* const pointers[] = {device, device, device};
    const int64_t uids[] = {120, 119, 121};
    void* const workspace = device;
    cudnnBackendDescriptor_t pack = nullptr;
    functions.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    functions.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                       CUDNN_TYPE_VOID_PTR, 3, pointers);
    functions.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                       3, uids);
    functions.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                       1, &workspace);
    functions.cudnnBackendFinalize(pack);
    benchmark::DoNotOptimize(functions.cudnnBackendExecute(handle, plan, pack));
    functions.cudnnBackendDestroyDescriptor(pack);
  }
};

struct Setting {
  Setting() {
    // A child process finalizes the tiled plans first, so that the store has the promises of
    // workspace of these plans, as after an earlier run of a user's program.
    const pid_t earlier = fork();
    if (earlier == 0) {
      Open();
      Prime();
      for (int kernel = 0; kernel < kTiled; ++kernel) {
        const auto plan = hooked->UnfinishedPlan(JsonOf(TiledProblem(kernel), 4, kRowEngine));
        Check(hooked->functions.cudnnBackendFinalize(plan), "finalizing");
      }
      _exit(0);
    }
    int ended = 1;
    if (earlier < 0 || waitpid(earlier, &ended, 0) != earlier || ended != 0) {
      Fail("the store could not be filled");
    }
    Open();
  }
  void Open() {
    const CUstream stream = bench::DeviceStream();
    void* const null_library = bench::OpenLibrary(bench::NullCudnn());
    executions = reinterpret_cast<long (*)()>(dlsym(null_library, "nullGraphExecutions"));
    direct = new Program(null_library, stream);
    hooked = new Program(bench::OpenLibrary(bench::DropIn()), stream);
  }
  // Stores measurements of an engine that is slow undivided and fast in pieces.
  void Prime() const {
    db::SqliteStore store({getenv("UCUDNN_DATABASE")});
    const planning::Platform platform =
        bench::Take(tuning::DescribePlatform(*cuda::GetDriver(), direct->functions));
    const auto prime = [&](const ConvolutionProblem& problem, int part) {
      bench::Require(
          store.Write(problem, platform,
                      {{{"graph:38", kImages, 100, kBytesPerImage * kImages, true}, 5, true},
                       {{"graph:38", part, 1, kBytesPerImage * part, true}, 5, true}},
                      {}));
    };
    for (const int pieces : {1, 2, 4, 8, 16}) prime(ProblemOf(pieces), kImages / pieces);
    for (int kernel = 0; kernel < kStored; ++kernel) prime(StoredProblem(kernel), kImages / 4);
    for (int kernel = 0; kernel < kTiled; ++kernel) PrimeTiles(store, platform, kernel);
  }
  // Stores tiles as if they had been found, measured and compared, in the format of db/FORMAT.md.
  void PrimeTiles(db::SqliteStore& store, const planning::Platform& platform, int kernel) const {
    const auto plan = direct->UnfinishedPlan(JsonOf(TiledProblem(kernel), 4, kRowEngine));
    Check(direct->functions.cudnnBackendFinalize(plan), "finalizing");
    const auto own = bench::Take(cudnn::ReadTemplate(direct->functions, plan));
    cudnn::GraphEngines engines(direct->functions, {direct->handle, nullptr}, {&own});
    const ConvolutionProblem& whole = own.convolution.problem;
    const EngineId& engine = own.convolution.engine;
    const auto division =
        bench::Take(tuning::DivideBy({.spatial = {1, kTiles, 1}}, engines, whole, engine, kLimit));
    const std::string grid = "1 1 1 1 " + std::to_string(kTiles) + " 1";
    std::string compared = "tiles " + grid + ":";
    for (size_t kind = 0; kind < division.tiles->kinds.size(); ++kind) {
      const size_t workspace = division.configuration.runs[kind].micro.workspace_bytes;
      bench::Require(store.Write(SlackTwin(division.tiles->kinds[kind]), platform,
                                 {{{engine, 1, 1, workspace, true}, 5, true}}, {}));
      compared += " " + engine.Text() + " in " + std::to_string(workspace);
    }
    const size_t l2_bytes =
        tuning::L2Bytes({cuda::GetDriver(), &direct->functions, nullptr, platform});
    const std::string found = "grids within " + std::to_string(kLimit) + ", L2 " +
                              std::to_string(l2_bytes) + ", powerOfTwo: " + engine.Text();
    if (!store.KeepNote(whole, platform, found, "0 1 " + grid).ok() ||
        !store.KeepNote(whole, platform, compared, "the whole equals").ok()) {
      Fail("the store takes no notes");
    }
  }

  Program* direct = nullptr;
  Program* hooked = nullptr;
  long (*executions)() = nullptr;
};
const Setting& TheSetting() {
  static const Setting setting;
  return setting;
}

void ExecuteOverDirect(benchmark::State& state) {
  const Setting& setting = TheSetting();
  const int pieces = static_cast<int>(state.range(0));
  const std::string json = JsonOf(ProblemOf(pieces));
  const auto direct = setting.direct->UnfinishedPlan(json);
  const auto planned = setting.hooked->UnfinishedPlan(json);
  Check(setting.direct->functions.cudnnBackendFinalize(direct), "finalizing");
  Check(setting.hooked->functions.cudnnBackendFinalize(planned), "finalizing");
  setting.hooked->Execute(planned);
  const auto run_directly = [&] { setting.direct->Execute(direct); };
  const auto run = [&] { setting.hooked->Execute(planned); };
  bench::ExpectPieces(setting.executions, pieces, run);
  bench::PlannedOverDirect(
      state, 1000 + 300 * pieces,
      [&] { return Nanoseconds(kCalls * pieces, run_directly) / kCalls; },
      [&] { return Nanoseconds(kCalls, run) / kCalls; });
}
BENCHMARK(ExecuteOverDirect)
    ->RangeMultiplier(2)
    ->Range(1, 16)
    ->Apply(bench::InNanoseconds)
    ->Iterations(1000);

// Compares a schedule of m tiles with m direct executions of a plan, and measures how much longer
// the schedule takes. The tiles cut a square image along h.
void TilesOverDirect(benchmark::State& state) {
  const Program& program = *TheSetting().direct;
  const int parts = static_cast<int>(state.range(0));
  ConvolutionProblem image = PointwiseProblem(16, 32);
  image.n = 1;
  image.x = {1, kTiledRows, kTiledRows};
  const auto plan = program.UnfinishedPlan(JsonOf(image));
  Check(program.functions.cudnnBackendFinalize(plan), "finalizing");
  const auto own = bench::Take(cudnn::ReadTemplate(program.functions, plan));
  cudnn::GraphEngines engines(program.functions, {program.handle, nullptr}, {&own});
  const ConvolutionProblem& problem = own.convolution.problem;
  constexpr size_t kAny = size_t{1} << 30;
  const auto division = bench::Take(
      tuning::DivideBy({.spatial = {1, parts, 1}}, engines, problem, own.convolution.engine, kAny));
  const auto schedule = bench::Take(execution::Schedule::Make(engines, {problem, division, {}}));
  static float device[16], one = 1, zero = 0;
  cudnn::ConvolutionCall call;
  call.handle = program.handle;
  call.x = call.w = call.y = call.workspace = device;
  call.workspace_bytes = kAny;
  call.alpha = &one;
  call.beta = &zero;
  execution::Outcome outcome = {};
  const auto run = [&] { benchmark::DoNotOptimize(schedule->Run(call, outcome)); };
  bench::ExpectPieces(TheSetting().executions, parts, run);
  if (outcome != execution::Outcome::kPlanned) Fail("the tiles did not run");
  bench::PlannedOverDirect(
      state, 150 + 10 * parts, [&] { return Nanoseconds(parts, [&] { program.Execute(plan); }); },
      [&] { return Nanoseconds(1, run); });
}
BENCHMARK(TilesOverDirect)
    ->RangeMultiplier(4)
    ->Range(4, 256)
    ->Apply(bench::InNanoseconds)
    ->Iterations(2000);

// Compares the time with the drop-in and the time without it. `run` takes a Program and returns the
// ns that it took.
template <typename Run>
void HookedOverDirect(benchmark::State& state, double allowed_ns, Run run) {
  const Setting& setting = TheSetting();
  bench::OverDirect(
      state, [&] { return run(*setting.direct); }, [&] { return run(*setting.hooked); });
  state.counters["allowed_ns"] = allowed_ns;
}
// Compares the times of finalizing a plan. `make` takes a Program and returns its plan, which is
// not yet finalized.
template <typename Make>
void FinalizeOverDirect(benchmark::State& state, Make make) {
  HookedOverDirect(state, 200, [&](const Program& program) {
    const cudnnBackendDescriptor_t plan = make(program);
    const double taken = Nanoseconds(1, [&] { program.functions.cudnnBackendFinalize(plan); });
    program.functions.cudnnBackendDestroyDescriptor(plan);
    return taken;
  });
}
void FinalizeOperation(benchmark::State& state, cudnnBackendDescriptorType_t type) {
  const Setting& setting = TheSetting();
  const auto direct = setting.direct->ConfigurationOf(type, 1);
  const auto hooked = setting.hooked->ConfigurationOf(type, 1);
  FinalizeOverDirect(state, [&](const Program& program) {
    return program.UnfinishedPlan(&program == setting.direct ? direct : hooked);
  });
}
void FinalizeOtherOperation(benchmark::State& state) {
  FinalizeOperation(state, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
}
BENCHMARK(FinalizeOtherOperation)->Apply(bench::InNanoseconds)->Iterations(5000);
void FinalizeSingleImage(benchmark::State& state) {
  FinalizeOperation(state, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
}
BENCHMARK(FinalizeSingleImage)->Apply(bench::InNanoseconds)->Iterations(5000);
// Finalizes a plan whose JSON has another schema version. ucudnn reads the JSON before it leaves
// such a plan unchanged.
constexpr double kJsonAllowedNs = 5000;
void FinalizeUnfamiliarJson(benchmark::State& state) {
  const std::string json = JsonOf(ProblemOf(1), 9);
  FinalizeOverDirect(state, [&](const Program& program) { return program.UnfinishedPlan(json); });
  state.counters["allowed_ns"] = kJsonAllowedNs;
}
BENCHMARK(FinalizeUnfamiliarJson)->Apply(bench::InNanoseconds)->Iterations(5000);
// Finalizes a plan of a new kernel in each iteration, as a starting program does.
void FinalizeUnfamiliarJsonFirst(benchmark::State& state) {
  std::vector<std::string> jsons;
  for (int kernel = 0; kernel < kStored; ++kernel) {
    jsons.push_back(JsonOf(StoredProblem(kernel), 9));
  }
  size_t direct = 0, hooked = 0;
  FinalizeOverDirect(state, [&](const Program& program) {
    size_t& next = &program == TheSetting().direct ? direct : hooked;
    return program.UnfinishedPlan(jsons[next++ % jsons.size()]);
  });
  state.counters["allowed_ns"] = kJsonAllowedNs;
}
BENCHMARK(FinalizeUnfamiliarJsonFirst)->Apply(bench::InNanoseconds)->Iterations(kStored);
// Finalizes a plan of a new kernel in each iteration. By the measurements in the store, the plan
// runs in pieces.
void FirstFinalizeFromStore(benchmark::State& state) {
  size_t direct = 0, hooked = 0;
  FinalizeOverDirect(state, [&](const Program& program) {
    size_t& next = &program == TheSetting().direct ? direct : hooked;
    return program.UnfinishedPlan(JsonOf(StoredProblem(static_cast<int>(next++ % kStored))));
  });
  state.counters["allowed_ns"] = 100'000;
}
BENCHMARK(FirstFinalizeFromStore)->Apply(bench::InNanoseconds)->Iterations(kStored);
// Finalizes and executes plans of one image for the first time, in tiles that are in the store. The
// time ends when the execution has enqueued all tiles.
void FirstTilesFromStore(benchmark::State& state) {
  const Setting& setting = TheSetting();
  int direct = 0, hooked = 0;
  HookedOverDirect(state, 300'000, [&](const Program& program) {
    int& next = &program == setting.direct ? direct : hooked;
    const std::string json = JsonOf(TiledProblem(next++ % kTiled), 4, kRowEngine);
    const cudnnBackendDescriptor_t plan = program.UnfinishedPlan(json);
    const long before = setting.executions();
    const double taken = Nanoseconds(1, [&] {
      program.functions.cudnnBackendFinalize(plan);
      program.Execute(plan);
    });
    const long expected = &program == setting.direct ? 1 : kTiles;
    if (setting.executions() - before != expected) Fail("the first execution ran no tiles");
    return taken;
  });
}
BENCHMARK(FirstTilesFromStore)->Apply(bench::InNanoseconds)->Iterations(kTiled);
// Finalizes a divided plan whose kernel was finalized before.
void FinalizePlannedAgain(benchmark::State& state) {
  const std::string json = JsonOf(ProblemOf(4));
  FinalizeOverDirect(state, [&](const Program& program) { return program.UnfinishedPlan(json); });
  state.counters.erase("allowed_ns");
}
BENCHMARK(FinalizePlannedAgain)->Apply(bench::InNanoseconds)->Iterations(5000);

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) {
  setenv("UCUDNN_WORKSPACE_LIMIT", std::to_string(ucudnn::kLimit).c_str(), 1);
  return ucudnn::bench::RunWithOwnStore(argc, argv);
}
