#include "interposer/pinned_kernels.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "convolution/partial_sums.h"
#include "cudnn/legacy_engines.h"
#include "interposer/promise_book.h"

namespace ucudnn::interposer {
namespace {

using planning::Candidate;

void WarnIgnored(const std::string& why) {
  WarnOnce("plan file", "the plan file is ignored: " + why);
}

// Why the file cannot be followed whatever the device; empty: it can.
std::string Conflict(const planning::PinnedPlan& file, const Options& options) {
  if (file.kernels.empty()) return "it pins no kernel";
  if (!options.total_workspace) return {};
  if (!file.total_bytes) return "it has no total_bytes, and a total workspace is set";
  if (file.reserved_bytes <= *options.total_workspace) return {};
  return "its segments take " + std::to_string(file.reserved_bytes) +
         " bytes, more than the total workspace of " + std::to_string(*options.total_workspace);
}

std::string ForImages(const std::string& engine, int images) {
  return engine + " for " + std::to_string(images) + " images";
}

}  // namespace

PinnedKernels::PinnedKernels(const Options& options, const cudnn::Functions& functions)
    : functions_(functions) {
  if (options.plan.empty() || options.mode != Mode::kOn) return;
  Result<planning::PinnedPlan> file = planning::ReadPinnedPlan(options.plan);
  std::string why = file.message();
  if (file.ok()) why = Conflict(*file, options);
  if (why.empty()) {
    file_ = std::move(*file);
  } else {
    WarnIgnored(file.ok() ? options.plan + ": " + why : why);
  }
}

bool PinnedKernels::Follows(const planning::Platform& platform) const {
  return file_ && !ignored_ && file_->device == platform.device && file_->cudnn == platform.cudnn;
}

bool PinnedKernels::Has(const planning::Platform& platform, const ConvolutionProblem& problem,
                        bool legacy) const {
  return Follows(platform) && file_->Find(problem, legacy) >= 0;
}

std::optional<std::string> PinnedKernels::Misses(const planning::Platform& platform,
                                                 const ConvolutionProblem& problem, bool legacy) {
  if (!Follows(platform) || file_->Find(problem, legacy) >= 0) return std::nullopt;
  {
    std::lock_guard lock(mutex_);
    if (missed_.size() >= kMostKernels || !missed_.insert(problem).second) return std::nullopt;
  }
  const std::vector<int> batches = file_->BatchesOf(problem, legacy);
  if (batches.empty()) return std::string();
  std::string words = "it has it for ";
  for (const int images : batches) {
    words += (images == batches.front() ? "" : ", ") + std::to_string(images);
  }
  return words + " images, not for " + std::to_string(problem.n);
}

void PinnedKernels::Ignore(const std::string& why) {
  ignored_ = true;
  WarnIgnored(why);
}

const planning::PinnedPlan* PinnedKernels::For(const planning::Platform& platform) {
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

PinnedKernels::Found PinnedKernels::Find(const planning::Platform& platform, int platform_number,
                                         const ConvolutionProblem& problem, cudnnHandle_t handle) {
  const planning::PinnedPlan* const file = For(platform);
  const int position = file == nullptr ? -1 : file->Find(problem, true);
  if (position < 0) return {};
  std::unique_lock lock(mutex_);
  Entry& entry = confirmed_[platform_number][problem];
  if (handle != nullptr) {
    answered_.wait(lock, [&] { return entry.state != State::kAsking; });
  }
  if (entry.state == State::kAnswered) return {entry.pinned.get()};
  if (handle == nullptr) return {nullptr, entry.state == State::kUnanswered};
  const bool again = entry.state == State::kUnanswered;
  entry.state = State::kAsking;
  lock.unlock();
  Found found;
  std::unique_ptr<Pinned> fresh;
  try {
    Result<Pinned> pinned =
        Confirm(problem, file->kernels[position].plan, handle, found.unanswered);
    if (pinned.ok()) {
      pinned->limit_bytes = file->limit_bytes.value_or(std::numeric_limits<size_t>::max());
      fresh = std::make_unique<Pinned>(std::move(*pinned));
    } else if (!found.unanswered || !again) {
      found.why = pinned.message();
    }
  } catch (...) {
    lock.lock();
    entry.state = State::kUnanswered;
    answered_.notify_all();
    throw;
  }
  lock.lock();
  entry.state = found.unanswered ? State::kUnanswered : State::kAnswered;
  entry.pinned = std::move(fresh);
  found.pinned = entry.pinned.get();
  answered_.notify_all();
  return found;
}

Result<PinnedKernels::Pinned> PinnedKernels::Confirm(const ConvolutionProblem& problem,
                                                     const Configuration& plan,
                                                     cudnnHandle_t handle, bool& unanswered) const {
  cudnn::LegacyEngines engines(functions_, handle);
  const auto ask = [&](int images) -> Result<std::vector<cudnn::EngineChoice>> {
    ConvolutionProblem part = problem;
    part.n = images;
    const auto prepared = engines.Prepare(part);
    auto choices = prepared.ok() ? (*prepared)->Engines()
                                 : Result<std::vector<cudnn::EngineChoice>>(prepared.status());
    unanswered |= !choices.ok();
    return choices;
  };
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<cudnn::EngineChoice> wholes, ask(problem.n));
  Pinned pinned;
  std::vector<MicroConfiguration> rows;
  for (const cudnn::EngineChoice& whole : wholes) {
    rows.push_back({whole.engine, problem.n, static_cast<double>(rows.size()),
                    whole.workspace_bytes, whole.deterministic});
  }
  pinned.candidates = cudnn::OwnMathCandidates(problem, rows);
  pinned.plan = plan;
  const int step = LegalStep(problem);
  for (Run& run : pinned.plan.runs) {
    MicroConfiguration& micro = run.micro;
    const std::string piece = ForImages(micro.engine, micro.micro_batch);
    const bool last = &run == &pinned.plan.runs.back() && run.count == 1;
    if (micro.micro_batch % step != 0 && !last) {
      return Status::Error(piece + ": pieces here have a multiple of " + std::to_string(step));
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<cudnn::EngineChoice> choices, ask(micro.micro_batch));
    const auto choice = std::find_if(
        choices.begin(), choices.end(),
        [&](const cudnn::EngineChoice& other) { return other.engine == micro.engine; });
    const auto engine = cudnn::ParseLegacyEngine(micro.engine);
    if (choice == choices.end() || !engine || engine->math) {
      return Status::Error(piece + ": the library has no such engine");
    }
    MicroConfiguration needed = {micro.engine, micro.micro_batch, micro.time_ms,
                                 choice->workspace_bytes, choice->deterministic};
    if (IsPartial(problem, micro.micro_batch)) {
      needed = AsPartial(problem, std::move(needed), 0);
    }
    if (needed.workspace_bytes > micro.workspace_bytes) {
      return Status::Error(piece + " needs " + std::to_string(needed.workspace_bytes) +
                           " bytes of workspace, not " + std::to_string(micro.workspace_bytes));
    }
    micro = needed;
    std::erase_if(pinned.candidates, [&](const Candidate& other) {
      return other.micro.engine == micro.engine && other.micro.micro_batch == micro.micro_batch;
    });
    pinned.candidates.push_back({micro, choice->numeric});
  }
  const Candidate* largest = nullptr;
  for (const Candidate& candidate : pinned.candidates) {
    if (candidate.micro == pinned.plan.Largest()) largest = &candidate;
  }
  if (largest != nullptr) pinned.lead = largest->numeric;
  return pinned;
}

}  // namespace ucudnn::interposer
