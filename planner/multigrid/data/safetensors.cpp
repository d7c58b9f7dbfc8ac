#include "planner/multigrid/data/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "base/byte_size.h"
#include "base/json_place.h"
#include "base/text.h"
#include "planner/multigrid/two_bytes.h"

namespace ucudnn::multigrid {
namespace {

// Suffices for a header that describes a hundred thousand arrays.
constexpr uint64_t kMostHeaderBytes = uint64_t{16} << 20;
constexpr int64_t kMostNumber = std::numeric_limits<int64_t>::max();
constexpr size_t kBlock = size_t{1} << 16;  // a multiple of the size of every value type
constexpr char kMetadata[] = "__metadata__";

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

template <typename Integer>
double WholeToDouble(uint64_t bits) {
  return static_cast<double>(static_cast<Integer>(bits));
}

struct ValueType {
  const char* name;
  size_t bytes;
  double (*to_double)(uint64_t bits);
};
constexpr ValueType kTypes[] = {
    {"F64", 8, [](uint64_t bits) { return std::bit_cast<double>(bits); }},
    {"F32", 4,
     [](uint64_t bits) -> double { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }},
    {"F16", 2, [](uint64_t bits) { return ValueOfTwoBytes(11, static_cast<uint16_t>(bits)); }},
    {"BF16", 2,
     [](uint64_t bits) -> double {
       return std::bit_cast<float>(static_cast<uint32_t>(bits << 16));
     }},
    {"I64", 8, WholeToDouble<int64_t>},
    {"I32", 4, WholeToDouble<int32_t>},
    {"I16", 2, WholeToDouble<int16_t>},
    {"I8", 1, WholeToDouble<int8_t>},
    {"U64", 8, WholeToDouble<uint64_t>},
    {"U32", 4, WholeToDouble<uint32_t>},
    {"U16", 2, WholeToDouble<uint16_t>},
    {"U8", 1, WholeToDouble<uint8_t>},
};

// The header's description of an array, whose values are bytes begin to end - 1, counted from the
// end of the header.
struct Described {
  std::string name;
  const ValueType* type = nullptr;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;

  uint64_t count() const { return (end - begin) / type->bytes; }
};

// Returns the number of values of a shape; none if the number exceeds `most`.
std::optional<uint64_t> CountOf(const std::vector<int64_t>& shape, uint64_t most) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  uint64_t count = 1;
  for (const int64_t extent : shape) {
    if (static_cast<uint64_t>(extent) > most / count) return std::nullopt;
    count *= static_cast<uint64_t>(extent);
  }
  return count;
}

// Reads the header's entry `place` for the array `name`. `held` is the number of bytes after the
// header.
Described ReadEntry(const std::string& name, const JsonPlace& place, uint64_t held) {
  Described array = {.name = name};
  place.Object();
  const JsonPlace dtype = place.Member("dtype");
  const std::string type = dtype.Text();
  std::vector<std::string> names;
  for (const ValueType& known : kTypes) {
    if (type == known.name) array.type = &known;
    names.emplace_back(known.name);
  }
  if (array.type == nullptr) return dtype.Refuse("one of " + Join(names, ", ")), array;
  const JsonPlace shape = place.Member("shape");
  if (shape.absent()) shape.Refuse("a list");
  for (const JsonPlace& extent : shape.Items()) {
    array.shape.push_back(extent.Integer(0, kMostNumber));
  }
  const JsonPlace offsets = place.Member("data_offsets");
  const std::vector<JsonPlace> ends = offsets.Items();
  if (ends.size() != 2) return offsets.Refuse("two whole numbers"), array;
  array.begin = static_cast<uint64_t>(ends[0].Integer(0, static_cast<int64_t>(held)));
  array.end = static_cast<uint64_t>(
      ends[1].Integer(static_cast<int64_t>(array.begin), static_cast<int64_t>(held)));
  const uint64_t bytes = array.end - array.begin;
  const auto count = CountOf(array.shape, bytes / array.type->bytes);
  if (place.ok() && (!count || *count * array.type->bytes != bytes)) {
    place.Fault("has " + std::to_string(bytes) + " bytes of values; expected " +
                ShapeText(array.shape) + " values of " + std::to_string(array.type->bytes) +
                " bytes each");
  }
  return array;
}

// Reads the header's descriptions of all arrays. Fails unless the arrays' bytes are exactly the
// `held` bytes after the header.
Result<std::vector<Described>> ReadHeader(const DataFile& file, const std::string& text,
                                          uint64_t held) {
  const Result<JsonValue> header = ParseJson(text);
  if (!header.ok()) return file.Fault("its header is refused: " + header.message());
  if (!header->is(JsonValue::Kind::kObject)) {
    return file.Fault("its header is " + Shown(*header) + "; expected an object");
  }
  std::vector<Described> arrays;
  Status fault;
  for (const JsonMember& member : header->members) {
    if (member.name == kMetadata) continue;
    arrays.push_back(
        ReadEntry(member.name, JsonPlace(&member.value, Quoted(member.name), fault), held));
    if (!fault.ok()) return file.Fault(fault.message());
  }
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  for (const Described& array : arrays) parts.emplace_back(array.begin, array.end);
  std::sort(parts.begin(), parts.end());
  uint64_t end = 0;
  for (const auto& [next, behind] : parts) {
    if (next != end) {
      return file.Fault("an array begins at byte " + std::to_string(next) +
                        " behind the header; expected " + std::to_string(end) +
                        ", where the one before it ends");
    }
    end = behind;
  }
  if (end == held) return arrays;
  return file.Fault(std::to_string(held) + " bytes behind the header; expected the " +
                    std::to_string(end) + " of its arrays");
}

// Fills `values` with values of type `type` from byte `offset` of the file on.
Status ReadValues(const DataFile& file, uint64_t offset, const ValueType& type,
                  std::vector<double>& values) {
  std::array<char, kBlock> block;
  for (size_t at = 0; at < values.size();) {
    const size_t count = std::min(values.size() - at, block.size() / type.bytes);
    UCUDNN_RETURN_IF_ERROR(file.Read(offset, std::span(block).first(count * type.bytes)));
    for (size_t i = 0; i < count; ++i) {
      values[at + i] = type.to_double(LittleEndian({block.data() + i * type.bytes, type.bytes}));
    }
    at += count;
    offset += count * type.bytes;
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<NamedArray>> ReadSafetensors(const DataFile& file, uint64_t most_bytes) {
  std::array<char, 8> size_bytes = {};
  if (file.size() < size_bytes.size()) {
    return file.Fault(std::to_string(file.size()) + " bytes; expected a file of safetensors");
  }
  UCUDNN_RETURN_IF_ERROR(file.Read(0, size_bytes));
  const std::string_view begin(size_bytes.data(), size_bytes.size());
  if (begin.starts_with("PK")) {
    return file.Fault(
        "a zip file, as NumPy's npz is; expected safetensors, which "
        "safetensors.numpy.save_file(dict(numpy.load(NPZ)), FILE) makes of it");
  }
  const uint64_t header_bytes = LittleEndian(begin);
  const uint64_t behind = file.size() - size_bytes.size();
  if (header_bytes > std::min(behind, kMostHeaderBytes)) {
    return file.Fault("a header of " + std::to_string(header_bytes) +
                      " bytes; expected safetensors, with at most " +
                      std::to_string(std::min(behind, kMostHeaderBytes)) + " here");
  }
  std::string header(header_bytes, '\0');
  UCUDNN_RETURN_IF_ERROR(file.Read(size_bytes.size(), header));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Described> described,
                          ReadHeader(file, header, behind - header_bytes));
  uint64_t left_values = most_bytes / sizeof(double);
  std::vector<NamedArray> arrays;
  for (const Described& one : described) {
    const uint64_t count = one.count();
    if (count > left_values) {
      return file.Fault(Quoted(one.name) + ": " + std::to_string(count) +
                        " values; expected at most " + std::to_string(left_values) +
                        ", which is what the limit leaves for it");
    }
    left_values -= count;
    NamedArray& array = arrays.emplace_back(NamedArray{one.name, one.shape, {}});
    try {
      array.values.resize(count);
    } catch (const std::bad_alloc&) {
      return file.Fault(Quoted(one.name) + ": " + std::to_string(count) + " values; expected " +
                        FormatByteSize(count * sizeof(double)) + " of memory for them");
    }
    const uint64_t offset = size_bytes.size() + header_bytes + one.begin;
    UCUDNN_RETURN_IF_ERROR(ReadValues(file, offset, *one.type, array.values));
  }
  return arrays;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::vector<std::string> extents;
  for (const int64_t extent : shape) extents.push_back(std::to_string(extent));
  return "[" + Join(extents, ", ") + "]";
}

}  // namespace ucudnn::multigrid
