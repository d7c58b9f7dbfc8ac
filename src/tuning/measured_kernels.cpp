#include "tuning/measured_kernels.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/log.h"
#include "convolution/partial_sums.h"
#include "cuda/resources.h"
#include "cudnn/legacy_engines.h"
#include "cudnn/mixed_engines.h"
#include "planning/auto_policy.h"
#include "planning/micro_batch_sizes.h"
#include "tuning/verify.h"

namespace ucudnn::tuning {
namespace {

// Of the device's L2 cache; 0 when it does not say.
size_t L2Bytes(const Device& device) {
  const cuda::ContextScope context(*device.driver, device.context);
  CUdevice ordinal = 0;
  int bytes = 0;
  if (device.driver->cuCtxGetDevice(&ordinal) != CUDA_SUCCESS ||
      device.driver->cuDeviceGetAttribute(&bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, ordinal) !=
          CUDA_SUCCESS) {
    return 0;
  }
  return static_cast<size_t>(std::max(bytes, 0));
}

// The engine in whose measurements `micro` of `plan` is found: sums are measured with every engine.
const std::string& Measurer(const Configuration& plan, const MicroConfiguration& micro) {
  return micro.engine == kPartialSum ? plan.Largest().engine : micro.engine;
}

}  // namespace

size_t MeasuredKernels::FamilyHash::operator()(const Family& family) const {
  const std::hash<std::string> hash;
  return family.problem.Hash() ^ hash(family.platform.device) ^ 31 * hash(family.engine);
}

void MeasuredKernels::Refresh(const Family& family, Known& known) {
  if (store_ == nullptr) return;
  const Result<planning::KernelMeasurements> stored = store_->Read(family.problem, family.platform);
  if (!stored.ok()) {
    WarnOnce("store read", "stored measurements cannot be read: " + stored.message());
    return;
  }
  EngineScope scope;
  scope.engine = family.engine;
  std::lock_guard lock(mutex_);
  // Legacy algorithms that nobody asked about yet will be read with all that is stored.
  const auto met = known_.find({family.problem, family.platform, ""});
  Known* const legacy = scope.legacy() ? &known : met != known_.end() ? &met->second : nullptr;
  for (const planning::Measurement& row : stored->rows) {
    if (legacy != nullptr) NoteGraphEngine(row.micro, *legacy);
    if (!scope.Holds(row.micro.engine)) continue;
    const std::pair<int, std::string> key{row.micro.micro_batch, row.micro.engine};
    known.rows.insert_or_assign(key, row);
    known.confirmed.erase(key);
    // Of one engine a row is all there is.
    if (!scope.legacy() && row.micro.engine == family.engine) {
      known.sizes[row.micro.micro_batch] = SizeState::kMeasured;
    }
  }
  if (!scope.legacy()) return;
  for (const int size : stored->complete_sizes) known.sizes[size] = SizeState::kMeasured;
}

void MeasuredKernels::NoteGraphEngine(const MicroConfiguration& row, Known& legacy) {
  const bool fused = row.engine.find('+') != std::string::npos;
  if (!cudnn::IsGraphEngine(row.engine) || fused || row.micro_batch < 1) return;
  const double image_ms = row.time_ms / row.micro_batch;
  // A store written by others may hold anything.
  if (!std::isfinite(image_ms) || image_ms < 0) return;
  double& best = legacy.graph_engines.try_emplace(row.engine, image_ms).first->second;
  best = std::min(best, image_ms);
}

std::vector<std::string> MeasuredKernels::GraphEnginesOf(const Device& device,
                                                         const ConvolutionProblem& problem) {
  const Known& known = Meet(FamilyOf(problem, device.platform, ""));
  std::vector<std::pair<double, std::string>> ranked;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [engine, image_ms] : known.graph_engines) {
      ranked.emplace_back(image_ms, engine);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> engines;
  for (auto& [image_ms, engine] : ranked) engines.push_back(std::move(engine));
  return engines;
}

bool MeasuredKernels::HasTime(const Device& device, const ConvolutionProblem& problem,
                              Clock::duration needed) {
  Known& known = Meet(FamilyOf(problem, device.platform, ""));
  std::lock_guard lock(mutex_);
  return turns_.HasTime(known.spent[problem.n] + needed);
}

void MeasuredKernels::Spend(const Device& device, const ConvolutionProblem& problem,
                            Clock::duration taken) {
  Known& known = Meet(FamilyOf(problem, device.platform, ""));
  turns_.Spend(taken);
  std::lock_guard lock(mutex_);
  known.spent[problem.n] += taken;
}

MeasuredKernels::Family MeasuredKernels::FamilyOf(const ConvolutionProblem& problem,
                                                  const planning::Platform& platform,
                                                  const std::string& engine) {
  return {KernelFamily(problem), platform, cudnn::IsGraphEngine(engine) ? engine : ""};
}

MeasuredKernels::Known& MeasuredKernels::Meet(const Family& family) {
  {
    std::lock_guard lock(mutex_);
    if (const auto entry = known_.find(family); entry != known_.end()) return entry->second;
  }
  Known fresh;
  Refresh(family, fresh);
  std::lock_guard lock(mutex_);
  return known_.try_emplace(family, std::move(fresh)).first->second;
}

std::vector<int> MeasuredKernels::Missing(const ConvolutionProblem& problem, const Known& known,
                                          const std::vector<int>& sizes) {
  std::lock_guard lock(mutex_);
  std::vector<int> missing;
  const bool knows_sum = known.sum_tried || known.rows.contains({kPartialSumBatch, kPartialSum});
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(missing), [&](int size) {
    const auto state = known.sizes.find(size);
    return state == known.sizes.end() || state->second == SizeState::kLate ||
           (IsPartial(problem, size) && !knows_sum);
  });
  return missing;
}

Status MeasuredKernels::Learn(const Device& device, const Question& question, const Family& family,
                              const std::vector<int>& sizes, Known& known) {
  Known& account =
      question.legacy_share ? Meet(FamilyOf(question.problem, device.platform, "")) : known;
  Clock::duration spent;
  {
    std::lock_guard lock(mutex_);
    spent = account.spent[question.problem.n];
  }
  if (sizes.size() > 1 && turns_.HasTime(spent)) turns_.OpenHelpers(device);
  UCUDNN_ASSIGN_OR_RETURN(const MeasuringTurns::Turn turn, turns_.Take(device, spent));
  // Who held the device before may have measured the same.
  Refresh(family, known);
  std::vector<int> missing = Missing(question.problem, known, sizes);
  if (missing.empty()) return Status::Ok();
  if (!turn.lock) return Status::Error(turn.why);
  // Without the undivided kernel nothing can be promised: it comes first.
  std::stable_partition(missing.begin(), missing.end(),
                        [&](int size) { return size == question.problem.n; });
  const Clock::time_point begin = Clock::now();
  // Without bounds there is nothing to share.
  Clock::time_point deadline = turn.deadline;
  if (question.legacy_share && deadline != Clock::time_point::max()) {
    deadline = begin + std::chrono::duration_cast<Clock::duration>(*question.legacy_share *
                                                                   (deadline - begin));
  }
  Status status =
      Measure(device, question.problem, missing, turns_.LimitsNow(device, deadline), family, known,
              question.scope != nullptr ? *question.scope : LegacyScope(*device.functions));
  const Clock::duration taken = Clock::now() - begin;
  turns_.Spend(taken);
  std::lock_guard lock(mutex_);
  account.spent[question.problem.n] += taken;
  return status;
}

Status MeasuredKernels::Measure(const Device& device, const ConvolutionProblem& problem,
                                const std::vector<int>& sizes, const MeasureLimits& limits,
                                const Family& family, Known& known, const EngineScope& scope) {
  Log(LogLevel::kInfo, "measuring " + Describe(problem));
  const IsKnown is_known = [&](const std::string& engine, int size) {
    std::lock_guard lock(mutex_);
    return known.rows.contains({size, engine});
  };
  Result<EngineMeasurements> fresh =
      turns_.MeasureSizes(device, problem, sizes, limits, is_known, scope);
  std::map<int, SizeState> states;
  for (const int size : sizes) states[size] = SizeState::kFailed;
  std::vector<planning::Measurement> rows;
  if (fresh.ok()) {
    measured_ += static_cast<long>(fresh->measurements.size());
    rows = std::move(fresh->measurements);
    for (const int size : fresh->complete_sizes) states[size] = SizeState::kMeasured;
    for (const int size : fresh->scarce_sizes) states[size] = SizeState::kScarce;
    for (const int size : fresh->late_sizes) states[size] = SizeState::kLate;
    if (store_ != nullptr) {
      // That a size lacks no engine is said of the legacy algorithms.
      const std::vector<int> complete = scope.legacy() ? fresh->complete_sizes : std::vector<int>{};
      const Status written = store_->Write(problem, device.platform, rows, complete);
      if (!written.ok()) {
        unstored_ = true;
        WarnOnce("store write", "measurements cannot be stored: " + written.message());
      } else {
        // Another process may have measured the same meanwhile. The first to write wins, so that
        // processes which share a store plan from the same numbers.
        Refresh(family, known);
      }
    }
  }
  Known& legacy = Meet(FamilyOf(problem, device.platform, ""));
  std::lock_guard lock(mutex_);
  known.sum_tried |= problem.n > 1 && !(fresh.ok() && fresh->sum_late);
  for (planning::Measurement& row : rows) {
    NoteGraphEngine(row.micro, legacy);
    known.rows.try_emplace({row.micro.micro_batch, row.micro.engine}, std::move(row));
  }
  for (const auto& [size, state] : states) {
    SizeState& known_state = known.sizes.try_emplace(size, state).first->second;
    if (known_state != SizeState::kMeasured) known_state = state;
  }
  return fresh.ok() ? fresh->failure : fresh.status();
}

void MeasuredKernels::Confirm(const Question& question, Known& known,
                              const std::vector<int>& sizes) {
  if (!question.need || question.scope != nullptr) return;
  std::vector<std::pair<int, std::string>> keys;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, row] : known.rows) {
      const bool wanted = std::find(sizes.begin(), sizes.end(), key.first) != sizes.end();
      if (wanted && key.second != kPartialSum && !known.confirmed.contains(key)) {
        keys.push_back(key);
      }
    }
  }
  for (const auto& key : keys) {
    const std::optional<size_t> need = question.need(key.first, key.second);
    if (!need) continue;
    std::lock_guard lock(mutex_);
    size_t& bytes = known.rows.at(key).micro.workspace_bytes;
    bytes = std::max(bytes, *need);
    known.confirmed.insert(key);
  }
}

std::vector<MicroConfiguration> MeasuredKernels::RowsAt(const ConvolutionProblem& problem,
                                                        const Known& known,
                                                        const std::vector<int>& sizes) {
  std::lock_guard lock(mutex_);
  std::vector<MicroConfiguration> rows;
  const std::pair<int, std::string> summing{kPartialSumBatch, kPartialSum};
  const auto sum = known.rows.find(summing);
  const bool may_sum = sum != known.rows.end() && !known.wrong.contains(summing);
  for (const auto& [key, row] : known.rows) {
    const bool wanted = std::find(sizes.begin(), sizes.end(), key.first) != sizes.end();
    if (!wanted || key.second == kPartialSum || known.wrong.contains(key)) continue;
    if (row.micro.workspace_bytes == cudnn::LegacyNeeds::kNeverServes) continue;
    if (!IsPartial(problem, key.first)) {
      rows.push_back(row.micro);
    } else if (may_sum) {
      rows.push_back(AsPartial(problem, row.micro, sum->second.micro.time_ms));
    }
  }
  return rows;
}

std::vector<int> MeasuredKernels::NextSizes(const Question& question, size_t l2_bytes, Known& known,
                                            const std::vector<int>& asked) {
  Confirm(question, known, asked);
  const planning::AutoRequest request = {question.request, l2_bytes};
  if (question.scope != nullptr) {
    std::vector<planning::Candidate> candidates;
    for (MicroConfiguration& row : RowsAt(question.problem, known, asked)) {
      candidates.push_back({std::move(row), question.scope->numeric});
    }
    return planning::NextSizes(candidates, asked, request);
  }
  const std::vector<cudnn::MathGroup> groups =
      cudnn::GroupByMath(question.problem, RowsAt(question.problem, known, asked));
  if (groups.empty()) return planning::NextSizes({}, asked, request);
  // A plan holds engines of one math type; the caller may choose any.
  std::set<int> sizes;
  for (const cudnn::MathGroup& group : groups) {
    const std::vector<int> next = planning::NextSizes(group.candidates, asked, request);
    sizes.insert(next.begin(), next.end());
  }
  return {sizes.begin(), sizes.end()};
}

Answer MeasuredKernels::Get(const Device& device, const Question& question) {
  const planning::PromiseRequest& request = question.request;
  const Family family{KernelFamily(question.problem), device.platform,
                      question.scope != nullptr ? question.scope->engine : ""};
  Known& known = Meet(family);
  Answer answer;
  // Other policies know all sizes from the start.
  const bool search = question.policy == BatchSizePolicy::kAuto;
  const size_t l2_bytes = search ? L2Bytes(device) : 0;
  std::vector<int> asked;
  for (;;) {
    if (search) {
      const std::vector<int> next = NextSizes(question, l2_bytes, known, asked);
      if (next.empty()) break;
      asked.insert(asked.end(), next.begin(), next.end());
    } else {
      asked = planning::MicroBatchSizes(question.policy, request.n, request.step);
    }
    const std::vector<int> missing = Missing(question.problem, known, asked);
    if (!missing.empty() && question.may_measure) {
      answer.status = Learn(device, question, family, missing, known);
    } else if (!missing.empty() && question.read_again) {
      Refresh(family, known);
    }
    // What the next sizes are depends on all these.
    if (!search || !Missing(question.problem, known, asked).empty()) break;
  }
  answer.settled = Missing(question.problem, known, asked).empty();
  answer.whole_tried = Missing(question.problem, known, {request.n}).empty();
  Confirm(question, known, asked);
  answer.rows = RowsAt(question.problem, known, asked);
  const bool undivided =
      std::any_of(answer.rows.begin(), answer.rows.end(),
                  [&](const MicroConfiguration& row) { return row.micro_batch == request.n; });
  if (undivided) {
    answer.status = Status::Ok();
    return answer;
  }
  answer.rows.clear();
  if (answer.status.ok()) {
    answer.status = Status::Error(answer.settled ? "no engine could be measured before"
                                                 : "nobody has measured it");
  }
  return answer;
}

bool MeasuredKernels::FindUntried(const Device& device, const ConvolutionProblem& problem,
                                  const Configuration& plan, bool reread,
                                  std::vector<MicroConfiguration>& untried) {
  untried.clear();
  std::vector<MicroConfiguration> parts;
  for (const Run& run : plan.runs) parts.push_back(run.micro);
  // Who sums partials is trusted apart from those who compute them.
  if (plan.Pieces() > 1 && SumsPartials(problem)) {
    parts.push_back({kPartialSum, kPartialSumBatch, 0, PartialSumBytes(problem), true});
  }
  for (MicroConfiguration& micro : parts) {
    const Family family = FamilyOf(problem, device.platform, Measurer(plan, micro));
    Known& known = Meet(family);
    if (reread) Refresh(family, known);
    const std::pair<int, std::string> key{micro.micro_batch, micro.engine};
    std::lock_guard lock(mutex_);
    if (known.wrong.contains(key)) return false;
    const auto row = known.rows.find(key);
    const bool verified = row != known.rows.end() && row->second.verified;
    if (!verified && !known.trusted.contains(key)) untried.push_back(std::move(micro));
  }
  return true;
}

Trust MeasuredKernels::Verify(const Device& device, const ConvolutionProblem& problem,
                              const Configuration& plan, const MicroConfiguration& undivided,
                              bool may_compare, const EngineScope* scope) {
  Known& known = Meet(FamilyOf(problem, device.platform, plan.Largest().engine));
  std::vector<MicroConfiguration> untried;
  Clock::duration spent;
  {
    std::lock_guard lock(mutex_);
    spent = known.verifying[problem.n];
  }
  if (!FindUntried(device, problem, plan, false, untried)) {
    return {Trust::Kind::kWrong, "found wrong before"};
  }
  if (untried.empty()) return {};
  if (!may_compare) return {Trust::Kind::kUnknown, "not now"};

  const Result<MeasuringTurns::Turn> turn = turns_.Take(device, spent);
  if (!turn.ok()) return {Trust::Kind::kUnknown, turn.message()};
  // Others, who held the device before or have time left, may have compared the same.
  if (!FindUntried(device, problem, plan, true, untried)) {
    return {Trust::Kind::kWrong, "found wrong before"};
  }
  if (untried.empty()) return {};
  if (!turn->lock) return {Trust::Kind::kUnknown, turn->why};
  const Clock::time_point begin = Clock::now();
  const Verification verification =
      VerifyPlan(device, problem, plan, undivided, turns_.LimitsNow(device, turn->deadline),
                 scope != nullptr ? *scope : LegacyScope(*device.functions));
  const Clock::duration taken = Clock::now() - begin;
  turns_.Spend(taken);
  {
    std::lock_guard lock(mutex_);
    known.verifying[problem.n] += taken;
  }

  const bool equal = verification.verdict == Verdict::kEqual;
  if (!equal && verification.verdict == Verdict::kNotCompared) {
    return {Trust::Kind::kUnknown, verification.message};
  }
  for (const MicroConfiguration& micro : untried) {
    // Where an engine may be to blame, the sum of its partials is not.
    if (!equal && micro.engine == kPartialSum && untried.size() > 1) continue;
    Known& of_engine = Meet(FamilyOf(problem, device.platform, Measurer(plan, micro)));
    std::lock_guard lock(mutex_);
    (equal ? of_engine.trusted : of_engine.wrong).insert({micro.micro_batch, micro.engine});
  }
  if (!equal) return {Trust::Kind::kWrong, verification.message};
  if (store_ != nullptr) {
    const Status marked = store_->MarkVerified(problem, device.platform, untried);
    if (!marked.ok()) {
      WarnOnce("store write", "measurements cannot be stored: " + marked.message());
    }
  }
  return {};
}

bool MeasuredKernels::HasAllEngines(const Device& device, const ConvolutionProblem& problem) {
  const Known& known = Meet({KernelFamily(problem), device.platform, ""});
  std::lock_guard lock(mutex_);
  const auto state = known.sizes.find(problem.n);
  return state != known.sizes.end() && state->second == SizeState::kMeasured;
}

}  // namespace ucudnn::tuning
