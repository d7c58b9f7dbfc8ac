#include "interposer/session/session.h"

#include <cassert>

#include "cuda/resources.h"
#include "interposer/core/capacity.h"

namespace ucudnn::interposer {

void Session::Open(tuning::Device device, int platform, CUstream stream, WorkspaceBudget* budget) {
  device_.driver = device.driver;
  device_.functions = device.functions;
  device_.context = device.context;
  // A program that wrongly uses a destroyed handle on another thread may still read these texts. So
  // the texts are written only if they change.
  if (device_.platform != device.platform) device_.platform = std::move(device.platform);
  platform_ = platform;
  budget_ = budget;
  stream_ = stream;
  order_ = nullptr;
  lane_ = 0;
}

void Session::Close() {
  MutexLock lock(mutex_);
  states_.clear();
  replaced_.clear();
  workspaces_.clear();
  full_ = false;
}

bool Session::Capturing() const {
  const CUstream stream = this->stream();
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return false;
  const cuda::ContextScope scope(driver(), context());
  return cuda::IsCapturing(driver(), stream);
}

Arena::Segment Session::FindWorkspace(const ArenaOwner& owner, size_t bytes, uint64_t generation) {
  MutexLock lock(mutex_);
  if (generation_ != generation) workspaces_.clear();
  generation_ = generation;
  for (const auto& [whose, segment] : workspaces_) {
    if (whose == owner && segment.bytes >= bytes) return segment;
  }
  return {};
}

void Session::KeepWorkspace(const ArenaOwner& owner, Arena::Segment segment) {
  MutexLock lock(mutex_);
  workspaces_.emplace_back(owner, segment);
}

CallState* Session::Find(const CallKey& key) {
  MutexLock lock(mutex_);
  const auto entry = states_.find(key);
  if (entry == states_.end()) return nullptr;
  CallState* const state = entry->second.get();
  return state->version == state->page->version() ? state : nullptr;
}

CallState* Session::Keep(const CallKey& key, std::unique_ptr<CallState> state) {
  MutexLock lock(mutex_);
  assert(state != nullptr && state->page != nullptr);
  std::unique_ptr<CallState>& kept = states_[key];
  if (kept != nullptr) replaced_.push_back(std::move(kept));
  kept = std::move(state);
  if (states_.size() + replaced_.size() >= 2 * kMostKernels) full_ = true;
  return kept.get();
}

Session* SessionTable::TakeSession() {
  if (spare_.empty()) return sessions_.emplace_back(std::make_unique<Session>()).get();
  Session* const session = spare_.back();
  spare_.pop_back();
  return session;
}

void SessionTable::Order(cudnnHandle_t first, cudnnHandle_t second) {
  MutexLock lock(mutex_);
  const OrderedHandles::Lane lane = ordered_.Join(first, second);
  for (const void* const handle : lane.handles) {
    Session* const session = Find(static_cast<cudnnHandle_t>(const_cast<void*>(handle)));
    if (session != nullptr) session->set_order(lane.name);
  }
}

bool SessionTable::empty() {
  MutexLock lock(mutex_);
  return spare_.size() == sessions_.size();
}

std::optional<ArenaOwner> OwnerOf(const Session& session, cudnnHandle_t handle) {
  auto owner = OwnerOf(session.driver(), handle, session.stream());
  if (const void* const lane = session.order(); owner && lane != nullptr) {
    owner = ArenaOwner{lane};
    owner->capturable = true;
  }
  return owner;
}

}  // namespace ucudnn::interposer
