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
#include "base/json_members.h"
#include "base/version.h"
#include "convolution/tiles.h"
#include "interposer/session/lanes.h"

namespace ucudnn::interposer {
namespace {

// The file is rewritten for each of the first kWholeReports records. Later, it is rewritten
// whenever at least one in kShare of all records is not in the file yet.
constexpr size_t kWholeReports = 512;
constexpr size_t kShare = 16;

// Returns the division of the record's configuration, with its tiles if it has any.
Division DivisionIn(const KernelRecord& record) {
  auto division = DivisionOf(record.problem, record.configuration);
  return division.ok() ? std::move(*division) : Division(record.configuration);
}

// Returns the time of the whole mini-batch; none if the time of one of its pieces is unknown.
std::optional<double> TotalMs(const Configuration& configuration) {
  const bool unknown = std::any_of(configuration.runs.begin(), configuration.runs.end(),
                                   [](const Run& run) { return run.micro.time_ms < 0; });
  return unknown ? std::nullopt : std::optional(configuration.TimeMs());
}

// Renumbers `lanes` among `all`, the lanes of all kernels, so that the lanes in use have the lowest
// bits. Lanes::kOthers keeps its bit.
uint64_t NumberedAmong(uint64_t all, uint64_t lanes) {
  uint64_t numbered = lanes & (uint64_t{1} << Lanes::kOthers);
  for (uint64_t rest = lanes & ~numbered; rest != 0; rest &= rest - 1) {
    numbered |= uint64_t{1} << std::popcount(all & ((rest & -rest) - 1));
  }
  return numbered;
}

// Returns the kernel in the form of the report. `names` are the names of its layers (null: none);
// `lanes` are the lanes of all kernels.
ReportedKernel Reported(const CountedKernel& kernel, const std::set<std::string>* names,
                        uint64_t lanes) {
  ReportedKernel told;
  static_cast<KernelRecord&>(told) = kernel.record;
  if (names != nullptr) told.layers.assign(names->begin(), names->end());
  told.calls = kernel.calls;
  told.undivided_calls = kernel.undivided_calls;
  told.lanes = NumberedAmong(lanes, kernel.lanes & lanes);
  told.division = DivisionIn(kernel.record);
  told.plan_ms = TotalMs(kernel.record.configuration);
  return told;
}

// Returns the figures of the device with the most kernels. The member other_devices lists all other
// devices whose budgets have kernels or hold memory.
ReportedBudget Joined(const std::vector<std::pair<const void*, ReportedBudget>>& budgets) {
  const auto rank = [](const auto& a, const auto& b) {
    return std::pair(a.second.kernels, a.second.total_workspace_bytes) <
           std::pair(b.second.kernels, b.second.total_workspace_bytes);
  };
  const auto first = std::max_element(budgets.begin(), budgets.end(), rank);
  ReportedBudget joined = first->second;
  for (auto other = budgets.begin(); other != budgets.end(); ++other) {
    const ReportedBudget& budget = other->second;
    const bool holds_any = budget.kernels > 0 || budget.total_workspace_bytes.value_or(0) > 0;
    if (other != first && holds_any) joined.other_devices.push_back(budget);
  }
  return joined;
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
  // The hash includes the limit, because some callers pass another workspace size at every call.
  // One problem then has many records.
  const size_t hash = record.problem.Hash() ^ record.limit_bytes.value_or(0) * 0x9e3779b97f4a7c15u;
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
    if (!kernel->replaced && record.problem == problem && record.api == "legacy") {
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

void Report::SetSplit(SplitJob job) {
  MutexLock lock(mutex_);
  split_ = std::move(job);
}

void Report::SetBudget(const void* device, const ReportedBudget& budget) {
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
  RunReport told;
  told.ucudnn = kVersion;
  told.cudnn = platform_.cudnn;
  told.device = platform_.device;
  told.mode = mode;
  told.measured = measured;
  if (!budgets_.empty()) told.budget = Joined(budgets_);
  told.split = split_;
  uint64_t lanes = 0;
  for (const CountedKernel& kernel : kernels_) lanes |= kernel.lanes;
  for (const CountedKernel& kernel : kernels_) {
    if (kernel.replaced && kernel.calls == 0) continue;
    told.kernels.push_back(Reported(kernel, layers_.Find(kernel.record.problem), lanes));
  }
  for (const auto& [what, count] : fallbacks_) {
    told.fallbacks.push_back({what.first, what.second, count});
  }
  return json::Write(told, 0) + "\n";
}

Status Report::Write(const std::string& path, const char* mode, long measured) {
  const std::string target = ExpandPid(path);
  struct stat info;
  // Renaming would replace a device or a pipe by a regular file.
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
