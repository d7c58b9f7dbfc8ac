#include "interposer/report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "convolution/columns.h"

namespace ucudnn::interposer {
namespace {

using Json = nlohmann::ordered_json;

// A layer column as JSON: a number where it is one, text otherwise.
Json FieldJson(const std::string& text) {
  const bool number = !text.empty() && text.find_first_not_of("-0123456789") == std::string::npos;
  if (number) return std::stoll(text);
  return text;
}

Json ProblemJson(const ConvolutionProblem& problem) {
  Json json = {{"n", problem.n}};
  for (const auto& [column, text] : ToColumns(problem)) {
    if (!text.empty() && column != "op" && column != "n") json[column] = FieldJson(text);
  }
  return json;
}

Json TimeJson(double time_ms) { return time_ms < 0 ? Json(nullptr) : Json(time_ms); }

Json PlanJson(const Configuration& plan) {
  Json runs = Json::array();
  for (const Run& run : plan.runs) {
    runs.push_back({{"engine", run.micro.engine},
                    {"micro_batch", run.micro.micro_batch},
                    {"count", run.count},
                    {"workspace_bytes", run.micro.workspace_bytes},
                    {"time_ms", TimeJson(run.micro.time_ms)}});
  }
  return runs;
}

Json KernelJson(const CountedKernel& kernel) {
  const KernelRecord& record = kernel.record;
  Json json = {{"op", OperationName(record.problem.operation)},
               {"problem", ProblemJson(record.problem)},
               {"api", "legacy"},
               {"calls", kernel.calls.load()},
               {"limit_bytes", record.limit_bytes},
               {"workspace_bytes", record.workspace_bytes},
               {"library_bytes", 0},
               {"plan", PlanJson(record.plan)},
               {"undivided", nullptr},
               {"reason", record.reason}};
  if (!record.undivided.engine.empty()) {
    json["undivided"] = {{"engine", record.undivided.engine},
                         {"workspace_bytes", record.undivided.workspace_bytes},
                         {"time_ms", TimeJson(record.undivided.time_ms)}};
  }
  return json;
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

CountedKernel* Report::Record(KernelRecord record, bool& fresh) {
  std::lock_guard lock(mutex_);
  const auto equal = std::find_if(kernels_.begin(), kernels_.end(),
                                  [&](const CountedKernel& old) { return old.record == record; });
  fresh = equal == kernels_.end();
  if (!fresh) return &*equal;
  CountedKernel& kernel = kernels_.emplace_back();
  kernel.record = std::move(record);
  return &kernel;
}

void Report::AddFallback(const std::string& kernel, const std::string& cause) {
  std::lock_guard lock(mutex_);
  ++fallbacks_[{kernel, cause}];
}

void Report::SetPlatform(const planning::Platform& platform) {
  std::lock_guard lock(mutex_);
  platform_ = platform;
}

bool Report::empty() {
  std::lock_guard lock(mutex_);
  return kernels_.empty() && fallbacks_.empty();
}

std::string Report::Json(const char* mode, long measured) {
  std::lock_guard lock(mutex_);
  interposer::Json json = {{"format", "ucudnn-report"},
                           {"version", 1},
                           {"ucudnn", kVersion},
                           {"cudnn", platform_.cudnn},
                           {"device", platform_.device},
                           {"mode", mode},
                           {"measured", measured},
                           {"kernels", interposer::Json::array()},
                           {"fallbacks", interposer::Json::array()}};
  for (const CountedKernel& kernel : kernels_) json["kernels"].push_back(KernelJson(kernel));
  for (const auto& [what, count] : fallbacks_) {
    json["fallbacks"].push_back({{"kernel", what.first}, {"cause", what.second}, {"count", count}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Status Report::Write(const std::string& path, const char* mode, long measured) {
  const std::string target = ExpandPid(path);
  std::string temporary = target + ".XXXXXX";
  const std::string text = Json(mode, measured);
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
