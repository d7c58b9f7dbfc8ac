#include "interposer/session.h"

namespace ucudnn::interposer {

void Session::Open(CUcontext context, int platform, CUstream stream, Network* network) {
  context_ = context;
  network_ = network;
  platform_ = platform;
  stream_ = stream;
  order_ = nullptr;
  lane_ = 0;
}

void Session::Close() {
  std::lock_guard lock(mutex_);
  decisions_.clear();
  replaced_.clear();
  workspaces_.clear();
  full_ = false;
}

execution::Arena::Segment Session::FindWorkspace(const execution::ArenaOwner& owner, size_t bytes,
                                                 uint64_t generation) {
  std::lock_guard lock(mutex_);
  if (generation_ != generation) workspaces_.clear();
  generation_ = generation;
  for (const auto& [whose, segment] : workspaces_) {
    if (whose == owner && segment.bytes >= bytes) return segment;
  }
  return {};
}

void Session::KeepWorkspace(const execution::ArenaOwner& owner, execution::Arena::Segment segment) {
  std::lock_guard lock(mutex_);
  workspaces_.emplace_back(owner, segment);
}

Decision* Session::Find(const CallKey& key) {
  std::lock_guard lock(mutex_);
  const auto entry = decisions_.find(key);
  if (entry == decisions_.end()) return nullptr;
  Decision* const decision = entry->second.get();
  return decision->version == decision->page->version() ? decision : nullptr;
}

Decision* Session::Keep(const CallKey& key, std::unique_ptr<Decision> decision) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Decision>& kept = decisions_[key];
  if (kept != nullptr) replaced_.push_back(std::move(kept));
  kept = std::move(decision);
  if (decisions_.size() + replaced_.size() >= 2 * kMostKernels) full_ = true;
  return kept.get();
}

size_t SessionTable::FirstSlot(cudnnHandle_t handle) {
  const auto bits = reinterpret_cast<uintptr_t>(handle);
  return (bits >> 4) * 0x9e3779b97f4a7c15u >> 52;
}

Session* SessionTable::Find(cudnnHandle_t handle) const {
  if (handle == nullptr) return nullptr;
  for (size_t probe = 0, slot = FirstSlot(handle); probe < kSlots; ++probe, ++slot) {
    const Slot& candidate = slots_[slot % kSlots];
    const cudnnHandle_t key = candidate.handle.load(std::memory_order_acquire);
    if (key == handle) {
      if (Session* session = candidate.session.load(std::memory_order_acquire)) return session;
    }
    if (key == nullptr) return nullptr;
  }
  return nullptr;
}

Session* SessionTable::TakeSession() {
  if (spare_.empty()) return sessions_.emplace_back(std::make_unique<Session>()).get();
  Session* const session = spare_.back();
  spare_.pop_back();
  return session;
}

bool SessionTable::Insert(cudnnHandle_t handle, Session* session) {
  for (size_t probe = 0, slot = FirstSlot(handle); probe < kSlots; ++probe, ++slot) {
    Slot& candidate = slots_[slot % kSlots];
    if (candidate.session.load(std::memory_order_relaxed) != nullptr) continue;
    candidate.handle.store(handle, std::memory_order_release);
    candidate.session.store(session, std::memory_order_release);
    return true;
  }
  return false;
}

void SessionTable::Close(cudnnHandle_t handle) {
  std::lock_guard lock(mutex_);
  for (size_t probe = 0, slot = FirstSlot(handle); probe < kSlots; ++probe, ++slot) {
    Slot& candidate = slots_[slot % kSlots];
    const cudnnHandle_t key = candidate.handle.load(std::memory_order_relaxed);
    if (key == nullptr) return;
    Session* const session = candidate.session.load(std::memory_order_relaxed);
    if (key != handle || session == nullptr) continue;
    candidate.session.store(nullptr, std::memory_order_release);
    session->Close();
    spare_.push_back(session);
    return;
  }
}

void SessionTable::Order(Session& first, Session& second) {
  std::lock_guard lock(mutex_);
  const void* const name = first.order() != nullptr ? first.order() : &first;
  const void* const other = second.order();
  first.set_order(name);
  second.set_order(name);
  if (other == nullptr) return;
  for (Slot& slot : slots_) {
    Session* const session = slot.session.load(std::memory_order_relaxed);
    if (session != nullptr && session->order() == other) session->set_order(name);
  }
}

bool SessionTable::empty() {
  std::lock_guard lock(mutex_);
  return spare_.size() == sessions_.size();
}

}  // namespace ucudnn::interposer
