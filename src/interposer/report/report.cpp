#include "interposer/report/report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/file_size_limit.h"
#include "base/folders.h"
#include "base/version.h"
#include "convolution/json_kernel.h"
#include "convolution/tiles.h"
#include "interposer/report/json_text.h"
#include "interposer/session/lanes.h"

namespace ucudnn::interposer {
namespace {

// The file is rewritten for each of the first kWholeReports records, and later whenever one of
// kShare records is new.
constexpr size_t kWholeReports = 512;
constexpr size_t kShare = 16;

using json::Array;
using json::Fields;
using json::Object;
using json::Scalar;

std::string TimeText(double time_ms) { return time_ms < 0 ? "null" : Scalar(time_ms); }

std::string PlanText(const Division& division, int depth) {
  std::vector<std::string> runs;
  for (size_t run = 0; run < division.configuration.runs.size(); ++run) {
    runs.push_back(Object(RunMembers(division, run), depth + 1));
  }
  return Array(runs, depth);
}

// Returns the division that runs, with its tiles if it has any.
Division DivisionIn(const KernelRecord& record) {
  auto division = DivisionOf(record.problem, record.configuration);
  return division.ok() ? std::move(*division) : Division(record.configuration);
}

// Returns the time of the whole mini-batch as JSON; null if the time of a piece is unknown.
std::string TotalText(const Configuration& configuration) {
  const bool unknown = std::any_of(configuration.runs.begin(), configuration.runs.end(),
                                   [](const Run& run) { return run.micro.time_ms < 0; });
  return unknown ? "null" : Scalar(configuration.TimeMs());
}

std::string UndividedText(const MicroConfiguration& undivided, int depth) {
  if (undivided.engine.empty()) return "null";
  return Object({{"engine", Scalar(undivided.engine.Text())},
                 {"workspace_bytes", Scalar(undivided.workspace_bytes)},
                 {"total_ms", TimeText(undivided.time_ms)}},
                depth);
}

// Formats the numbers of `lanes` in one line, counted among `all` lanes that any kernel was on.
// Lanes::kOthers keeps its number.
std::string LanesText(uint64_t lanes, uint64_t all) {
  std::string text;
  for (int lane = 0; lane <= Lanes::kOthers; ++lane) {
    const uint64_t bit = uint64_t{1} << lane;
    if ((lanes & bit) == 0) continue;
    const int number = lane == Lanes::kOthers ? lane : std::popcount(all & (bit - 1));
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return "[" + text + "]";
}

// `names` are the names of the layers that the kernel belongs to; null: it has none. `lanes` are
// the lanes of all kernels.
std::string KernelText(const CountedKernel& kernel, const std::set<std::string>* names,
                       uint64_t lanes, int depth) {
  const KernelRecord& record = kernel.record;
  Fields fields = {{"op", Scalar(OperationName(record.problem.operation))},
                   {"problem", json::Problem(record.problem, depth + 1)},
                   {"api", Scalar(record.api)},
                   {"calls", Scalar(kernel.calls.load())},
                   {"undivided_calls", Scalar(kernel.undivided_calls.load())},
                   {"lanes", LanesText(kernel.lanes & lanes, lanes)},
                   {"asked", Scalar(record.asked.Text())},
                   {"limit_bytes", Scalar(record.limit_bytes)},
                   {"workspace_bytes", Scalar(record.workspace_bytes)},
                   {"owned_workspace_bytes", Scalar(record.owned_bytes)},
                   {"plan", PlanText(DivisionIn(record), depth + 1)},
                   {"total_ms", TotalText(record.configuration)},
                   {"undivided", UndividedText(record.baselines.own_api, depth + 1)},
                   {"best_undivided", UndividedText(record.baselines.any_api, depth + 1)},
                   {"reason", Scalar(record.reason)}};
  if (record.steps > 0) fields.emplace_back("graph_nodes", Scalar(record.steps));
  if (names != nullptr) {
    std::vector<std::string> texts;
    for (const std::string& name : *names) texts.push_back(Scalar(name));
    fields.insert(fields.begin(), {"layers", Array(texts, depth + 1)});
  }
  return Object(fields, depth);
}

Fields BudgetFields(const BudgetRecord& budget) {
  return {{"total_bytes", Scalar(budget.total_bytes)},
          {"planned_bytes", Scalar(budget.planned_bytes)},
          {"division", Scalar(budget.division)},
          {"divided", Scalar(budget.divided)},
          {"kernels", Scalar(budget.kernels)},
          {"total_workspace_bytes", Scalar(budget.total_workspace_bytes)},
          {"capture_bytes", Scalar(budget.capture_bytes)},
          {"solver", *budget.solver != '\0' ? Scalar(budget.solver) : "null"},
          {"optimal", budget.optimal ? Scalar(*budget.optimal) : "null"}};
}

// Returns the budget of the device with the most kernels; other devices that hold memory follow as
// other_devices.
std::string BudgetsText(const std::vector<std::pair<const void*, BudgetRecord>>& budgets) {
  const auto rank = [](const auto& a, const auto& b) {
    return std::pair(a.second.kernels, a.second.total_workspace_bytes) <
           std::pair(b.second.kernels, b.second.total_workspace_bytes);
  };
  const auto first = std::max_element(budgets.begin(), budgets.end(), rank);
  Fields fields = BudgetFields(first->second);
  std::vector<std::string> others;
  for (auto other = budgets.begin(); other != budgets.end(); ++other) {
    const BudgetRecord& budget = other->second;
    if (other == first || (budget.kernels == 0 && budget.total_workspace_bytes == 0)) continue;
    others.push_back(Object(BudgetFields(budget), 3));
  }
  if (!others.empty()) fields.emplace_back("other_devices", Array(others, 2));
  return Object(fields, 1);
}

std::string ExpandPid(std::string path) {
  const std::string pid = std::to_string(getpid());
  for (size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at)) {
    path.replace(at, 2, pid);
    at += pid.size();
  }
  return path;
}

Status WriteAll(int descriptor, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(descriptor, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Status::Error(std::strerror(errno));
    done += static_cast<size_t>(written);
  }
  return Status::Ok();
}

}  // namespace

CountedKernel* Report::Record(KernelRecord record, CountedKernel* earlier, bool& fresh) {
  MutexLock lock(mutex_);
  // The limit is part of the hash because some callers pass another workspace size at every call.
  const size_t hash = record.problem.Hash() ^ record.limit_bytes * 0x9e3779b97f4a7c15u;
  CountedKernel* kernel = nullptr;
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto entry = first; entry != last; ++entry) {
    if (entry->second->record == record) kernel = entry->second;
  }
  fresh = false;
  if (kernel == nullptr) {
    kernel = &kernels_.emplace_back();
    kernel->record = std::move(record);
    by_hash_.emplace(hash, kernel);
    ++unwritten_;
    fresh = kernels_.size() <= kWholeReports || unwritten_ >= kernels_.size() / kShare;
    if (fresh) unwritten_ = 0;
  }
  kernel->replaced = false;
  if (earlier != nullptr && earlier != kernel) {
    kernel->calls += earlier->calls.exchange(0);
    kernel->undivided_calls += earlier->undivided_calls.exchange(0);
    kernel->lanes |= earlier->lanes.exchange(0);
    earlier->replaced = true;
  }
  return kernel;
}

void Report::AddFallback(const std::string& kernel, const std::string& cause) {
  MutexLock lock(mutex_);
  ++fallbacks_[{kernel, cause}];
}

bool Report::NameLayer(const ConvolutionProblem& problem, const std::string& name) {
  MutexLock lock(mutex_);
  return layers_.Add(problem, name);
}

void Report::NameLayers(LayerNames names) {
  MutexLock lock(mutex_);
  layers_ = std::move(names);
}

std::optional<KernelRecord> Report::Find(const ConvolutionProblem& problem) {
  MutexLock lock(mutex_);
  for (auto kernel = kernels_.rbegin(); kernel != kernels_.rend(); ++kernel) {
    const KernelRecord& record = kernel->record;
    if (!kernel->replaced && record.problem == problem &&
        std::string_view(record.api) == "legacy") {
      return record;
    }
  }
  return std::nullopt;
}

Totals Report::Count() {
  MutexLock lock(mutex_);
  Totals totals;
  for (const CountedKernel& kernel : kernels_) {
    const long calls = kernel.calls;
    if (kernel.replaced && calls == 0) continue;
    const bool divided = kernel.record.configuration.Pieces() > 1;
    ++totals.kernels;
    totals.calls += calls;
    if (divided) ++totals.divided_kernels;
    if (divided) totals.divided_calls += std::max(0L, calls - kernel.undivided_calls);
  }
  for (const auto& [what, count] : fallbacks_) totals.fallbacks += count;
  return totals;
}

void Report::SetPlatform(const planning::Platform& platform) {
  MutexLock lock(mutex_);
  platform_ = platform;
}

void Report::SetSpatial(SpatialRecord spatial) {
  MutexLock lock(mutex_);
  spatial_ = std::move(spatial);
}

void Report::SetBudget(const void* device, const BudgetRecord& budget) {
  MutexLock lock(mutex_);
  for (auto& [known, record] : budgets_) {
    if (known != device) continue;
    record = budget;
    return;
  }
  budgets_.emplace_back(device, budget);
}

bool Report::empty() {
  MutexLock lock(mutex_);
  return kernels_.empty() && fallbacks_.empty();
}

std::string Report::Json(const char* mode, long measured) {
  MutexLock lock(mutex_);
  std::vector<std::string> kernels, fallbacks;
  uint64_t lanes = 0;
  for (const CountedKernel& kernel : kernels_) lanes |= kernel.lanes;
  for (const CountedKernel& kernel : kernels_) {
    if (kernel.replaced && kernel.calls == 0) continue;
    kernels.push_back(KernelText(kernel, layers_.Find(kernel.record.problem), lanes, 2));
  }
  for (const auto& [what, count] : fallbacks_) {
    fallbacks.push_back(Object(
        {{"kernel", Scalar(what.first)}, {"cause", Scalar(what.second)}, {"count", Scalar(count)}},
        2));
  }
  Fields fields = {{"format", Scalar("ucudnn-report")},  {"version", Scalar(kReportVersion)},
                   {"ucudnn", Scalar(kVersion)},         {"cudnn", Scalar(platform_.cudnn)},
                   {"device", Scalar(platform_.device)}, {"mode", Scalar(mode)},
                   {"measured", Scalar(measured)}};
  if (!budgets_.empty()) fields.emplace_back("total_workspace", BudgetsText(budgets_));
  if (spatial_) fields.emplace_back("spatial", SpatialText(*spatial_));
  fields.emplace_back("kernels", Array(kernels, 1));
  fields.emplace_back("fallbacks", Array(fallbacks, 1));
  return Object(fields, 0) + "\n";
}

Status Report::Write(const std::string& path, const char* mode, long measured) {
  const std::string target = ExpandPid(path);
  struct stat info;
  // The rename would replace a device or a pipe by a file.
  if (stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return Status::Error(target + ": not a regular file");
  }
  if (const Status folders = CreateFoldersAbove(target, 0777); !folders.ok()) {
    return Status::Error(target + ": " + folders.message());
  }
  std::string temporary = target + ".XXXXXX";
  const std::string text = Json(mode, measured);
  const FileSizeLimitScope within_the_limit;
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return Status::Error(target + ": " + std::strerror(errno));
  Status status = fchmod(descriptor, 0644) == 0 ? WriteAll(descriptor, text)
                                                : Status::Error(std::strerror(errno));
  if (close(descriptor) != 0 && status.ok()) status = Status::Error(std::strerror(errno));
  if (status.ok() && std::rename(temporary.c_str(), target.c_str()) != 0) {
    status = Status::Error(std::strerror(errno));
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return Status::Error(target + ": " + status.message());
  }
  return Status::Ok();
}

}  // namespace ucudnn::interposer
