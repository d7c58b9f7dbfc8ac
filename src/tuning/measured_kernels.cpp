#include "tuning/measured_kernels.h"

#include <algorithm>
#include <functional>

#include "base/log.h"
#include "planning/micro_batch_sizes.h"

namespace ucudnn::tuning {
size_t MeasuredKernels::FamilyHash::operator()(const Family& family) const {
  return family.problem.Hash() ^ std::hash<std::string>()(family.platform.device);
}

Result<MeasuredKernels::Measurements> MeasuredKernels::Read(const Family& family) {
  if (store_ == nullptr) return Measurements{};
  Result<Measurements> stored = store_->Read(family.problem, family.platform);
  if (!stored.ok()) {
    WarnOnce("store read", "stored measurements cannot be read: " + stored.message());
  }
  return stored;
}

MeasuredKernels::Known& MeasuredKernels::Meet(const Family& family) {
  {
    std::lock_guard lock(mutex_);
    if (const auto entry = known_.find(family); entry != known_.end()) return entry->second;
  }
  Known fresh;
  if (Result<Measurements> stored = Read(family); stored.ok()) fresh.rows = std::move(*stored);
  for (const planning::Measurement& row : fresh.rows) {
    fresh.sizes[row.micro.micro_batch] = SizeState::kMeasured;
  }
  std::lock_guard lock(mutex_);
  return known_.try_emplace(family, std::move(fresh)).first->second;
}

std::vector<int> MeasuredKernels::Missing(const Known& known, const std::vector<int>& sizes) {
  std::lock_guard lock(mutex_);
  std::vector<int> missing;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(missing),
               [&](int size) { return !known.sizes.contains(size); });
  return missing;
}

Status MeasuredKernels::Measure(const Device& device, const ConvolutionProblem& problem,
                                const std::vector<int>& sizes, Known& known) {
  Log(LogLevel::kInfo, "measuring " + Describe(problem));
  Result<EngineMeasurements> fresh = MeasureEngines(device, problem, sizes);
  std::map<int, SizeState> states;
  for (const int size : sizes) states[size] = SizeState::kFailed;
  Measurements rows;
  if (fresh.ok()) {
    measured_ += static_cast<long>(fresh->measurements.size());
    rows = std::move(fresh->measurements);
    for (const planning::Measurement& row : rows) {
      states[row.micro.micro_batch] = SizeState::kMeasured;
    }
    for (const int size : fresh->scarce_sizes) states[size] = SizeState::kScarce;
  }
  const auto complete = [&](const planning::Measurement& row) {
    const auto state = states.find(row.micro.micro_batch);
    return state != states.end() && state->second == SizeState::kMeasured;
  };
  Measurements storable;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(storable), complete);
  if (store_ != nullptr && !storable.empty()) {
    const Status written = store_->Write(problem, device.platform, storable);
    if (!written.ok()) {
      WarnOnce("store write", "measurements cannot be stored: " + written.message());
    } else if (Result<Measurements> stored = Read({KernelFamily(problem), device.platform});
               stored.ok()) {
      // Another process may have measured the same meanwhile. The first to write wins, so that
      // processes which share a store plan from the same numbers.
      std::erase_if(rows, complete);
      std::copy_if(stored->begin(), stored->end(), std::back_inserter(rows), complete);
    }
  }
  std::lock_guard lock(mutex_);
  known.rows.insert(known.rows.end(), rows.begin(), rows.end());
  known.sizes.insert(states.begin(), states.end());
  return fresh.status();
}

Result<std::vector<MicroConfiguration>> MeasuredKernels::Get(const Device& device,
                                                             const ConvolutionProblem& problem,
                                                             BatchSizePolicy policy,
                                                             bool may_measure) {
  const std::vector<int> sizes = planning::MicroBatchSizes(
      MayDivide(problem) ? policy : BatchSizePolicy::kUndivided, problem.n, LegalStep(problem));
  Known& known = Meet({KernelFamily(problem), device.platform});
  Status status = Status::Ok();
  if (may_measure && !Missing(known, sizes).empty()) {
    std::lock_guard lock(measuring_mutex_);
    // Another thread may have measured them while this one waited.
    const std::vector<int> missing = Missing(known, sizes);
    if (!missing.empty()) status = Measure(device, problem, missing, known);
  }

  std::lock_guard lock(mutex_);
  std::vector<MicroConfiguration> found;
  bool undivided = false;
  for (const planning::Measurement& row : known.rows) {
    const int size = row.micro.micro_batch;
    if (!std::binary_search(sizes.begin(), sizes.end(), size)) continue;
    undivided |= size == problem.n;
    found.push_back(row.micro);
  }
  if (undivided) return found;
  if (!status.ok()) return status;
  return Status::Error(known.sizes.contains(problem.n) ? "no engine could be measured before"
                                                       : "nobody has measured it");
}

bool MeasuredKernels::HasAllEngines(const Device& device, const ConvolutionProblem& problem) {
  const Known& known = Meet({KernelFamily(problem), device.platform});
  std::lock_guard lock(mutex_);
  const auto state = known.sizes.find(problem.n);
  return state != known.sizes.end() && state->second == SizeState::kMeasured;
}

}  // namespace ucudnn::tuning
