#include "planner/multigrid/data/npz.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include "base/byte_size.h"
#include "base/text.h"
#include "planner/multigrid/data/npy_header.h"
#include "planner/multigrid/data/zip_directory.h"

namespace ucudnn::multigrid {
namespace {

constexpr std::string_view kNpyEnding = ".npy";
constexpr size_t kNpyBlock = size_t{1} << 16;  // a multiple of every item's bytes

// IEEE 754's binary16.
double HalfToDouble(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int fraction = half & 1023;
  double magnitude = std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 0) magnitude = std::ldexp(fraction, -24);
  if (exponent == 31) magnitude = fraction == 0 ? HUGE_VAL : std::nan("");
  return std::copysign(magnitude, (half & 0x8000) != 0 ? -1.0 : 1.0);
}

double ToDouble(std::string_view item, NpyKind kind) {
  const uint64_t bits = LittleEndian(item);
  if (kind == NpyKind::kUnsigned) return static_cast<double>(bits);
  if (kind == NpyKind::kSigned) {
    const auto unused = static_cast<unsigned>(64 - 8 * item.size());
    return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
  }
  if (item.size() == 8) return std::bit_cast<double>(bits);
  if (item.size() == 4) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return HalfToDouble(static_cast<uint16_t>(bits));
}

// Where the values of a file belong in an array whose last axis is the fastest.
class ValueOrder {
 public:
  explicit ValueOrder(const NpyHeader& header)
      : shape_(header.fortran_order ? header.shape : std::vector<int64_t>()),
        strides_(shape_.size(), 1),
        index_(shape_.size(), 0) {
    for (size_t axis = shape_.size(); axis-- > 1;) {
      strides_[axis - 1] = strides_[axis] * static_cast<size_t>(shape_[axis]);
    }
  }

  // The place of the file's next value.
  size_t Next() {
    const size_t place = place_;
    if (shape_.empty()) {
      ++place_;
      return place;
    }
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      place_ += strides_[axis];
      if (++index_[axis] < shape_[axis]) break;
      place_ -= strides_[axis] * static_cast<size_t>(shape_[axis]);
      index_[axis] = 0;
    }
    return place;
  }

 private:
  const std::vector<int64_t> shape_;  // empty where values are in our order
  std::vector<size_t> strides_;
  std::vector<int64_t> index_;
  size_t place_ = 0;
};

Result<NpyHeader> ReadNpyHeader(ZipMemberStream& stream) {
  std::array<char, kNpyMagicSize> magic;
  UCUDNN_RETURN_IF_ERROR(stream.Read(magic));
  const Result<size_t> size_bytes = NpySizeBytes({magic.data(), magic.size()});
  if (!size_bytes.ok()) return stream.Fault(size_bytes.message());
  std::array<char, 4> size_text = {};
  UCUDNN_RETURN_IF_ERROR(stream.Read(std::span(size_text).first(*size_bytes)));
  const uint64_t size = LittleEndian({size_text.data(), size_text.size()});
  if (size > kMostNpyText) {
    return stream.Fault("a header of " + std::to_string(size) + " bytes; expected at most " +
                        std::to_string(kMostNpyText));
  }
  std::string text(size, '\0');
  UCUDNN_RETURN_IF_ERROR(stream.Read(text));
  Result<NpyHeader> header = ParseNpyText(text);
  if (!header.ok()) return stream.Fault(header.message());
  return header;
}

// The number of values, which the rest of the member is.
Result<size_t> CountNpyValues(const ZipMemberStream& stream, const NpyHeader& header) {
  const uint64_t held = stream.left() / header.item_bytes;
  const bool is_empty =
      std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end();
  uint64_t count = is_empty ? 0 : 1;
  bool fits = true;
  for (const int64_t extent : header.shape) {
    const auto factor = static_cast<uint64_t>(extent);
    fits = fits && (count == 0 || factor <= held / count);
    if (fits) count *= factor;
  }
  if (fits && count * header.item_bytes == stream.left()) return count;
  return stream.Fault(std::to_string(stream.left()) + " bytes of values; expected " +
                      ShapeText(header.shape) + " values of " + std::to_string(header.item_bytes) +
                      " bytes each");
}

Status ReadNpyValues(ZipMemberStream& stream, const NpyHeader& header,
                     std::vector<double>& values) {
  ValueOrder order(header);
  std::array<char, kNpyBlock> block;
  while (stream.left() > 0) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(stream.left(), block.size()));
    UCUDNN_RETURN_IF_ERROR(stream.Read(std::span(block).first(size)));
    for (size_t at = 0; at < size; at += header.item_bytes) {
      values[order.Next()] = ToDouble({block.data() + at, header.item_bytes}, header.kind);
    }
  }
  return Status::Ok();
}

// `left_bytes` is what all arrays may still take; it becomes less.
Result<NpzArray> ReadNpzArray(const ByteSource& file, const ZipMember& member,
                              uint64_t& left_bytes) {
  ZipMemberStream stream(file, member);
  if (!member.name.ends_with(kNpyEnding) || member.name.size() == kNpyEnding.size()) {
    return stream.Fault("no array; expected NAME.npy, as numpy.savez writes");
  }
  NpzArray array;
  array.name = member.name.substr(0, member.name.size() - kNpyEnding.size());
  UCUDNN_ASSIGN_OR_RETURN(NpyHeader header, ReadNpyHeader(stream));
  UCUDNN_ASSIGN_OR_RETURN(const size_t count, CountNpyValues(stream, header));
  if (count > left_bytes / sizeof(double)) {
    return stream.Fault(std::to_string(count) + " values; expected at most " +
                        std::to_string(left_bytes / sizeof(double)) +
                        ", which is what the limit leaves for it");
  }
  left_bytes -= count * sizeof(double);
  try {
    array.values.resize(count);
  } catch (const std::bad_alloc&) {
    return stream.Fault(std::to_string(count) + " values; expected " +
                        FormatByteSize(count * sizeof(double)) + " of memory for them");
  }
  UCUDNN_RETURN_IF_ERROR(ReadNpyValues(stream, header, array.values));
  UCUDNN_RETURN_IF_ERROR(stream.Finish());
  array.shape = std::move(header.shape);
  return array;
}

}  // namespace

Result<std::vector<NpzArray>> ReadNpz(const ByteSource& file, uint64_t most_bytes) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ReadZipDirectory(file));
  uint64_t left = most_bytes;
  for (const ZipMember& member : members) {
    if (member.bytes > left) {
      return file.Fault(Quoted(member.name) + ": " + FormatByteSize(member.bytes) +
                        " unpacked; expected at most " + FormatByteSize(left) + " more than the " +
                        FormatByteSize(most_bytes - left) + " of the members before it");
    }
    left -= member.bytes;
  }
  uint64_t left_bytes = most_bytes;
  std::vector<NpzArray> arrays;
  for (const ZipMember& member : members) {
    UCUDNN_ASSIGN_OR_RETURN(NpzArray array, ReadNpzArray(file, member, left_bytes));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

}  // namespace ucudnn::multigrid
