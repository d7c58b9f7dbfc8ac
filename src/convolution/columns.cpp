#include "convolution/columns.h"

#include <algorithm>
#include <span>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr int64_t kLargestExtent = std::numeric_limits<int32_t>::max();
constexpr int64_t kLargestStride = std::numeric_limits<int64_t>::max() / 16;
constexpr int64_t kLargestAlignment = 65536;

// In each list, the index of a text is the value of its enumerator.
constexpr const char* kOperations[] = {"forward", "backward_data", "backward_filter"};
constexpr const char* kTypes[] = {"fp32", "fp16", "bf16", "fp64"};
constexpr const char* kLayouts[] = {"nchw", "nhwc"};
constexpr const char* kModes[] = {"cross_correlation", "convolution"};
constexpr const char* kMaths[] = {"default", "tensor_op", "tensor_op_allow_conversion", "fma"};

// The names of the columns of one axis.
struct Axis {
  const char* x;
  const char* w;
  const char* pad;
  const char* stride;
  const char* dilation;
  const char* pad_post;
};
constexpr Axis kAxes[kMaxSpatial] = {{"d", "t", "pad_d", "stride_d", "dilation_d", "pad_d_post"},
                                     {"h", "r", "pad_h", "stride_h", "dilation_h", "pad_h_post"},
                                     {"w", "s", "pad_w", "stride_w", "dilation_w", "pad_w_post"}};

Status Refuse(const std::string& column, std::string_view value, const std::string& expected) {
  return Status::Error("column '" + column + "': " + Quoted(value) + "; expected " + expected);
}

template <typename T>
Status ReadChoice(const FieldLookup& field, const char* column, std::span<const char* const> names,
                  T& out) {
  const std::string* text = field(column);
  if (text == nullptr) return Status::Ok();
  for (size_t i = 0; i < names.size(); ++i) {
    if (*text == names[i]) {
      out = static_cast<T>(i);
      return Status::Ok();
    }
  }
  return Refuse(column, *text, "one of " + Join({names.begin(), names.end()}, ", "));
}

Status ReadInt(const FieldLookup& field, const char* column, std::optional<int64_t> absent,
               int64_t least, int32_t& out) {
  UCUDNN_ASSIGN_OR_RETURN(const int64_t value, ReadWholeNumber(field, column, absent, least));
  out = static_cast<int32_t>(value);
  return Status::Ok();
}

DataType UsualCompute(DataType type) {
  return type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
}

// Returns `strides`. For a 2-D problem, the depth stride comes from `packed` instead, because the
// text form omits it.
Strides WithPackedDepth(const ConvolutionProblem& problem, Strides strides, const Strides& packed) {
  if (problem.spatial_rank == 2) strides[2] = packed[2];
  return strides;
}

std::string StridesText(const ConvolutionProblem& problem, const Strides& strides,
                        const Strides& packed) {
  if (WithPackedDepth(problem, strides, packed) == packed) return {};
  std::vector<std::string> parts;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    if (axis == 2 && problem.spatial_rank == 2) continue;
    parts.push_back(std::to_string(strides[axis]));
  }
  return Join(parts, ":");
}

Status ReadStrides(const FieldLookup& field, const char* column, const ConvolutionProblem& problem,
                   const Strides& packed, Strides& out) {
  out = packed;
  const std::string* text = field(column);
  if (text == nullptr) return Status::Ok();
  const size_t numbers = static_cast<size_t>(problem.spatial_rank) + 2;
  const std::vector<std::string> parts = Split(*text, ':');
  size_t axis = 0;
  for (const std::string& part : parts) {
    if (axis == 2 && problem.spatial_rank == 2) ++axis;
    if (parts.size() != numbers || !ReadNumber(part, out[axis]) || out[axis] < 1 ||
        out[axis] > kLargestStride) {
      return Refuse(column, *text,
                    std::to_string(numbers) + " strides in elements, each from 1 to " +
                        std::to_string(kLargestStride) + ", joined by ':' (" +
                        (numbers == 4 ? "n:c:h:w" : "n:c:d:h:w") + ")");
    }
    ++axis;
  }
  return Status::Ok();
}

// Returns whether a tensor has 2^63 bytes or more from its first to its last element.
bool SpansTooMuch(int64_t n, int64_t channels, const Spatial& extents, const Strides& strides,
                  DataType type) {
  const int64_t counts[] = {n, channels, extents[0], extents[1], extents[2]};
  // Each of the 5 axes adds at most 2^31 elements times kLargestStride (2^59), and an element has
  // at most 8 bytes, so the number of bytes is less than 2^96.
  __int128 elements = 1;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    elements += static_cast<__int128>(std::max<int64_t>(counts[axis], 1) - 1) * strides[axis];
  }
  return elements * static_cast<int64_t>(ElementBytes(type)) > std::numeric_limits<int64_t>::max();
}

bool ProductFits63Bits(std::initializer_list<int64_t> factors) {
  __int128 product = 1;
  for (const int64_t factor : factors) {
    product *= factor;
    if (product > std::numeric_limits<int64_t>::max()) return false;
  }
  return true;
}

// Refuses a problem whose padded image exceeds kLargestExtent or whose output is empty.
// OutputExtents clamps nothing for the accepted problems.
Status CheckOutput(const ConvolutionProblem& problem) {
  for (int axis = kMaxSpatial - problem.spatial_rank; axis < kMaxSpatial; ++axis) {
    const Axis& names = kAxes[axis];
    const int64_t padded = PaddedExtent(problem, static_cast<size_t>(axis));
    const int64_t filter = (int64_t{problem.w[axis]} - 1) * problem.dilation[axis] + 1;
    if (padded > kLargestExtent) {
      const int32_t extra = problem.extra_pad[axis];
      return Refuse(extra > 0 ? names.pad_post : names.pad,
                    std::to_string(problem.pad[axis] + std::max(extra, 0)),
                    std::string("a padded image of at most 2147483647, but '") + names.x + "' is " +
                        std::to_string(problem.x[axis]));
    }
    if (filter > padded) {
      return Refuse(
          names.w, std::to_string(problem.w[axis]),
          "a filter that with its dilation spans at most the padded image, but it spans " +
              std::to_string(filter) + " of " + std::to_string(padded));
    }
  }
  return Status::Ok();
}

Status CheckSizes(const ConvolutionProblem& problem) {
  const Spatial& x = problem.x;
  const Spatial& w = problem.w;
  const Spatial y = OutputExtents(problem);
  const auto bytes = static_cast<int64_t>(ElementBytes(problem.type));
  const int64_t n = std::max(problem.n, 1);
  if (ProductFits63Bits({n, problem.c, x[0], x[1], x[2], bytes}) &&
      ProductFits63Bits({n, problem.k, y[0], y[1], y[2], bytes}) &&
      ProductFits63Bits({problem.k, problem.c / problem.groups, w[0], w[1], w[2], bytes})) {
    return Status::Ok();
  }
  return Status::Error("the tensors of " + Describe(problem) +
                       " are larger than 2^63 bytes; expected extents whose product fits");
}

Status ReadAxes(const FieldLookup& field, ConvolutionProblem& problem) {
  if (field("d") != nullptr) problem.spatial_rank = 3;
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    const Axis& names = kAxes[axis];
    if (axis < kMaxSpatial - problem.spatial_rank) {
      for (const char* column :
           {names.w, names.pad, names.stride, names.dilation, names.pad_post}) {
        if (const std::string* text = field(column); text != nullptr) {
          return Refuse(column, *text, "nothing: the row has no 'd', so it is two-dimensional");
        }
      }
      continue;
    }
    UCUDNN_RETURN_IF_ERROR(ReadInt(field, names.x, std::nullopt, 1, problem.x[axis]));
    UCUDNN_RETURN_IF_ERROR(ReadInt(field, names.w, std::nullopt, 1, problem.w[axis]));
    UCUDNN_RETURN_IF_ERROR(ReadInt(field, names.pad, 0, 0, problem.pad[axis]));
    UCUDNN_RETURN_IF_ERROR(ReadInt(field, names.stride, 1, 1, problem.stride[axis]));
    UCUDNN_RETURN_IF_ERROR(ReadInt(field, names.dilation, 1, 1, problem.dilation[axis]));
    int32_t behind = 0;
    UCUDNN_RETURN_IF_ERROR(ReadInt(field, names.pad_post, problem.pad[axis], 0, behind));
    problem.extra_pad[axis] = behind - problem.pad[axis];
  }
  return Status::Ok();
}

Status ReadChannels(const FieldLookup& field, ConvolutionProblem& problem) {
  UCUDNN_RETURN_IF_ERROR(ReadInt(field, "n", 0, field("n") == nullptr ? 0 : 1, problem.n));
  UCUDNN_RETURN_IF_ERROR(ReadInt(field, "c", std::nullopt, 1, problem.c));
  UCUDNN_RETURN_IF_ERROR(ReadInt(field, "k", std::nullopt, 1, problem.k));
  UCUDNN_RETURN_IF_ERROR(ReadInt(field, "groups", 1, 1, problem.groups));
  if (problem.c % problem.groups != 0 || problem.k % problem.groups != 0) {
    return Refuse(
        "groups", std::to_string(problem.groups),
        "a divisor of c = " + std::to_string(problem.c) + " and k = " + std::to_string(problem.k));
  }
  return Status::Ok();
}

Status ReadAlignment(const FieldLookup& field, ConvolutionProblem& problem) {
  UCUDNN_RETURN_IF_ERROR(ReadInt(field, "align", 1, 1, problem.alignment));
  if (problem.alignment > kLargestAlignment || (problem.alignment & (problem.alignment - 1)) != 0) {
    return Refuse("align", std::to_string(problem.alignment),
                  "a power of two of at most " + std::to_string(kLargestAlignment));
  }
  return Status::Ok();
}

}  // namespace

const std::vector<std::string>& RequiredLayerColumns() {
  static const auto* const columns = new std::vector<std::string>{"c", "h", "w", "k", "r", "s"};
  return *columns;
}

const std::vector<std::string>& LayerColumns() {
  static const auto* const columns = new std::vector<std::string>{
      "c",      "h",        "w",        "k",          "r",          "s",         "pad_h",
      "pad_w",  "stride_h", "stride_w", "dilation_h", "dilation_w", "groups",    "dtype",
      "layout", "d",        "t",        "pad_d",      "stride_d",   "dilation_d"};
  return *columns;
}

const std::vector<std::string>& NumericColumns() {
  static const auto* const columns =
      new std::vector<std::string>{"math", "compute", "mode", "x_strides", "y_strides", "align"};
  return *columns;
}

const std::vector<std::string>& PostPadColumns() {
  static const auto* const columns = [] {
    auto* all = new std::vector<std::string>;
    for (const Axis& axis : kAxes) all->push_back(axis.pad_post);
    return all;
  }();
  return *columns;
}

std::vector<std::pair<std::string, std::string>> ToColumns(const ConvolutionProblem& problem) {
  std::vector<std::pair<std::string, std::string>> columns;
  columns.reserve(1 + LayerColumns().size() + NumericColumns().size() + PostPadColumns().size());
  const auto text = [&](const char* column, std::string value) {
    columns.emplace_back(column, std::move(value));
  };
  const auto number = [&](const char* column, int32_t value) {
    text(column, std::to_string(value));
  };
  text("n", problem.n == 0 ? "" : std::to_string(problem.n));
  number("c", problem.c);
  number("h", problem.x[1]);
  number("w", problem.x[2]);
  number("k", problem.k);
  number("r", problem.w[1]);
  number("s", problem.w[2]);
  number("pad_h", problem.pad[1]);
  number("pad_w", problem.pad[2]);
  number("stride_h", problem.stride[1]);
  number("stride_w", problem.stride[2]);
  number("dilation_h", problem.dilation[1]);
  number("dilation_w", problem.dilation[2]);
  number("groups", problem.groups);
  text("dtype", kTypes[static_cast<int>(problem.type)]);
  text("layout", kLayouts[static_cast<int>(problem.layout)]);
  const bool deep = problem.spatial_rank == 3;
  const auto depth = [&](const char* column, const Spatial& values) {
    text(column, deep ? std::to_string(values[0]) : "");
  };
  depth("d", problem.x);
  depth("t", problem.w);
  depth("pad_d", problem.pad);
  depth("stride_d", problem.stride);
  depth("dilation_d", problem.dilation);

  text("math", problem.math == MathType::kDefault ? "" : kMaths[static_cast<int>(problem.math)]);
  text("compute", problem.compute == UsualCompute(problem.type)
                      ? ""
                      : kTypes[static_cast<int>(problem.compute)]);
  text("mode", problem.mode == ConvolutionMode::kCrossCorrelation
                   ? ""
                   : kModes[static_cast<int>(problem.mode)]);
  ConvolutionProblem packed = problem;
  SetPackedStrides(packed);
  text("x_strides", StridesText(problem, problem.x_strides, packed.x_strides));
  text("y_strides", StridesText(problem, problem.y_strides, packed.y_strides));
  text("align", problem.alignment == 1 ? "" : std::to_string(problem.alignment));
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    const int32_t extra = problem.extra_pad[axis];
    text(kAxes[axis].pad_post, extra == 0 ? "" : std::to_string(problem.pad[axis] + extra));
  }
  return columns;
}

Result<ConvolutionProblem> FromColumns(const FieldLookup& field) {
  ConvolutionProblem problem;
  UCUDNN_RETURN_IF_ERROR(ReadChoice(field, "op", kOperations, problem.operation));
  UCUDNN_RETURN_IF_ERROR(ReadAxes(field, problem));
  UCUDNN_RETURN_IF_ERROR(ReadChannels(field, problem));
  UCUDNN_RETURN_IF_ERROR(ReadChoice(field, "dtype", kTypes, problem.type));
  UCUDNN_RETURN_IF_ERROR(ReadChoice(field, "layout", kLayouts, problem.layout));
  UCUDNN_RETURN_IF_ERROR(ReadChoice(field, "math", kMaths, problem.math));
  problem.compute = UsualCompute(problem.type);
  UCUDNN_RETURN_IF_ERROR(ReadChoice(field, "compute", kTypes, problem.compute));
  UCUDNN_RETURN_IF_ERROR(ReadChoice(field, "mode", kModes, problem.mode));
  UCUDNN_RETURN_IF_ERROR(ReadAlignment(field, problem));
  UCUDNN_RETURN_IF_ERROR(CheckOutput(problem));
  UCUDNN_RETURN_IF_ERROR(CheckSizes(problem));

  ConvolutionProblem packed = problem;
  SetPackedStrides(packed);
  UCUDNN_RETURN_IF_ERROR(
      ReadStrides(field, "x_strides", problem, packed.x_strides, problem.x_strides));
  UCUDNN_RETURN_IF_ERROR(
      ReadStrides(field, "y_strides", problem, packed.y_strides, problem.y_strides));
  if (SpansTooMuch(problem.n, problem.c, problem.x, problem.x_strides, problem.type)) {
    return Refuse("x_strides", *field("x_strides"), "a tensor of less than 2^63 bytes");
  }
  if (SpansTooMuch(problem.n, problem.k, OutputExtents(problem), problem.y_strides, problem.type)) {
    return Refuse("y_strides", *field("y_strides"), "a tensor of less than 2^63 bytes");
  }
  if (problem.spatial_rank == 2) {
    problem.x_strides[2] = problem.x_strides[3] * problem.x[1];
    problem.y_strides[2] = problem.y_strides[3] * OutputExtents(problem)[1];
  }
  return problem;
}

Result<Operation> ParseOperation(std::string_view text) {
  for (size_t i = 0; i < std::size(kOperations); ++i) {
    if (Trim(text) == kOperations[i]) return static_cast<Operation>(i);
  }
  return Status::Error(Quoted(text) + " is not an operation; expected one of " +
                       Join({std::begin(kOperations), std::end(kOperations)}, ", "));
}

Result<std::vector<Operation>> ParseOperations(std::string_view text) {
  std::vector<Operation> operations;
  for (const std::string& part : Split(text, ',')) {
    UCUDNN_ASSIGN_OR_RETURN(const Operation operation, ParseOperation(part));
    if (std::find(operations.begin(), operations.end(), operation) != operations.end()) {
      return Status::Error(Quoted(part) + " occurs twice; expected each operation once");
    }
    operations.push_back(operation);
  }
  return operations;
}

Result<int64_t> ReadWholeNumber(const FieldLookup& field, const std::string& column,
                                std::optional<int64_t> absent, int64_t least, int64_t most) {
  const std::string expected =
      "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  const std::string* text = field(column);
  if (text == nullptr) {
    if (absent.has_value()) return *absent;
    return Status::Error("column '" + column + "': empty; expected " + expected);
  }
  int64_t value = 0;
  if (!ReadNumber(*text, value) || value < least || value > most) {
    return Refuse(column, *text, expected);
  }
  return value;
}

}  // namespace ucudnn
