#include "tuning/measured_kernels.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/log.h"
#include "convolution/partial_sums.h"
#include "cuda/resources.h"
#include "cudnn/legacy_engines.h"
#include "planning/auto_policy.h"
#include "planning/math_groups.h"
#include "planning/micro_batch_sizes.h"
#include "tuning/verify.h"

namespace ucudnn::tuning {
namespace {

// Returns the engine to whose family the measurements of `micro` in `configuration` belong.
// Measurements of kPartialSum belong to the family of the largest piece's engine.
const EngineId& Measurer(const Configuration& configuration, const MicroConfiguration& micro) {
  return micro.engine.is_partial_sum() ? configuration.Largest().engine : micro.engine;
}

}  // namespace

size_t MeasuredKernels::FamilyHash::operator()(const Family& family) const {
  const size_t engine = std::hash<std::optional<EngineId>>()(family.graph_engine);
  return family.problem.Hash() ^ std::hash<std::string>()(family.platform.device) ^ 31 * engine;
}

bool MeasuredKernels::Family::Holds(const EngineId& engine) const {
  if (engine.is_packing()) return false;  // packing is measured for tiles only
  return graph_engine ? engine == *graph_engine || engine.is_partial_sum() : !engine.of_graph_api();
}

void MeasuredKernels::Refresh(const Family& family, KnownRows& known) {
  if (store_ == nullptr) return;
  const Result<planning::KernelMeasurements> stored = store_->Read(family.problem, family.platform);
  if (!stored.ok()) {
    WarnOnce("store read", "stored measurements cannot be read: " + stored.message());
    return;
  }
  const bool of_legacy = !family.graph_engine;
  MutexLock lock(mutex_);
  // If the process has no entry for the legacy family yet, none is made here. The first question
  // about the legacy family reads the whole entry from the store.
  const auto met = known_.find(LegacyFamily(family.problem, family.platform));
  KnownRows* const legacy = of_legacy ? &known : met != known_.end() ? &met->second : nullptr;
  for (const planning::Measurement& row : stored->rows) {
    // Another program may have written the store, so a time may be NaN, infinite or negative.
    if (!std::isfinite(row.micro.time_ms) || row.micro.time_ms < 0) continue;
    if (legacy != nullptr) NoteGraphEngine(row.micro, *legacy);
    if (!family.Holds(row.micro.engine)) continue;
    const std::pair<int, EngineId> key{row.micro.micro_batch, row.micro.engine};
    known.rows.insert_or_assign(key, row);
    known.confirmed.erase(key);
    // A family of a graph engine has one engine. So a single row makes a size complete.
    if (!of_legacy && row.micro.engine == *family.graph_engine) {
      known.sizes[row.micro.micro_batch] = SizeState::kMeasured;
    }
  }
  if (!of_legacy) return;
  for (const int size : stored->complete_sizes) {
    if (HasOwnMath(known, size)) known.sizes[size] = SizeState::kMeasured;
  }
}

bool MeasuredKernels::HasOwnMath(const KnownRows& known, int size) {
  static const EngineId kFirst;  // an empty engine, which sorts before all others
  bool any = false;
  for (auto row = known.rows.lower_bound({size, kFirst});
       row != known.rows.end() && row->first.first == size; ++row) {
    const EngineId::Legacy* const engine = row->first.second.legacy();
    if (engine == nullptr) continue;
    if (!engine->math) return true;
    any = true;
  }
  return !any;
}

void MeasuredKernels::NoteGraphEngine(const MicroConfiguration& row, KnownRows& legacy) {
  const EngineId::Graph* const engine = row.engine.graph();
  if (engine == nullptr || !engine->fusion.empty() || row.micro_batch < 1) return;
  const double image_ms = row.time_ms / row.micro_batch;
  double& best = legacy.graph_engines.try_emplace(row.engine, image_ms).first->second;
  best = std::min(best, image_ms);
}

std::vector<EngineId> MeasuredKernels::GraphEnginesOf(const Device& device,
                                                      const ConvolutionProblem& problem) {
  const KnownRows& known = RowsOf(LegacyFamily(problem, device.platform));
  std::vector<std::pair<double, EngineId>> ranked;
  {
    MutexLock lock(mutex_);
    for (const auto& [engine, image_ms] : known.graph_engines) {
      ranked.emplace_back(image_ms, engine);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<EngineId> engines;
  for (auto& [image_ms, engine] : ranked) engines.push_back(std::move(engine));
  return engines;
}

bool MeasuredKernels::HasTime(const Device& device, const ConvolutionProblem& problem,
                              Clock::duration needed) {
  return HasTimeFor(problem.n, RowsOf(LegacyFamily(problem, device.platform)), needed);
}

bool MeasuredKernels::HasTimeFor(int n, KnownRows& account, Clock::duration needed) {
  MutexLock lock(mutex_);
  return turns_.HasTime(account.spent[n] + needed);
}

void MeasuredKernels::Spend(const Device& device, const ConvolutionProblem& problem,
                            Clock::duration taken) {
  KnownRows& known = RowsOf(LegacyFamily(problem, device.platform));
  turns_.Spend(Use::kMeasuring, taken);
  MutexLock lock(mutex_);
  known.spent[problem.n] += taken;
}

MeasuredKernels::Family MeasuredKernels::LegacyFamily(const ConvolutionProblem& problem,
                                                      const planning::Platform& platform) {
  return {KernelFamily(problem), platform, std::nullopt};
}

MeasuredKernels::Family MeasuredKernels::FamilyOf(const ConvolutionProblem& problem,
                                                  const planning::Platform& platform,
                                                  const EngineId& engine) {
  Family family = LegacyFamily(problem, platform);
  if (engine.of_graph_api()) family.graph_engine = engine;
  return family;
}

MeasuredKernels::KnownRows& MeasuredKernels::RowsOf(const Family& family) {
  {
    MutexLock lock(mutex_);
    if (const auto entry = known_.find(family); entry != known_.end()) return entry->second;
  }
  KnownRows fresh;
  Refresh(family, fresh);
  MutexLock lock(mutex_);
  return known_.try_emplace(family, std::move(fresh)).first->second;
}

std::vector<int> MeasuredKernels::Missing(const ConvolutionProblem& problem, const KnownRows& known,
                                          const std::vector<int>& sizes) {
  MutexLock lock(mutex_);
  std::vector<int> missing;
  const bool knows_sum = known.sum_tried || known.rows.contains({kPartialSumBatch, kPartialSum});
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(missing), [&](int size) {
    const auto state = known.sizes.find(size);
    return state == known.sizes.end() || state->second == SizeState::kLate ||
           (IsPartial(problem, size) && !knows_sum);
  });
  return missing;
}

MeasuredKernels::KnownRows& MeasuredKernels::AccountOf(const Device& device,
                                                       const Question& question, KnownRows& known) {
  if (!question.legacy_share) return known;
  return RowsOf(LegacyFamily(question.problem, device.platform));
}

Status MeasuredKernels::MeasureFitting(const Device& device, const Question& question) {
  const planning::PromiseRequest& request = question.request;
  if (!question.must_fit || !question.may_measure || request.n < 1 || request.step < 1) {
    return Status::Ok();
  }
  const Family family = FamilyAsked(device, question);
  KnownRows& known = RowsOf(family);
  const std::pair<int, size_t> key{request.n, *question.must_fit};
  {
    MutexLock lock(mutex_);
    if (known.fitting_tried.contains(key)) return Status::Ok();
  }
  const std::vector<int> sizes = planning::FittingSizes(question.policy, request.n, request.step);
  if (Missing(question.problem, known, sizes).empty()) return Status::Ok();
  return MeasureMissing(device, question, family, sizes, Extent::kFitting, known);
}

Status MeasuredKernels::MeasureMissing(const Device& device, const Question& question,
                                       const Family& family, const std::vector<int>& sizes,
                                       Extent extent, KnownRows& known) {
  KnownRows& account = AccountOf(device, question, known);
  const Waiting waiting(progress_);
  Clock::duration spent;
  {
    MutexLock lock(mutex_);
    spent = account.spent[question.problem.n];
  }
  const bool spreads = extent == Extent::kAll && sizes.size() > 1;
  if (spreads && turns_.HasTime(spent)) turns_.OpenHelpers(device);
  UCUDNN_ASSIGN_OR_RETURN(const MeasuringTurns::Turn turn,
                          turns_.Take(Use::kMeasuring, device, spent, question.until));
  // The process that held the device before may have made the measurements that are missing here.
  Refresh(family, known);
  std::vector<int> missing = Missing(question.problem, known, sizes);
  if (missing.empty()) return Status::Ok();
  if (!turn.lock) return Status::Error(turn.why);
  // The size of the undivided kernel is measured first, because without its measurement nothing can
  // be promised.
  std::stable_partition(missing.begin(), missing.end(),
                        [&](int size) { return size == question.problem.n; });
  const Clock::time_point begin = Clock::now();
  // Without bounds the time is unlimited, so legacy_share does not apply.
  Clock::time_point deadline = turn.deadline;
  if (question.legacy_share && deadline != Clock::time_point::max()) {
    deadline = begin + std::chrono::duration_cast<Clock::duration>(*question.legacy_share *
                                                                   (deadline - begin));
  }
  MeasureLimits limits = turns_.LimitsNow(device, deadline);
  if (extent == Extent::kFitting) limits.fit_bytes = question.must_fit;
  const Status status = Measure(device, question, family, missing, limits, known);
  const Clock::duration taken = Clock::now() - begin;
  turns_.Spend(Use::kMeasuring, taken);
  MutexLock lock(mutex_);
  account.spent[question.problem.n] += taken;
  return status;
}

Status MeasuredKernels::Measure(const Device& device, const Question& question,
                                const Family& family, const std::vector<int>& sizes,
                                const MeasureLimits& limits, KnownRows& known) {
  const ConvolutionProblem& problem = question.problem;
  Log(LogLevel::kInfo, "measuring " + Describe(problem));
  const IsKnown is_known = [&](const EngineId& engine, int size) {
    MutexLock lock(mutex_);
    return known.rows.contains({size, engine});
  };
  Result<EngineMeasurements> fresh =
      turns_.MeasureSizes(device, {problem, sizes, question.scope, is_known, progress_}, limits);
  const bool all = !limits.fit_bytes;
  std::map<int, SizeState> states;
  if (all || !fresh.ok()) {
    for (const int size : sizes) states[size] = SizeState::kFailed;
  }
  std::vector<planning::Measurement> rows;
  if (fresh.ok()) {
    measured_ += static_cast<long>(fresh->measurements.size()) - fresh->twins;
    rows = std::move(fresh->measurements);
    if (all) {
      for (const int size : fresh->complete_sizes) states[size] = SizeState::kMeasured;
      for (const int size : fresh->scarce_sizes) states[size] = SizeState::kScarce;
      for (const int size : fresh->late_sizes) states[size] = SizeState::kLate;
    }
    if (store_ != nullptr) {
      // The store keeps complete sizes only for the legacy algorithms.
      const std::vector<int> complete =
          !family.graph_engine ? fresh->complete_sizes : std::vector<int>{};
      const Status written = store_->Write(problem, device.platform, rows, complete);
      if (!written.ok()) {
        unstored_ = true;
        WarnOnce("store write", "measurements cannot be stored: " + written.message());
      } else {
        // Another process may have stored the same measurements meanwhile. The rows of the first
        // writer are used, so that processes that share a store plan with the same numbers.
        Refresh(family, known);
      }
    }
  }
  KnownRows& legacy = RowsOf(LegacyFamily(problem, device.platform));
  MutexLock lock(mutex_);
  if (all) {
    known.sum_tried |= problem.n > 1 && !(fresh.ok() && fresh->sum_late);
  } else if (!fresh.ok() || fresh->all_fitting) {
    known.fitting_tried.insert({problem.n, *limits.fit_bytes});
  }
  for (planning::Measurement& row : rows) {
    if (legacy.measured_here.insert(problem.n).second) ++measured_kernels_;
    NoteGraphEngine(row.micro, legacy);
    known.rows.try_emplace({row.micro.micro_batch, row.micro.engine}, std::move(row));
  }
  for (const auto& [size, state] : states) {
    SizeState& known_state = known.sizes.try_emplace(size, state).first->second;
    if (known_state != SizeState::kMeasured) known_state = state;
  }
  return fresh.ok() ? fresh->failure : fresh.status();
}

void MeasuredKernels::Confirm(const Question& question, KnownRows& known,
                              const std::vector<int>& sizes) {
  if (!question.need || !std::holds_alternative<LegacyScope>(question.scope)) return;
  std::vector<std::pair<int, EngineId>> keys;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, row] : known.rows) {
      const bool wanted = std::find(sizes.begin(), sizes.end(), key.first) != sizes.end();
      if (wanted && !key.second.is_partial_sum() && !known.confirmed.contains(key)) {
        keys.push_back(key);
      }
    }
  }
  for (const auto& key : keys) {
    const std::optional<size_t> need = question.need(key.first, key.second);
    if (!need) continue;
    MutexLock lock(mutex_);
    size_t& bytes = known.rows.at(key).micro.workspace_bytes;
    bytes = std::max(bytes, *need);
    known.confirmed.insert(key);
  }
}

std::vector<MicroConfiguration> MeasuredKernels::RowsAt(const ConvolutionProblem& problem,
                                                        const KnownRows& known,
                                                        const std::vector<int>& sizes) {
  MutexLock lock(mutex_);
  std::vector<MicroConfiguration> rows;
  const std::pair<int, EngineId> summing{kPartialSumBatch, kPartialSum};
  const auto sum = known.rows.find(summing);
  const bool may_sum = sum != known.rows.end() && !known.wrong.contains(summing);
  for (const auto& [key, row] : known.rows) {
    const bool wanted = std::find(sizes.begin(), sizes.end(), key.first) != sizes.end();
    if (!wanted || key.second.is_partial_sum() || known.wrong.contains(key)) continue;
    if (row.micro.workspace_bytes == cudnn::LegacyNeeds::kNeverServes) continue;
    if (!IsPartial(problem, key.first)) {
      rows.push_back(row.micro);
    } else if (may_sum) {
      rows.push_back(AsPartial(problem, row.micro, sum->second.micro.time_ms));
    }
  }
  return rows;
}

std::vector<int> MeasuredKernels::NextSizes(const Question& question, size_t l2_bytes,
                                            KnownRows& known, const std::vector<int>& asked) {
  Confirm(question, known, asked);
  const planning::AutoRequest request = {question.request, l2_bytes};
  if (const auto* const graph = std::get_if<GraphScope>(&question.scope)) {
    std::vector<planning::Candidate> candidates;
    for (MicroConfiguration& row : RowsAt(question.problem, known, asked)) {
      candidates.push_back({std::move(row), graph->numeric});
    }
    return planning::NextSizes(candidates, asked, request);
  }
  const std::vector<planning::MathGroup> groups =
      planning::GroupByMath(question.problem, RowsAt(question.problem, known, asked));
  if (groups.empty()) return planning::NextSizes({}, asked, request);
  // All pieces of a plan have the same math type, which the caller chooses. So sizes are searched
  // for every math type, and the sizes of all math types are measured.
  std::set<int> sizes;
  for (const planning::MathGroup& group : groups) {
    const std::vector<int> next = planning::NextSizes(group.candidates, asked, request);
    sizes.insert(next.begin(), next.end());
  }
  return {sizes.begin(), sizes.end()};
}

MeasuredKernels::Family MeasuredKernels::FamilyAsked(const Device& device,
                                                     const Question& question) {
  Family family = LegacyFamily(question.problem, device.platform);
  if (const auto* const graph = std::get_if<GraphScope>(&question.scope)) {
    family.graph_engine = graph->engine;
  }
  return family;
}

MeasuredRows MeasuredKernels::Get(const Device& device, const Question& question) {
  const planning::PromiseRequest& request = question.request;
  const Family family = FamilyAsked(device, question);
  const Status fitted = MeasureFitting(device, question);
  KnownRows& known = RowsOf(family);
  MeasuredRows answer;
  // Only policy auto finds its sizes step by step.
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
      answer.status = MeasureMissing(device, question, family, missing, Extent::kAll, known);
    } else if (!missing.empty() && question.read_again) {
      Refresh(family, known);
    }
    // The next sizes depend on the measurements at all sizes of `asked`. So the search ends if one
    // of these measurements is missing.
    if (!search || !Missing(question.problem, known, asked).empty()) break;
  }
  answer.settled = Missing(question.problem, known, asked).empty();
  answer.whole_tried = Missing(question.problem, known, {request.n}).empty();
  answer.late =
      !answer.settled && !HasTimeFor(question.problem.n, AccountOf(device, question, known));
  if (question.must_fit) {
    const std::vector<int> fitting =
        planning::FittingSizes(question.policy, request.n, request.step);
    asked.insert(asked.end(), fitting.begin(), fitting.end());
  }
  Confirm(question, known, asked);
  answer.rows = RowsAt(question.problem, known, asked);
  const bool serves =
      std::any_of(answer.rows.begin(), answer.rows.end(), [&](const MicroConfiguration& row) {
        return row.IsWhole(request.n) ||
               (question.must_fit && row.workspace_bytes <= *question.must_fit);
      });
  if (serves) {
    answer.status = Status::Ok();
    return answer;
  }
  answer.rows.clear();
  if (answer.status.ok()) answer.status = fitted;
  if (answer.status.ok()) {
    answer.status = Status::Error(answer.settled ? "no engine could be measured before"
                                                 : "nobody has measured it");
  }
  return answer;
}

bool MeasuredKernels::FindUntried(const Device& device, const ConvolutionProblem& problem,
                                  const Configuration& configuration, planning::Proof proof,
                                  bool reread, std::vector<MicroConfiguration>& untried) {
  untried.clear();
  std::vector<MicroConfiguration> parts;
  for (const Run& run : configuration.runs) parts.push_back(run.micro);
  // The plan's summing of partials is compared, too, not only the engines that compute the
  // partials.
  if (configuration.Pieces() > 1 && SumsPartials(problem)) {
    parts.push_back({kPartialSum, kPartialSumBatch, 0, PartialSumBytes(problem), true});
  }
  for (MicroConfiguration& micro : parts) {
    const Family family = FamilyOf(problem, device.platform, Measurer(configuration, micro));
    KnownRows& known = RowsOf(family);
    if (reread) Refresh(family, known);
    const std::pair<int, EngineId> key{micro.micro_batch, micro.engine};
    MutexLock lock(mutex_);
    if (known.wrong.contains(key)) return false;
    const auto row = known.rows.find(key);
    const bool verified = !IsHere(proof) && row != known.rows.end() && row->second.verified;
    if (!verified && !known.trusted.contains(key)) untried.push_back(std::move(micro));
  }
  return true;
}

Result<MeasuringTurns::Turn> MeasuredKernels::TurnToCompare(const Device& device,
                                                            const ConvolutionProblem& problem,
                                                            const Configuration& configuration) {
  KnownRows& known = RowsOf(FamilyOf(problem, device.platform, configuration.Largest().engine));
  Clock::duration spent;
  {
    MutexLock lock(mutex_);
    spent = known.verifying[problem.n];
  }
  return turns_.Take(Use::kComparing, device, spent);
}

Verification MeasuredKernels::CompareNow(
    const Device& device, const ConvolutionProblem& problem, const Configuration& configuration,
    const MeasuringTurns::Turn& turn,
    const std::function<Verification(const MeasureLimits&)>& compare) {
  const Clock::time_point begin = Clock::now();
  progress_.Tell({Activity::kComparing, &problem});
  const Verification verification = compare(turns_.LimitsNow(device, turn.deadline));
  const Clock::duration taken = Clock::now() - begin;
  turns_.Spend(Use::kComparing, taken);
  KnownRows& known = RowsOf(FamilyOf(problem, device.platform, configuration.Largest().engine));
  MutexLock lock(mutex_);
  known.verifying[problem.n] += taken;
  return verification;
}

Trust MeasuredKernels::Verify(const Device& device, const ConvolutionProblem& problem,
                              const planning::Compare& question, const EngineScope& scope) {
  const Configuration& configuration = question.configuration;
  const planning::Proof proof = question.proof;
  if (configuration.IsTiled()) {
    const Trust trust = VerifyTiles(device, problem, question, scope);
    const bool races = trust.kind == Trust::Kind::kTrusted && !question.faster_than.engine.empty();
    return races ? RaceTiles(device, problem, question, scope) : trust;
  }
  std::vector<MicroConfiguration> untried;
  if (!FindUntried(device, problem, configuration, proof, false, untried)) {
    return {Trust::Kind::kWrong, "found wrong before"};
  }
  if (untried.empty()) return {};
  if (!MayCompare(proof)) return {Trust::Kind::kUnknown, "not now"};

  const Waiting waiting(progress_);
  const Result<MeasuringTurns::Turn> turn = TurnToCompare(device, problem, configuration);
  if (!turn.ok()) return {Trust::Kind::kUnknown, turn.message()};
  // Another process may have compared the same plan in the meantime.
  if (!FindUntried(device, problem, configuration, proof, true, untried)) {
    return {Trust::Kind::kWrong, "found wrong before"};
  }
  if (untried.empty()) return {};
  if (!turn->lock) return {Trust::Kind::kUnknown, turn->why};
  const Verification verification =
      CompareNow(device, problem, configuration, *turn, [&](const MeasureLimits& limits) {
        return VerifyPlan(device, problem, configuration, question.against, limits, scope);
      });
  const bool equal = verification.result == ComparisonResult::kEqual;
  if (!equal && verification.result == ComparisonResult::kNotCompared) {
    return {Trust::Kind::kUnknown, verification.message};
  }
  for (const MicroConfiguration& micro : untried) {
    // If several parts of the plan are untried, an engine may have caused the difference. So the
    // summing is not marked as wrong.
    if (!equal && micro.engine.is_partial_sum() && untried.size() > 1) continue;
    KnownRows& of_engine =
        RowsOf(FamilyOf(problem, device.platform, Measurer(configuration, micro)));
    MutexLock lock(mutex_);
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
  const KnownRows& known = RowsOf(LegacyFamily(problem, device.platform));
  MutexLock lock(mutex_);
  const auto state = known.sizes.find(problem.n);
  return state != known.sizes.end() && state->second == SizeState::kMeasured;
}

}  // namespace ucudnn::tuning
