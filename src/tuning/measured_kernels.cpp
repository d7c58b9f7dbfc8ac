#include "tuning/measured_kernels.h"

#include <algorithm>
#include <functional>

#include "base/log.h"
#include "planning/micro_batch_sizes.h"

namespace ucudnn::tuning {
namespace {

bool HasSize(const std::vector<planning::Measurement>& known, int size) {
  return std::any_of(known.begin(), known.end(), [&](const planning::Measurement& measurement) {
    return measurement.micro.micro_batch == size;
  });
}

}  // namespace

size_t MeasuredKernels::FamilyHash::operator()(const Family& family) const {
  return family.problem.Hash() ^ std::hash<std::string>()(family.platform.device);
}

void MeasuredKernels::Load(const Family& family, Measurements& known) {
  if (store_ == nullptr) return;
  Result<Measurements> stored = store_->Read(family.problem, family.platform);
  if (!stored.ok()) {
    WarnOnce("store read", "stored measurements cannot be read: " + stored.message());
    return;
  }
  known = std::move(*stored);
}

Status MeasuredKernels::Measure(const Device& device, const ConvolutionProblem& problem,
                                const std::vector<int>& sizes, Measurements& known) {
  Log(LogLevel::kInfo, "measuring " + Describe(problem));
  UCUDNN_ASSIGN_OR_RETURN(const Measurements fresh, MeasureEngines(device, problem, sizes));
  measured_ += static_cast<long>(fresh.size());
  // Another process may have measured the same meanwhile. The first to write wins, so that
  // processes which share a store plan from the same numbers.
  Measurements stored;
  if (store_ != nullptr) {
    const Status written = store_->Write(problem, device.platform, fresh);
    if (written.ok()) {
      Load({KernelFamily(problem), device.platform}, stored);
    } else {
      WarnOnce("store write", "measurements cannot be stored: " + written.message());
    }
  }
  for (const Measurements* rows : {static_cast<const Measurements*>(&stored), &fresh}) {
    for (const int size : sizes) {
      if (HasSize(known, size)) continue;
      std::copy_if(rows->begin(), rows->end(), std::back_inserter(known),
                   [&](const planning::Measurement& row) { return row.micro.micro_batch == size; });
    }
  }
  return Status::Ok();
}

Result<std::vector<MicroConfiguration>> MeasuredKernels::Get(const Device& device,
                                                             const ConvolutionProblem& problem,
                                                             BatchSizePolicy policy,
                                                             bool may_measure) {
  const std::vector<int> sizes = planning::MicroBatchSizes(
      MayDivide(problem) ? policy : BatchSizePolicy::kUndivided, problem.n, LegalStep(problem));
  const Family family{KernelFamily(problem), device.platform};
  std::lock_guard lock(mutex_);
  auto [entry, fresh] = known_.try_emplace(family);
  Measurements& known = entry->second;
  if (fresh) Load(family, known);

  std::vector<int> missing;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(missing),
               [&](int size) { return !HasSize(known, size); });
  Status status = Status::Error("not measured: " + Describe(problem));
  if (!missing.empty() && may_measure) status = Measure(device, problem, missing, known);

  std::vector<MicroConfiguration> found;
  for (const planning::Measurement& measurement : known) {
    const int size = measurement.micro.micro_batch;
    if (std::binary_search(sizes.begin(), sizes.end(), size)) found.push_back(measurement.micro);
  }
  if (!HasSize(known, problem.n)) {
    return status.ok() ? Status::Error("no engine runs it") : status;
  }
  return found;
}

}  // namespace ucudnn::tuning
