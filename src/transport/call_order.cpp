#include "transport/call_order.h"

namespace ucudnn::transport {
namespace {

// More calls than a device's queue holds are marked, if only every 128th where it is that long.
constexpr size_t kMarks = 32, kMarksOfOneGap = 4;

}  // namespace

CallOrder::CallOrder(const cuda::Driver& driver) : last_(driver) {
  for (size_t i = 0; i < kMarks; ++i) marks_.emplace_back(driver);
}

Status CallOrder::Create() {
  MutexLock lock(mutex_);
  for (cuda::Event& mark : marks_) UCUDNN_RETURN_IF_ERROR(mark.CreateUntimed());
  return last_.CreateUntimed();
}

size_t CallOrder::Gap() const { return size_t{1} << (pending_ / kMarksOfOneGap); }

void CallOrder::TakeReached() {
  for (; pending_ > 0 && !marks_[oldest_].Pending(); --pending_, ++reached_) {
    oldest_ = (oldest_ + 1) % kMarks;
  }
}

Status CallOrder::End(CUstream stream) {
  called_ = true;
  stream_ = stream;
  UCUDNN_RETURN_IF_ERROR(last_.Record(stream));
  MutexLock lock(mutex_);
  if (++unmarked_ < Gap()) return Status::Ok();
  TakeReached();
  if (pending_ == kMarks) return Status::Ok();
  unmarked_ = 0;
  return marks_[(oldest_ + pending_++) % kMarks].Record(stream);
}

DeviceProgress CallOrder::Progress() {
  MutexLock lock(mutex_);
  TakeReached();
  return {last_.Pending(), reached_};
}

}  // namespace ucudnn::transport
