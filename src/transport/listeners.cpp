#include "transport/listeners.h"

#include <utility>

namespace ucudnn::transport {
namespace {

constexpr size_t kMostKeptBytes = size_t{4} << 20;

}  // namespace

void Listeners::Set(const std::function<void(Callbacks&)>& set, bool opens) {
  const MutexLock lock(mutex_);
  set(callbacks_);
  if (failure_ && callbacks_.failure && !std::exchange(failure_told_, true)) {
    callbacks_.failure(*failure_);
  }
  if (!opens || std::exchange(open_, true)) return;
  for (KeptEvent& kept : kept_) {
    kept.event.text = kept.text;
    Tell(kept.event);
  }
  kept_ = {};
}

bool Listeners::Post(int group_rank, std::string_view record) {
  return Hear({Event::kPost, group_rank, 0, record});
}

bool Listeners::Gather(int group_rank, uint64_t number) {
  return Hear({Event::kGather, group_rank, number, {}});
}

bool Listeners::Leave(int rank, std::string_view last) {
  return Hear({Event::kLeave, rank, 0, last});
}

void Listeners::Failure(std::string_view line) {
  const MutexLock lock(mutex_);
  if (failure_) return;
  failure_ = line;
  if (!callbacks_.failure) return;
  failure_told_ = true;
  callbacks_.failure(line);
}

bool Listeners::Hear(const Event& event) {
  const MutexLock lock(mutex_);
  if (open_) {
    Tell(event);
    return true;
  }
  kept_bytes_ += sizeof(KeptEvent) + event.text.size();
  if (kept_bytes_ > kMostKeptBytes) return false;
  kept_.push_back({event, std::string(event.text)});
  return true;
}

void Listeners::Tell(const Event& event) {
  switch (event.kind) {
    case Event::kPost:
      if (callbacks_.post) callbacks_.post(event.rank, event.text);
      return;
    case Event::kGather:
      if (callbacks_.gather) callbacks_.gather(event.rank, event.number);
      return;
    case Event::kLeave:
      if (callbacks_.leave) callbacks_.leave(event.rank, event.text);
      return;
  }
}

}  // namespace ucudnn::transport
