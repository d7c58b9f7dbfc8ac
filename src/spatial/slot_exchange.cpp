#include "spatial/slot_exchange.h"

namespace ucudnn::spatial {

SlotExchange::SlotExchange(std::vector<int> ranks, size_t own, size_t slot_bytes,
                           size_t message_bytes)
    : ranks_(std::move(ranks)),
      own_(own),
      slot_bytes_(slot_bytes),
      message_bytes_(message_bytes),
      sends_(ranks_.size() - 1),
      receives_(ranks_.size() - 1) {}

Status SlotExchange::Run(const KernelCall& call, bool has_own, ExchangeResources& device,
                         transport::Channel& channel) {
  const CUdeviceptr slots = device.buffer.address();
  const CUstream stream = call.stream, exchanges = device.stream.get();
  if (!has_own) {
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        device.driver,
        device.driver.cuMemsetD8Async(slots + slot_place(own_), kNanByte, message_bytes_, stream),
        "clearing what is sent"));
  }
  UCUDNN_RETURN_IF_ERROR(device.entered.Record(stream));
  UCUDNN_RETURN_IF_ERROR(device.entered.HoldBack(exchanges));
  size_t at = 0;
  for (size_t rank = 0; rank < size(); ++rank) {
    if (rank == own_) continue;
    const CUdeviceptr slot = slots + slot_place(rank);
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        device.driver, device.driver.cuMemsetD8Async(slot, kNanByte, message_bytes_, exchanges),
        "clearing what is received"));
    sends_[at] = {ranks_[rank], slots + slot_place(own_), message_bytes_};
    receives_[at++] = {ranks_[rank], slot, message_bytes_};
  }
  {
    const SpanScope span(call.times, Span::kExchange, exchanges);
    UCUDNN_RETURN_IF_ERROR(channel.Exchange(sends_, receives_, exchanges));
  }
  UCUDNN_RETURN_IF_ERROR(device.exchanged[0].Record(exchanges));
  const SpanScope span(call.times, Span::kAwaitExchange, stream);
  return device.exchanged[0].HoldBack(stream);
}

}  // namespace ucudnn::spatial
