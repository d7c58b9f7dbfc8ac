#include "transport/outbox.h"

#include <utility>

namespace ucudnn::transport {
namespace {

constexpr size_t kOutboxBytes = size_t{1} << 18;

}  // namespace

Outbox::Outbox() { bytes_.reserve(kOutboxBytes); }

bool Outbox::Put(const Frame& frame, bool urgent) {
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    const size_t size = bytes_.size() + kFrameHeader + frame.body.size();
    if (size > kOutboxBytes && !bytes_.empty() && !urgent) {
      refused_ = true;
      return false;
    }
    AppendFrame(bytes_, frame);
    wake = std::exchange(sleeping_, false);
  }
  if (wake) wake_.Raise();
  return true;
}

void Outbox::Take(std::vector<char>& taken) {
  taken.clear();
  taken.reserve(kOutboxBytes);
  bool room = false;
  {
    const MutexLock lock(mutex_);
    bytes_.swap(taken);
    room = std::exchange(refused_, false);
  }
  if (room) room_.Raise();
}

bool Outbox::Sleep() {
  const MutexLock lock(mutex_);
  sleeping_ = bytes_.empty();
  return sleeping_;
}

void Outbox::Awake() {
  const MutexLock lock(mutex_);
  sleeping_ = false;
}

}  // namespace ucudnn::transport
