#include "interposer/pinned/followed_plan.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "cudnn/legacy_engines.h"
#include "interposer/core/capacity.h"
#include "interposer/pinned/confirm_configuration.h"
#include "planning/math_groups.h"

namespace ucudnn::interposer {
namespace {

using planning::Candidate;
using planning::ConfirmedLegacyKernel;
using planning::Detail;

void WarnIgnored(const std::string& why) {
  WarnOnce("workspace plan", "the workspace plan is ignored: " + why);
}

// Returns why the file cannot be followed on any device; empty if it can.
std::string Conflict(const planning::WorkspacePlan& file, const Options& options) {
  if (file.kernels.empty()) return Sentence(Detail::kWorkspacePlanEmpty);
  if (!options.total_workspace) return {};
  if (!file.total_bytes) return Sentence(Detail::kWorkspacePlanWithoutTotal);
  if (file.reserved_bytes <= *options.total_workspace) return {};
  return Sentence(Detail::kWorkspacePlanTooLarge,
                  {file.reserved_bytes, *options.total_workspace, 0, {}});
}

}  // namespace

FollowedPlan::FollowedPlan(const Options& options, const cudnn::Functions& functions)
    : functions_(functions) {
  if (options.workspace_plan.empty() || options.mode != Mode::kOn) return;
  Result<planning::WorkspacePlan> file = planning::ReadWorkspacePlan(options.workspace_plan);
  std::string why = file.message();
  if (file.ok()) why = Conflict(*file, options);
  if (why.empty()) {
    file_ = std::move(*file);
  } else {
    WarnIgnored(file.ok() ? options.workspace_plan + ": " + why : why);
  }
}

bool FollowedPlan::Follows(const planning::Platform& platform) const {
  return file_ && !ignored_ && file_->device == platform.device && file_->cudnn == platform.cudnn;
}

bool FollowedPlan::Has(const planning::Platform& platform, const ConvolutionProblem& problem,
                       Api api) const {
  return Follows(platform) && file_->Find(problem, api) >= 0;
}

std::optional<std::string> FollowedPlan::Misses(const planning::Platform& platform,
                                                const ConvolutionProblem& problem, Api api) {
  if (!Follows(platform) || file_->Find(problem, api) >= 0) return std::nullopt;
  {
    MutexLock lock(mutex_);
    if (missed_.size() >= kMostKernels || !missed_.insert(problem).second) return std::nullopt;
  }
  const std::vector<int> batches = file_->BatchesOf(problem, api);
  if (batches.empty()) return std::string();
  std::string known;
  for (const int images : batches) {
    known += (images == batches.front() ? "" : ", ") + std::to_string(images);
  }
  return Sentence(Detail::kWorkspacePlanOfOtherBatches, {0, 0, problem.n, known});
}

void FollowedPlan::Ignore(const std::string& why) {
  ignored_ = true;
  WarnIgnored(why);
}

const planning::WorkspacePlan* FollowedPlan::For(const planning::Platform& platform) {
  if (!file_ || ignored_) return nullptr;
  if (!Follows(platform)) {
    const auto name = [](const std::string& device, int cudnn) {
      return "'" + device + "' with cuDNN " + std::to_string(cudnn);
    };
    WarnIgnored("it is for " + name(file_->device, file_->cudnn) + ", and this is " +
                name(platform.device, platform.cudnn));
    return nullptr;
  }
  return &*file_;
}

FollowedPlan::Found FollowedPlan::Find(const planning::Platform& platform, int platform_number,
                                       const ConvolutionProblem& problem, cudnnHandle_t handle) {
  const planning::WorkspacePlan* const file = For(platform);
  const int position = file == nullptr ? -1 : file->Find(problem, Api::kLegacy);
  if (position < 0) return {};
  Entry* entry = nullptr;
  bool again = false;
  {
    MutexLock lock(mutex_);
    entry = &confirmed_[platform_number][problem];
    while (handle != nullptr && entry->state == State::kAsking) answered_.Wait(mutex_);
    if (entry->state == State::kAnswered) return {entry->confirmed.get()};
    again = entry->state == State::kUnanswered;
    if (handle == nullptr) return {nullptr, again};
    entry->state = State::kAsking;
  }
  Found found;
  std::unique_ptr<ConfirmedLegacyKernel> fresh;
  const auto answer = [&](State state) {
    MutexLock lock(mutex_);
    entry->state = state;
    entry->confirmed = std::move(fresh);
    found.confirmed = entry->confirmed.get();
    answered_.NotifyAll();
  };
  try {
    Result<ConfirmedLegacyKernel> confirmed =
        ConfirmKernel(problem, file->kernels[position].configuration, handle, found.unanswered);
    if (confirmed.ok()) {
      confirmed->limit_bytes = file->limit_bytes.value_or(std::numeric_limits<size_t>::max());
      fresh = std::make_unique<ConfirmedLegacyKernel>(std::move(*confirmed));
    } else if (!found.unanswered || !again) {
      found.why = confirmed.message();
    }
  } catch (...) {
    answer(State::kUnanswered);
    throw;
  }
  answer(found.unanswered ? State::kUnanswered : State::kAnswered);
  return found;
}

Result<ConfirmedLegacyKernel> FollowedPlan::ConfirmKernel(const ConvolutionProblem& problem,
                                                          const Configuration& configuration,
                                                          cudnnHandle_t handle,
                                                          bool& unanswered) const {
  cudnn::LegacyEngines engines(functions_, handle);
  const auto listed = engines.List(problem);
  unanswered = !listed.ok();
  UCUDNN_RETURN_IF_ERROR(listed.status());
  ConfirmedLegacyKernel confirmed;
  std::vector<MicroConfiguration> rows;
  for (const auto& [choice, piece] : *listed) {
    rows.push_back({choice.engine, problem.n, static_cast<double>(rows.size()),
                    choice.workspace_bytes, choice.deterministic});
  }
  confirmed.candidates = planning::OwnMathCandidates(problem, rows);
  for (const Run& run : configuration.runs) {
    const EngineId::Legacy* const engine = run.micro.engine.legacy();
    if (engine == nullptr || engine->math) {
      return Status::Error(NameOfPiece(problem.operation, run.micro) +
                           ": the library has no such engine");
    }
  }
  ConfirmedConfiguration answer = ConfirmConfiguration(
      problem, configuration, std::vector<cudnn::Engines*>(configuration.runs.size(), &engines));
  unanswered = answer.unanswered;
  UCUDNN_RETURN_IF_ERROR(answer.status);
  confirmed.configuration = std::move(answer.configuration);
  for (size_t at = 0; at < confirmed.configuration.runs.size(); ++at) {
    const MicroConfiguration& micro = confirmed.configuration.runs[at].micro;
    std::erase_if(confirmed.candidates, [&](const Candidate& other) {
      return other.micro.engine == micro.engine && other.micro.micro_batch == micro.micro_batch &&
             other.micro.tile == micro.tile;
    });
    confirmed.candidates.push_back({micro, answer.numeric[at]});
  }
  const Candidate* largest = nullptr;
  for (const Candidate& candidate : confirmed.candidates) {
    if (candidate.micro == confirmed.configuration.Largest()) largest = &candidate;
  }
  if (largest != nullptr) confirmed.largest = largest->numeric;
  return confirmed;
}

}  // namespace ucudnn::interposer
