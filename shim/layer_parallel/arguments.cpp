#include "layer_parallel/arguments.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>

#include "layer_parallel/versioned.h"
#include "planner/multigrid/trajectory.h"

namespace ucudnn::layer_parallel {
namespace {

using multigrid::CoarseOperator;
using multigrid::ResidualScale;
using multigrid::Start;
using multigrid::Storage;
using Threads = multigrid::Lanes::Threads;

// The accepted struct sizes. If a later version extends a struct, it adds a size and keeps the
// earlier sizes.
constexpr size_t kCallbacksSizes[] = {sizeof(ucudnnLayerParallelCallbacks_t)};
constexpr size_t kOptionsSizes[] = {sizeof(ucudnnLayerParallelOptions_t)};
constexpr size_t kSolveOptionsSizes[] = {sizeof(ucudnnLayerParallelSolveOptions_t)};
constexpr size_t kResultSizes[] = {sizeof(ucudnnLayerParallelResult_t)};

constexpr int kMostLayers = 1 << 30;  // 2^30: the sum of two layer numbers is less than 2^31
constexpr int kDefaultCoarsening = 4;
constexpr int kCyclesWithoutTolerance = 2;  // Kirby et al. stop after two cycles in training
constexpr int kCyclesToTolerance = 50;

// These arrays are indexed by the C API's numbers.
constexpr Storage kStorage[] = {Storage::kAll, Storage::kCPoints};
constexpr Threads kThreads[] = {Threads::kOneEach, Threads::kCallersAlone};
constexpr Start kStarts[] = {Start::kBroadcast, Start::kNested, Start::kPrevious};
constexpr ResidualScale kScales[] = {ResidualScale::kAbsolute, ResidualScale::kLargestState};
// Indexed by multigrid::Outcome.
constexpr ucudnnLayerParallelOutcome_t kOutcomes[] = {
    UCUDNN_LAYER_PARALLEL_CONVERGED, UCUDNN_LAYER_PARALLEL_ROUNDING, UCUDNN_LAYER_PARALLEL_EARLY,
    UCUDNN_LAYER_PARALLEL_DIRECT, UCUDNN_LAYER_PARALLEL_SERIAL};

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

// Returns values[number]. If there is no such value, the error calls the option `name`.
template <typename Value, size_t count>
Result<Value> ValueOf(const char* name, int number, const Value (&values)[count]) {
  if (number >= 0 && static_cast<size_t>(number) < count) return values[number];
  return Status::Error(std::string(name) + " is " + std::to_string(number) + "; 0 to " +
                       std::to_string(count - 1) + " are expected");
}

Status CheckCount(const char* array, int count, const void* values) {
  if (count == 0 || (count > 0 && values != nullptr)) return Status::Ok();
  return Status::Error(
      std::string(array) + "_count is " + std::to_string(count) +
      (count < 0 ? "; 0 and more are expected" : " without values: a null pointer"));
}

// Accepts only the numbers of kInject and kSum. 1 was the number of an operator that no longer
// exists.
Result<CoarseOperator> ReadCoarse(int number) {
  if (number == UCUDNN_LAYER_PARALLEL_COARSE_INJECT) return CoarseOperator::kInject;
  if (number == UCUDNN_LAYER_PARALLEL_COARSE_SUM) return CoarseOperator::kSum;
  return Status::Error("coarse is " + std::to_string(number) +
                       "; 0 (inject) or 2 (sum) is expected");
}

// Refuses values in members that had a meaning in earlier versions. Ignoring such a value would
// silently change the results.
Status CheckReserved(const ucudnnLayerParallelSolveOptions_t& given) {
  if (given.reserved_cycle != 0) {
    return Status::Error("reserved_cycle is " + std::to_string(given.reserved_cycle) +
                         "; 0 is expected: all cycles are V-cycles");
  }
  if (given.reserved_c_weights == nullptr) return Status::Ok();
  return Status::Error(
      "reserved_c_weights is no null pointer; one is expected: C-relaxation has no weights");
}

}  // namespace

Result<ucudnnLayerParallelCallbacks_t> ReadCallbacks(
    const ucudnnLayerParallelCallbacks_t* callbacks) {
  if (callbacks == nullptr) return Status::Error("callbacks is a null pointer");
  UCUDNN_ASSIGN_OR_RETURN(const ucudnnLayerParallelCallbacks_t read,
                          ReadVersion("callbacks", *callbacks, kCallbacksSizes));
  const char* missing = nullptr;
  if (read.step == nullptr) missing = "step";
  if (read.squared_distance == nullptr) missing = "squared_distance";
  if (read.combine == nullptr) missing = "combine";
  if (read.destroy == nullptr) missing = "destroy";
  if (read.create == nullptr) missing = "create";
  if (missing != nullptr) {
    return Status::Error(std::string("callbacks->") + missing + " is a null pointer");
  }
  if ((read.join == nullptr) != (read.wait == nullptr)) {
    return Status::Error(
        "one of callbacks->join and callbacks->wait is a null pointer, the other "
        "is not; lanes that are queues need both");
  }
  return read;
}

Result<Setting> ReadOptions(int layers, const ucudnnLayerParallelOptions_t* options) {
  ucudnnLayerParallelOptions_t given = {};
  if (options != nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(given, ReadVersion("options", *options, kOptionsSizes));
  }
  if (layers > kMostLayers) {
    return Status::Error(std::to_string(layers) + " layers; at most " +
                         std::to_string(kMostLayers) + " are expected");
  }
  UCUDNN_RETURN_IF_ERROR(CheckCount("coarsening", given.coarsening_count, given.coarsening));
  std::vector<int> coarsening(given.coarsening, given.coarsening + given.coarsening_count);
  if (coarsening.empty()) coarsening = {std::clamp(layers / 2, 2, kDefaultCoarsening)};
  Setting setting;
  UCUDNN_ASSIGN_OR_RETURN(setting.hierarchy,
                          multigrid::Hierarchy::Make(layers, coarsening, given.levels));
  setting.mirrored = setting.hierarchy.Mirrored();
  UCUDNN_ASSIGN_OR_RETURN(setting.coarse, ReadCoarse(given.coarse));
  UCUDNN_ASSIGN_OR_RETURN(setting.storage, ValueOf("storage", given.storage, kStorage));
  if (given.lanes < 0 || given.lanes > UCUDNN_LAYER_PARALLEL_MOST_LANES) {
    return Status::Error("lanes is " + std::to_string(given.lanes) + "; 1 to " +
                         std::to_string(UCUDNN_LAYER_PARALLEL_MOST_LANES) +
                         " are expected, or 0 for one");
  }
  setting.lanes = std::max(given.lanes, 1);
  UCUDNN_ASSIGN_OR_RETURN(setting.threads, ValueOf("threads", given.threads, kThreads));
  if (!(given.unit_roundoff >= 0 && given.unit_roundoff < 1)) {
    return Status::Error("unit_roundoff is " + Number(given.unit_roundoff) +
                         "; a number below 1 is expected, or 0 for double's");
  }
  setting.unit_roundoff =
      given.unit_roundoff > 0 ? given.unit_roundoff : std::numeric_limits<double>::epsilon() / 2;
  return setting;
}

Result<multigrid::SolveOptions> ReadSolveOptions(const ucudnnLayerParallelSolveOptions_t* options) {
  ucudnnLayerParallelSolveOptions_t given = {};
  if (options != nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(given, ReadVersion("options", *options, kSolveOptionsSizes));
  }
  multigrid::SolveOptions read;
  if (given.tolerance != 0) read.tolerance = given.tolerance;
  UCUDNN_ASSIGN_OR_RETURN(read.scale, ValueOf("scale", given.scale, kScales));
  read.cycles = given.cycles;
  if (given.cycles == 0) {
    read.cycles = read.tolerance ? kCyclesToTolerance : kCyclesWithoutTolerance;
  }
  UCUDNN_ASSIGN_OR_RETURN(read.start, ValueOf("start", given.start, kStarts));
  UCUDNN_RETURN_IF_ERROR(CheckReserved(given));
  UCUDNN_RETURN_IF_ERROR(CheckCount("relaxation", given.relaxation_count, given.c_sweeps));
  if (given.relaxation_count > 0) {
    read.c_sweeps.assign(given.c_sweeps, given.c_sweeps + given.relaxation_count);
  }
  read.skips_first_down = given.skips_first_down != 0;
  read.measures_start = given.measures_start != 0;
  read.measures_cycles = given.skips_residuals == 0;
  UCUDNN_RETURN_IF_ERROR(multigrid::CheckOptions(read));
  return read;
}

Status CheckResult(const ucudnnLayerParallelResult_t* result) {
  return result == nullptr ? Status::Ok() : CheckVersion("result", *result, kResultSizes);
}

void WriteResult(const multigrid::Solution& solution, ucudnnLayerParallelResult_t* result) {
  if (result == nullptr) return;
  ucudnnLayerParallelResult_t made = {};
  made.outcome = kOutcomes[static_cast<size_t>(solution.outcome)];
  made.cycles = solution.cycles;
  made.residual_count = static_cast<int>(solution.residuals.size());
  made.residuals = solution.residuals.data();
  made.largest_state = solution.largest_state;
  made.fallback = solution.fallback.c_str();
  WriteVersion(made, *result);
}

int64_t StatesOf(const Setting& setting, const multigrid::Hierarchy& hierarchy) {
  return multigrid::BlockSystem::StatesFor(hierarchy, setting.lanes, setting.storage) +
         multigrid::Trajectory::StatesFor(hierarchy, setting.lanes, setting.storage);
}

}  // namespace ucudnn::layer_parallel
