#include "planner/simulate/shared_resource.h"

#include <algorithm>

namespace ucudnn::simulate {
namespace {

// The load of a whole resource, 2^32. Even if 2^31 tasks (every possible TaskId) each have a share
// of 1, the sum is below 2^64.
constexpr double kWhole = 4294967296.0;

// Rounds down, so that n shares of 1 / n never add up to more than kWhole.
uint64_t LoadOf(double share) { return static_cast<uint64_t>(share * kWhole); }

}  // namespace

TaskId SharedResource::TakeNext() {
  if (first_waiting_ == waiting_.size()) return kNone;
  if (running_.size() >= static_cast<size_t>(slots_)) return kNone;
  return waiting_[first_waiting_++];
}

void SharedResource::Begin(double now_ms, TaskId task, double duration_ms, double share) {
  PassUntil(now_ms);
  if (IsIdle()) progress_ms_ = now_ms;
  const uint64_t load = LoadOf(share);
  running_.push({progress_ms_ + duration_ms, task, load});
  SetLoad(load_ + load);
}

double SharedResource::NextEndMs() const {
  const double end_ms = running_.top().progress_ms;
  if (progress_ms_ == now_ms_ && slowdown_ == 1) return end_ms;
  // The maximum is needed because rounding may have moved the clock past the end.
  return std::max(now_ms_, now_ms_ + (end_ms - progress_ms_) * slowdown_);
}

void SharedResource::EndNext(double now_ms, std::vector<TaskId>& ended) {
  PassUntil(now_ms);
  // Sets the exact value, without the rounding of PassUntil().
  progress_ms_ = running_.top().progress_ms;
  last_ended_ = running_.top().task;
  uint64_t load = load_;
  while (!IsIdle() && running_.top().progress_ms <= progress_ms_) {
    ended.push_back(running_.top().task);
    load -= running_.top().load;
    running_.pop();
  }
  SetLoad(load);
}

void SharedResource::PassUntil(double now_ms) {
  if (now_ms == now_ms_) return;
  if (!IsIdle()) {
    const bool keeps_time = progress_ms_ == now_ms_ && slowdown_ == 1;
    progress_ms_ = keeps_time ? now_ms : progress_ms_ + (now_ms - now_ms_) / slowdown_;
  }
  now_ms_ = now_ms;
}

void SharedResource::SetLoad(uint64_t load) {
  load_ = load;
  slowdown_ = std::max(1.0, static_cast<double>(load) / kWhole);
}

}  // namespace ucudnn::simulate
