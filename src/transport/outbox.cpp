#include "transport/outbox.h"

#include <utility>

namespace ucudnn::transport {
namespace {

constexpr size_t kOutboxBytes = size_t{1} << 18;

}  // namespace

Outbox::Outbox() { bytes_.reserve(kOutboxBytes); }

bool Outbox::Put(const Frame& frame, Haste haste) {
  bool wake = haste != Haste::kLater;
  bool put = true;
  {
    const MutexLock lock(mutex_);
    const size_t size = bytes_.size() + kFrameHeader + frame.body.size();
    put = size <= kOutboxBytes || bytes_.empty() || haste == Haste::kUrgent;
    if (put) AppendFrame(bytes_, frame);
    refused_ = refused_ || !put;
    wake = std::exchange(sleeping_, false) || wake || !put;
  }
  if (wake) wake_.Raise();
  return put;
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
