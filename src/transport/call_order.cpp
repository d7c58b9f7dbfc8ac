#include "transport/call_order.h"

#include "cuda/capture.h"

namespace ucudnn::transport {
namespace {

// A mark is an event behind a call. Gap() doubles after every 4 pending marks. So 32 marks cover 4
// * (1 + 2 + ... + 128) = 1020 calls: about as many as a device's queue holds.
constexpr size_t kMarks = 32, kMarksOfOneGap = 4;

}  // namespace

CallOrder::CallOrder(const cuda::Driver& driver)
    : driver_(driver), last_(driver), last_captured_(driver) {
  for (size_t i = 0; i < kMarks; ++i) marks_.emplace_back(driver);
}

Status CallOrder::Create() {
  MutexLock lock(mutex_);
  for (cuda::Event& mark : marks_) UCUDNN_RETURN_IF_ERROR(mark.CreateUntimed());
  UCUDNN_RETURN_IF_ERROR(last_captured_.CreateUntimed());
  return last_.CreateUntimed();
}

Status CallOrder::Begin(CUstream stream) {
  is_captured_ = cuda::IsCapturing(driver_, stream);
  if (is_captured_) return BeginCaptured(stream);
  if (!called_ || stream == stream_) return Status::Ok();
  return last_.HoldBack(stream);
}

Status CallOrder::BeginCaptured(CUstream stream) {
  const std::optional<cuda::Capture> capture = cuda::CaptureOf(driver_, stream);
  begun_capture_ = capture ? capture->number : 0;
  if (!capture) {
    return Status::Error("the CUDA graph that a call is captured into has become invalid");
  }
  if (begun_capture_ != capture_ || stream == captured_stream_) return Status::Ok();
  return last_captured_.HoldBack(stream);
}

size_t CallOrder::Gap() const { return size_t{1} << (pending_ / kMarksOfOneGap); }

void CallOrder::TakeReached() {
  const cuda::RelaxedCaptureScope relaxed(driver_);
  for (; pending_ > 0 && !marks_[oldest_].Pending(); --pending_, ++reached_) {
    oldest_ = (oldest_ + 1) % kMarks;
  }
}

Status CallOrder::End(CUstream stream) {
  if (is_captured_) {
    captured_stream_ = stream;
    capture_ = begun_capture_;
    return last_captured_.Record(stream);
  }
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

bool CallOrder::Done() const {
  const cuda::RelaxedCaptureScope relaxed(driver_);
  return !last_.Pending();
}

DeviceProgress CallOrder::Progress() {
  MutexLock lock(mutex_);
  TakeReached();
  return {!Done(), reached_};
}

}  // namespace ucudnn::transport
