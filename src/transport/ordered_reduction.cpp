#include "transport/ordered_reduction.h"

#include <algorithm>

#include "base/byte_size.h"

namespace ucudnn::transport {
namespace {

// In bytes. Parts begin at multiples of this number, so that the operands of additions are aligned.
constexpr size_t kPartAlignment = 512;

size_t PartBytes(size_t piece_bytes, int size) {
  const size_t share = (piece_bytes + size - 1) / size;
  return (share + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

}  // namespace

OrderedReduction::OrderedReduction(const ChannelSetup& setup)
    : driver_(*setup.driver),
      rank_(setup.rank),
      size_(setup.size),
      add_(setup.add),
      plain_(driver_),
      scratch_(plain_, driver_) {
  sends_.reserve(size_);
  receives_.reserve(size_);
}

size_t OrderedReduction::LargestMessage(size_t bytes, int size) {
  return size == 1 || bytes == 0 ? 0 : PartBytes(ReductionScratchBytes(bytes), size);
}

Status OrderedReduction::Reserve(size_t bytes) {
  if (size_ == 1 || bytes == 0) return Status::Ok();
  const size_t before = piece_bytes_;
  const size_t piece = std::max(before, ReductionScratchBytes(bytes));
  const Status reserved = scratch_.Grow(PartBytes(piece, size_) * size_);
  piece_bytes_ = reserved.ok() ? piece : scratch_.size() > 0 ? before : 0;
  return reserved;
}

OrderedReduction::Part OrderedReduction::PartOf(int rank, size_t bytes) const {
  const size_t part = PartBytes(bytes, size_);
  const size_t begin = std::min(part * rank, bytes);
  return {begin, std::min(part, bytes - begin)};
}

CUdeviceptr OrderedReduction::ScratchOf(int rank, size_t piece_bytes) const {
  return scratch_.address() + PartBytes(piece_bytes, size_) * rank;
}

Status OrderedReduction::FillWithNan(CUdeviceptr data, size_t bytes, CUstream stream) const {
  return cuda::DriverStatus(driver_, driver_.cuMemsetD8Async(data, 0xff, bytes, stream),
                            "filling a reduction's buffer with NaN");
}

Status OrderedReduction::Run(Channel& channel, CUdeviceptr data, size_t count, Element element,
                             CUstream stream) {
  const size_t bytes = count * SizeOf(element);
  if (size_ == 1 || bytes == 0) return Status::Ok();
  Status status = Status::Ok();
  if (!HasRoomFor(bytes)) {
    status = Status::Error("a reduction of " + FormatByteSize(bytes) + ", with room for " +
                           FormatByteSize(piece_bytes_));
  }
  for (size_t done = 0; done < bytes && status.ok(); done += kReductionPieceBytes) {
    status = RunPiece(channel, data + done, std::min(bytes - done, kReductionPieceBytes), element,
                      stream);
  }
  // After a failure `data` may have partial sums. They are replaced by NaN, so that nobody takes
  // them for the sums.
  if (!status.ok()) (void)FillWithNan(data, bytes, stream);
  return status;
}

Status OrderedReduction::RunPiece(Channel& channel, CUdeviceptr data, size_t bytes, Element element,
                                  CUstream stream) {
  UCUDNN_RETURN_IF_ERROR(Collect(channel, data, bytes, stream));
  const Part mine = PartOf(rank_, bytes);
  for (int rank = 1; rank < size_ && mine.bytes > 0; ++rank) {
    UCUDNN_RETURN_IF_ERROR(add_(ScratchOf(0, bytes), ScratchOf(rank, bytes),
                                mine.bytes / SizeOf(element), element, stream));
  }
  return Spread(channel, data, bytes, stream);
}

Status OrderedReduction::Collect(Channel& channel, CUdeviceptr data, size_t bytes,
                                 CUstream stream) {
  const Part mine = PartOf(rank_, bytes);
  sends_.clear();
  receives_.clear();
  for (int peer = 0; peer < size_; ++peer) {
    const Part theirs = PartOf(peer, bytes);
    if (peer == rank_) continue;
    if (theirs.bytes > 0) sends_.push_back({peer, data + theirs.begin, theirs.bytes});
    if (mine.bytes > 0) receives_.push_back({peer, ScratchOf(peer, bytes), mine.bytes});
  }
  if (mine.bytes > 0) {
    UCUDNN_RETURN_IF_ERROR(
        FillWithNan(ScratchOf(0, bytes), PartBytes(bytes, size_) * size_, stream));
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        driver_,
        driver_.cuMemcpyDtoDAsync(ScratchOf(rank_, bytes), data + mine.begin, mine.bytes, stream),
        "copying a rank's own part of a reduction"));
  }
  return channel.Exchange(sends_, receives_, stream);
}

Status OrderedReduction::Spread(Channel& channel, CUdeviceptr data, size_t bytes, CUstream stream) {
  // `data` may be overwritten, because the exchange of Collect, which reads it, precedes this work
  // on the stream.
  UCUDNN_RETURN_IF_ERROR(FillWithNan(data, bytes, stream));
  const Part mine = PartOf(rank_, bytes);
  sends_.clear();
  receives_.clear();
  for (int peer = 0; peer < size_; ++peer) {
    const Part theirs = PartOf(peer, bytes);
    if (peer == rank_) continue;
    if (mine.bytes > 0) sends_.push_back({peer, ScratchOf(0, bytes), mine.bytes});
    if (theirs.bytes > 0) receives_.push_back({peer, data + theirs.begin, theirs.bytes});
  }
  if (mine.bytes > 0) {
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        driver_,
        driver_.cuMemcpyDtoDAsync(data + mine.begin, ScratchOf(0, bytes), mine.bytes, stream),
        "copying a rank's own part of a reduction"));
  }
  return channel.Exchange(sends_, receives_, stream);
}

}  // namespace ucudnn::transport
