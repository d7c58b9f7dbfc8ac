#include "planner/graph/formats/onnx_constants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "base/text.h"
#include "planner/graph/formats/onnx_extents.h"

namespace ucudnn::planner {
namespace {

using Sizes = std::vector<int64_t>;

// Returns the number of significant bits of a type; 0 if the importer does not compute with the
// type.
int BinaryDigits(int64_t type) {
  if (type == kFloat) return 24;
  if (type == kHalf) return 11;
  if (type == kBfloat16) return 8;
  const bool is_whole = (type >= 2 && type <= 7) || type == kBool || type == 12 || type == 13;
  return type == kDouble || is_whole ? 53 : 0;
}

double Rounded(double value, int digits) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::isfinite(value)
             ? std::ldexp(std::nearbyint(std::ldexp(fraction, digits)), exponent - digits)
             : value;
}

template <typename Number>
std::optional<std::vector<double>> FromBytes(const std::string& bytes, int64_t count) {
  if (bytes.size() != static_cast<size_t>(count) * sizeof(Number)) return std::nullopt;
  std::vector<double> values;
  for (size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    values.push_back(static_cast<double>(number));
  }
  return values;
}

template <typename Number, typename Numbers>
std::optional<std::vector<double>> FromEither(const Numbers& numbers, const std::string& bytes,
                                              int64_t count) {
  if (numbers.empty()) return FromBytes<Number>(bytes, count);
  if (numbers.size() != count) return std::nullopt;
  return std::vector<double>(numbers.begin(), numbers.end());
}

// Returns a tensor's bytes from its file of external data. Returns an empty string if `folder` is
// empty, or if the file is not in `folder` itself or cannot be read.
std::string ExternalBytes(const onnx::TensorProto& proto, const std::string& folder,
                          int64_t length) {
  std::string location;
  int64_t offset = 0;
  for (const onnx::StringStringEntryProto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset" && (!ReadNumber(entry.value(), offset) || offset < 0)) return {};
  }
  const std::filesystem::path path = std::filesystem::path(folder) / location;
  std::error_code fault;
  if (folder.empty() || location.empty() || location.find('/') != std::string::npos ||
      !std::filesystem::is_regular_file(path, fault)) {
    return {};
  }
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(static_cast<size_t>(length), '\0');
  stream.seekg(offset);
  if (!stream.read(bytes.data(), length)) return {};
  return bytes;
}

}  // namespace

bool OnnxConstant::IsReal() const {
  return type == kFloat || type == kHalf || type == kDouble || (type >= kBfloat16 && type <= 20);
}

int64_t OnnxConstant::Elements() const {
  __int128 count = 1;
  for (const int64_t extent : dims) {
    if (extent < 0) return -1;
    count *= extent;
    if (count > std::numeric_limits<int64_t>::max()) return -1;
  }
  return static_cast<int64_t>(count);
}

std::optional<std::vector<int64_t>> OnnxConstant::WholeNumbers() const {
  if (!values) return std::nullopt;
  constexpr double kLargest = 9.2e18;
  std::vector<int64_t> numbers;
  for (const double value : *values) {
    if (!(std::abs(value) <= kLargest) || value != std::floor(value)) {
      // A slice up to the end of an axis is often exported with the largest number of the type, and
      // a slice down to the beginning with the smallest. Such numbers are clamped.
      if (!(std::abs(value) > kLargest)) return std::nullopt;
      numbers.push_back(value > 0 ? std::numeric_limits<int64_t>::max()
                                  : std::numeric_limits<int64_t>::min());
    } else {
      numbers.push_back(static_cast<int64_t>(value));
    }
  }
  return numbers;
}

OnnxConstant UnknownConstant() {
  OnnxConstant constant;
  constant.is_known = false;
  return constant;
}

OnnxConstant Bounded(OnnxConstant constant) {
  if (constant.dims.size() > kMostConstantAxes) return UnknownConstant();
  __int128 product = 1;  // of the extents that are not 0, which must not overflow either
  for (const int64_t extent : constant.dims) {
    if (extent < 0 || extent > kLargestConstantExtent) return UnknownConstant();
    product *= std::max<int64_t>(1, extent);
    if (product > std::numeric_limits<int64_t>::max()) return UnknownConstant();
  }
  if (constant.values && static_cast<int64_t>(constant.values->size()) != constant.Elements()) {
    constant.values.reset();
  }
  const int digits = BinaryDigits(constant.type);
  if (constant.values && (constant.values->size() > kMostConstantValues || digits == 0)) {
    constant.values.reset();
  }
  if (constant.values && digits < 53) {
    for (double& value : *constant.values) value = Rounded(value, digits);
  }
  return constant;
}

OnnxConstant ReadConstant(const onnx::TensorProto& proto, int tensor, const std::string& folder) {
  OnnxConstant constant;
  constant.dims.assign(proto.dims().begin(), proto.dims().end());
  constant.type = proto.data_type();
  constant.tensor = tensor;
  constant = Bounded(constant);
  constant.numbers = std::max<int64_t>(0, constant.Elements());
  const int64_t count = constant.Elements();
  if (!constant.is_known || count > kMostConstantValues) return constant;
  if (proto.external_data_size() > 0) {
    if (proto.data_type() == kInt64) {
      constant.values = FromBytes<int64_t>(ExternalBytes(proto, folder, 8 * count), count);
    }
    return constant;
  }
  switch (proto.data_type()) {
    case kFloat:
      constant.values = FromEither<float>(proto.float_data(), proto.raw_data(), count);
      break;
    case kInt32:
      constant.values = FromEither<int32_t>(proto.int32_data(), proto.raw_data(), count);
      break;
    case kBool:
      constant.values = FromEither<int8_t>(proto.int32_data(), proto.raw_data(), count);
      break;
    case kInt64:
      constant.values = FromEither<int64_t>(proto.int64_data(), proto.raw_data(), count);
      break;
    case kDouble:
      constant.values = FromEither<double>(proto.double_data(), proto.raw_data(), count);
      break;
    default:
      break;
  }
  return constant;
}

OnnxConstant ReadSparseConstant(const onnx::SparseTensorProto& sparse, int tensor) {
  OnnxConstant constant;
  constant.dims.assign(sparse.dims().begin(), sparse.dims().end());
  constant.type = sparse.values().data_type();
  constant.tensor = tensor;
  constant = Bounded(constant);
  constant.numbers = std::max<int64_t>(0, constant.Elements());
  const OnnxConstant values = ReadConstant(sparse.values(), -1);
  const auto places = ReadConstant(sparse.indices(), -1).WholeNumbers();
  if (!constant.is_known || constant.numbers > kMostConstantValues || !values.values || !places) {
    return constant;
  }
  // `places` holds for each value either one position in row-major order or one position per axis.
  const size_t rank = places->size() == values.values->size() ? 1 : constant.dims.size();
  if (places->size() != rank * values.values->size()) return constant;
  const Sizes strides = StridesOf(rank == 1 ? Sizes{constant.numbers} : constant.dims);
  std::vector<double> dense(static_cast<size_t>(constant.numbers), 0);
  for (size_t at = 0; at < values.values->size(); ++at) {
    int64_t place = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t index = (*places)[at * rank + axis];
      if (index < 0 || index >= constant.numbers) return constant;
      place += index * strides[axis];
    }
    if (place >= constant.numbers) return constant;
    dense[static_cast<size_t>(place)] = (*values.values)[at];
  }
  constant.values = std::move(dense);
  return constant;
}

OnnxConstant ReadConstantNode(const onnx::NodeProto& node, int tensor, const std::string& folder) {
  const OnnxAttributes attributes(node);
  const auto made = [&](Sizes dims, std::vector<double> values, int64_t type) {
    OnnxConstant constant;
    constant.dims = std::move(dims);
    constant.values = std::move(values);
    constant.type = type;
    constant.tensor = tensor;
    constant.numbers = std::max<int64_t>(0, constant.Elements());
    return Bounded(constant);
  };
  if (const auto* value = attributes.Find("value")) return ReadConstant(value->t(), tensor, folder);
  if (const auto* value = attributes.Find("value_int")) {
    return made({}, {static_cast<double>(value->i())}, kInt64);
  }
  if (const auto* value = attributes.Find("value_float")) return made({}, {value->f()}, kFloat);
  if (const auto* value = attributes.Find("value_ints")) {
    return made({value->ints_size()}, {value->ints().begin(), value->ints().end()}, kInt64);
  }
  if (const auto* value = attributes.Find("value_floats")) {
    return made({value->floats_size()}, {value->floats().begin(), value->floats().end()}, kFloat);
  }
  if (const auto* value = attributes.Find("sparse_value")) {
    return ReadSparseConstant(value->sparse_tensor(), tensor);
  }
  return UnknownConstant();
}

OnnxConstant ShapeConstant(const onnx::NodeProto& node, const std::vector<int64_t>& extents) {
  const OnnxAttributes attributes(node);
  OnnxConstant made;
  if (node.op_type() == "Size") {
    double size = 1;
    for (const int64_t extent : extents) size *= static_cast<double>(extent);
    made.values = {size};
    return made;
  }
  const auto rank = static_cast<int64_t>(extents.size());
  const SlicedAxis part = SliceOf(rank, attributes.Number("start", 0),
                                  attributes.Number("end", std::numeric_limits<int64_t>::max()), 1);
  made.dims = {part.count};
  made.values.emplace(extents.begin() + part.begin, extents.begin() + part.begin + part.count);
  return Bounded(made);
}

}  // namespace ucudnn::planner
