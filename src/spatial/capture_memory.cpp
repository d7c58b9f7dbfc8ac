#include "spatial/capture_memory.h"

#include <algorithm>

#include "base/byte_size.h"

namespace ucudnn::spatial {

Result<CaptureMemory::Held*> CaptureMemory::FreeOrNew(size_t bytes, const Need& need,
                                                      const ExchangeResources& outside) {
  const cuda::RelaxedCaptureScope relaxed(outside.driver);
  Held* smallest = nullptr;
  for (Held& one : held_) {
    const size_t size = one.device.buffer.size();
    if (!one.hold.IsOver()) continue;
    one.kernels.clear();
    if (size < bytes) continue;
    if (smallest == nullptr || size < smallest->device.buffer.size()) smallest = &one;
  }
  if (smallest != nullptr) return smallest;
  const auto left = [&] {
    return need.most_bytes - std::min(need.most_bytes, need.other_bytes + this->bytes());
  };
  if (bytes > left()) std::erase_if(held_, [](const Held& one) { return one.hold.IsOver(); });
  if (bytes > left()) {
    return Status::Error("another CUDA graph's exchanges take " + FormatByteSize(bytes) +
                         ", and the limit of " + FormatByteSize(need.most_bytes) + " leaves " +
                         FormatByteSize(left()));
  }
  Held& made = held_.emplace_back(outside.driver, outside.functions);
  const Status created = made.device.CreateForCapture(outside.context, bytes);
  if (created.ok()) return &made;
  held_.pop_back();
  return created;
}

Result<ExchangeResources*> CaptureMemory::Take(const cuda::Capture& capture, CUstream origin,
                                               const Need& need, const ExchangeResources& outside) {
  const auto last = std::find_if(held_.rbegin(), held_.rend(),
                                 [&](const Held& one) { return one.hold.IsOf(capture); });
  Held* const former = last == held_.rend() ? nullptr : &*last;
  Held* held = former;
  const size_t had = former == nullptr ? 0 : former->device.buffer.size();
  if (former == nullptr || had < need.bytes) {
    const size_t bytes = std::max(need.bytes, std::min(2 * had, outside.buffer.size()));
    UCUDNN_ASSIGN_OR_RETURN(held, FreeOrNew(bytes, need, outside));
    held->hold = cuda::CaptureHold(outside.driver, capture);
    UCUDNN_RETURN_IF_ERROR(held->device.EnterCapture(origin));
    if (former != nullptr) {
      // Exchanges on the new stream wait for exchanges on the former stream, so that the capture's
      // exchanges keep the order of its calls.
      UCUDNN_RETURN_IF_ERROR(former->device.entered.Record(former->device.stream.get()));
      UCUDNN_RETURN_IF_ERROR(former->device.entered.HoldBack(held->device.stream.get()));
    }
  }
  held->kernels.insert(need.kernel);
  return &held->device;
}

size_t CaptureMemory::bytes() const {
  size_t bytes = 0;
  for (const Held& one : held_) bytes += one.device.buffer.size();
  return bytes;
}

}  // namespace ucudnn::spatial
