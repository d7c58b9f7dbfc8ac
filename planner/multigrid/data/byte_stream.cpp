#include "planner/multigrid/data/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace ucudnn::multigrid {
namespace {

constexpr size_t kInflatedBlock = size_t{1} << 16;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(const ByteSource& source) : source_(source) {}

  Status Read(std::span<char> bytes) override {
    UCUDNN_RETURN_IF_ERROR(source_.Read(offset_, bytes));
    offset_ += bytes.size();
    return Status::Ok();
  }

  Status Finish() override {
    if (offset_ == source_.size()) return Status::Ok();
    return source_.Fault(std::to_string(source_.size()) + " bytes; expected " +
                         std::to_string(offset_));
  }

 private:
  const ByteSource& source_;
  uint64_t offset_ = 0;
};

class InflatedStream final : public ByteStream {
 public:
  InflatedStream(const ByteSource& source, Packing packing)
      : source_(source), packed_(kInflatedBlock) {
    // Negative: without a header of zlib's own. 16 more: with gzip's.
    const int window = packing == Packing::kGzip ? 16 + MAX_WBITS : -MAX_WBITS;
    ready_ = inflateInit2(&zlib_, window) == Z_OK;
  }
  ~InflatedStream() override {
    if (ready_) inflateEnd(&zlib_);
  }
  InflatedStream(const InflatedStream&) = delete;
  InflatedStream& operator=(const InflatedStream&) = delete;

  Status Read(std::span<char> bytes) override {
    while (!bytes.empty()) {
      const size_t most = std::min<size_t>(bytes.size(), std::numeric_limits<uInt>::max());
      UCUDNN_ASSIGN_OR_RETURN(const size_t length, Inflate(bytes.first(most)));
      bytes = bytes.subspan(length);
      if (ended_ && !bytes.empty()) {
        return source_.Fault("its deflated data ends " + std::to_string(bytes.size()) +
                             " bytes early");
      }
    }
    return Status::Ok();
  }

  Status Finish() override {
    char beyond = 0;
    if (!ended_) {
      UCUDNN_ASSIGN_OR_RETURN(const size_t length, Inflate({&beyond, 1}));
      if (length > 0) return source_.Fault("its deflated data holds more bytes than expected");
    }
    const uint64_t behind = source_.size() - offset_ + zlib_.avail_in;
    if (behind == 0) return Status::Ok();
    return source_.Fault(std::to_string(behind) + " bytes follow its deflated data; expected none");
  }

 private:
  // Inflates until `bytes` is full or the data ends; returns how many bytes it wrote.
  Result<size_t> Inflate(std::span<char> bytes) {
    if (!ready_) return source_.Fault("zlib has no memory to inflate it");
    zlib_.next_out = reinterpret_cast<Bytef*>(bytes.data());
    zlib_.avail_out = static_cast<uInt>(bytes.size());
    while (zlib_.avail_out > 0 && !ended_) {
      if (zlib_.avail_in == 0) UCUDNN_RETURN_IF_ERROR(Refill());
      const int state = inflate(&zlib_, Z_NO_FLUSH);
      ended_ = state == Z_STREAM_END;
      if (state == Z_OK || ended_) continue;
      const bool truncated = state == Z_BUF_ERROR && offset_ == source_.size();
      return source_.Fault(truncated ? "its deflated data is truncated"
                                     : std::string("its deflated data cannot be inflated: ") +
                                           (zlib_.msg != nullptr ? zlib_.msg : zError(state)));
    }
    return bytes.size() - zlib_.avail_out;
  }

  Status Refill() {
    const auto length =
        static_cast<size_t>(std::min<uint64_t>(source_.size() - offset_, packed_.size()));
    UCUDNN_RETURN_IF_ERROR(source_.Read(offset_, std::span(packed_).first(length)));
    offset_ += length;
    zlib_.next_in = reinterpret_cast<Bytef*>(packed_.data());
    zlib_.avail_in = static_cast<uInt>(length);
    return Status::Ok();
  }

  const ByteSource& source_;
  uint64_t offset_ = 0;  // of what zlib was not yet given
  std::vector<char> packed_;
  z_stream zlib_ = {};
  bool ready_ = false;
  bool ended_ = false;
};

}  // namespace

bool CanHold(Packing packing, uint64_t packed, uint64_t unpacked) {
  if (packing == Packing::kNone) return packed == unpacked;
  return unpacked / kMostInflation <= packed;
}

std::unique_ptr<ByteStream> MakeByteStream(const ByteSource& source, Packing packing) {
  if (packing == Packing::kNone) return std::make_unique<PlainStream>(source);
  return std::make_unique<InflatedStream>(source, packing);
}

}  // namespace ucudnn::multigrid
