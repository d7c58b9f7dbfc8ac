#include "planning/measurement_store.h"

#include <limits>

#include "base/text.h"

namespace ucudnn::planning {
namespace {

Status CannotBeKept(const std::string& why) {
  return Status::Error("a promise cannot be kept: " + why);
}

}  // namespace

Result<std::vector<KernelMeasurements>> MeasurementStore::ReadAll(
    const std::vector<ConvolutionProblem>& problems, const Platform& platform) {
  std::vector<KernelMeasurements> all;
  for (const ConvolutionProblem& problem : problems) {
    UCUDNN_ASSIGN_OR_RETURN(all.emplace_back(), Read(problem, platform));
  }
  return all;
}

Result<std::optional<std::string>> MeasurementStore::FindNote(const ConvolutionProblem&,
                                                              const Platform&, const std::string&) {
  return std::optional<std::string>();
}

Status MeasurementStore::KeepNote(const ConvolutionProblem&, const Platform&, const std::string&,
                                  const std::string&) {
  return Status::Ok();
}

Status CheckPromiseKey(const EnginePromise& promise) {
  for (const std::string& text :
       {promise.platform.device, promise.engine.Text(), promise.undivided.Text()}) {
    if (text.find('\0') != std::string::npos) {
      return CannotBeKept(Quoted(text) + " holds a NUL byte");
    }
  }
  if (promise.engine.empty()) return CannotBeKept("its engine has no name");
  if (promise.problem.n < 1) {
    return CannotBeKept("a mini-batch of " + std::to_string(promise.problem.n));
  }
  if (promise.limit_bytes > static_cast<size_t>(std::numeric_limits<int64_t>::max())) {
    return CannotBeKept("a limit of " + std::to_string(promise.limit_bytes) + " bytes");
  }
  return Status::Ok();
}

Status CheckPromise(const EnginePromise& promise) {
  UCUDNN_RETURN_IF_ERROR(CheckPromiseKey(promise));
  if (promise.workspace_bytes > promise.limit_bytes) {
    return CannotBeKept(std::to_string(promise.workspace_bytes) + " bytes exceed the limit of " +
                        std::to_string(promise.limit_bytes));
  }
  return Status::Ok();
}

}  // namespace ucudnn::planning
