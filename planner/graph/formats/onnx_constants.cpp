#include "planner/graph/formats/onnx_constants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ucudnn::planner {
namespace {

constexpr int64_t kMostValues = 1024;
constexpr int kMostDimensions = 16;

// What is larger is not computed with, so that small files cannot take much memory.
OnnxConstant Bounded(OnnxConstant constant) {
  if (constant.dims.size() > kMostDimensions) return {{-1}, std::nullopt};
  if (constant.values && constant.values->size() > kMostValues) constant.values.reset();
  return constant;
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

// The element that `index` means in a row of `count`; none outside.
std::optional<size_t> ElementAt(int64_t index, size_t count) {
  const auto size = static_cast<int64_t>(count);
  if (index < -size || index >= size) return std::nullopt;
  return static_cast<size_t>(index < 0 ? index + size : index);
}

// The numbers of `row` at `indices`.
OnnxConstant Gathered(const OnnxConstant& row, const OnnxConstant& indices) {
  OnnxConstant result{indices.dims, std::vector<double>()};
  const auto wanted = indices.WholeNumbers();
  if (!wanted || !row.values) return {indices.dims, std::nullopt};
  for (const int64_t index : *wanted) {
    const auto position = ElementAt(index, row.values->size());
    if (!position) return {indices.dims, std::nullopt};
    result.values->push_back((*row.values)[*position]);
  }
  return result;
}

OnnxConstant Joined(const std::vector<const OnnxConstant*>& inputs) {
  OnnxConstant result{{0}, std::vector<double>()};
  for (const OnnxConstant* input : inputs) {
    if (input == nullptr || !input->values || input->dims.size() > 1) return {};
    result.values->insert(result.values->end(), input->values->begin(), input->values->end());
    result.dims[0] = static_cast<int64_t>(result.values->size());
    if (result.dims[0] > kMostValues) return {};
  }
  return result;
}

// A part of a row, without steps.
OnnxConstant Sliced(const OnnxConstant& row, const std::vector<int64_t>& starts,
                    const std::vector<int64_t>& ends) {
  if (!row.values || row.dims.size() != 1 || starts.size() != 1 || ends.size() != 1) return {};
  const auto size = static_cast<int64_t>(row.values->size());
  const auto bounded = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? std::max(at, -size) + size : at, 0, size);
  };
  const int64_t begin = bounded(starts[0]);
  const int64_t end = std::max(begin, bounded(ends[0]));
  return {{end - begin},
          std::vector<double>(row.values->begin() + begin, row.values->begin() + end)};
}

// The extents of `first` where it is repeated to those of `wanted`.
std::vector<int64_t> Broadcast(std::vector<int64_t> first, std::vector<int64_t> wanted) {
  const size_t rank = std::max(first.size(), wanted.size());
  first.insert(first.begin(), rank - first.size(), 1);
  wanted.insert(wanted.begin(), rank - wanted.size(), 1);
  for (size_t axis = 0; axis < rank; ++axis) {
    if (first[axis] == 1) first[axis] = wanted[axis];
  }
  return first;
}

OnnxConstant Transposed(const OnnxConstant& constant, const std::vector<int64_t>& permutation) {
  OnnxConstant result;
  for (size_t i = 0; i < constant.dims.size(); ++i) {
    const int64_t from = permutation.empty() ? static_cast<int64_t>(constant.dims.size() - 1 - i)
                         : i < permutation.size() ? permutation[i]
                                                  : -1;
    if (from < 0 || from >= static_cast<int64_t>(constant.dims.size())) return {};
    result.dims.push_back(constant.dims[static_cast<size_t>(from)]);
  }
  return result;
}

}  // namespace

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
      // Slices to the end say so by the largest number there is.
      if (!(value > kLargest)) return std::nullopt;
      numbers.push_back(std::numeric_limits<int64_t>::max());
    } else {
      numbers.push_back(static_cast<int64_t>(value));
    }
  }
  return numbers;
}

OnnxConstant ReadConstant(const onnx::TensorProto& tensor) {
  enum { kFloat = 1, kInt32 = 6, kInt64 = 7, kDouble = 11 };
  if (tensor.dims_size() > kMostDimensions) return {{-1}, std::nullopt};
  OnnxConstant constant{{tensor.dims().begin(), tensor.dims().end()}, std::nullopt};
  const int64_t count = constant.Elements();
  if (count < 0 || count > kMostValues) return constant;
  switch (tensor.data_type()) {
    case kFloat:
      constant.values = FromEither<float>(tensor.float_data(), tensor.raw_data(), count);
      break;
    case kInt32:
      constant.values = FromEither<int32_t>(tensor.int32_data(), tensor.raw_data(), count);
      break;
    case kInt64:
      constant.values = FromEither<int64_t>(tensor.int64_data(), tensor.raw_data(), count);
      break;
    case kDouble:
      constant.values = FromEither<double>(tensor.double_data(), tensor.raw_data(), count);
      break;
    default:
      break;
  }
  return constant;
}

OnnxConstant ReadConstantNode(const onnx::NodeProto& node) {
  const OnnxAttributes attributes(node);
  if (const auto* value = attributes.Find("value")) return ReadConstant(value->t());
  if (const auto* value = attributes.Find("value_int")) {
    return {{}, std::vector<double>{static_cast<double>(value->i())}};
  }
  if (const auto* value = attributes.Find("value_float")) {
    return {{}, std::vector<double>{value->f()}};
  }
  if (const auto* value = attributes.Find("value_ints")) {
    return Bounded(
        {{value->ints_size()}, std::vector<double>(value->ints().begin(), value->ints().end())});
  }
  if (const auto* value = attributes.Find("value_floats")) {
    return Bounded({{value->floats_size()},
                    std::vector<double>(value->floats().begin(), value->floats().end())});
  }
  return {};
}

OnnxConstant ShapeConstant(const onnx::NodeProto& node, const std::vector<int64_t>& extents) {
  const OnnxAttributes attributes(node);
  const OnnxConstant all = Bounded({{static_cast<int64_t>(extents.size())},
                                    std::vector<double>(extents.begin(), extents.end())});
  return Sliced(all, {attributes.Number("start", 0)},
                {attributes.Number("end", std::numeric_limits<int64_t>::max())});
}

OnnxConstant FoldConstants(const onnx::NodeProto& node,
                           const std::vector<const OnnxConstant*>& inputs) {
  const std::string& type = node.op_type();
  const OnnxAttributes attributes(node);
  if (inputs.empty() || inputs[0] == nullptr) return {};
  const OnnxConstant& first = *inputs[0];
  const auto numbers = [&](size_t input, const char* attribute) {
    std::optional<std::vector<int64_t>> values;
    if (input < inputs.size() && inputs[input] != nullptr) values = inputs[input]->WholeNumbers();
    return values ? *values : attributes.Numbers(attribute);
  };
  if (type == "Identity" || type == "Cast" || type == "CastLike") return first;
  if (type == "Expand" && inputs.size() == 2 && inputs[1] != nullptr) {
    const auto dims = inputs[1]->WholeNumbers();
    const bool one = first.repeated || (first.values && first.values->size() == 1);
    return Bounded({dims ? Broadcast(first.dims, *dims) : first.dims, std::nullopt, one});
  }
  if (type == "Gather" && inputs.size() == 2 && inputs[1] != nullptr && first.dims.size() == 1) {
    return Bounded(Gathered(first, *inputs[1]));
  }
  if (type == "Concat") return Joined(inputs);
  if (type == "Slice") return Sliced(first, numbers(1, "starts"), numbers(2, "ends"));
  if (type == "Transpose") return Transposed(first, attributes.Numbers("perm"));
  if ((type == "Squeeze" || type == "Unsqueeze") && first.dims.size() <= 1) {
    // Between a number and a row of one.
    if (first.Elements() == 1) return {{1}, first.values};
    return first;
  }
  if (type == "Reshape" && inputs.size() == 2 && inputs[1] != nullptr) {
    const auto dims = inputs[1]->WholeNumbers();
    return Bounded({dims ? *dims : std::vector<int64_t>(), first.values});
  }
  return {first.dims, std::nullopt};
}

}  // namespace ucudnn::planner
