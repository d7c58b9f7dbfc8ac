#include "convolution/problem.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

namespace ucudnn {
namespace {

static_assert(std::has_unique_object_representations_v<ConvolutionProblem>,
              "Hash() reads the bytes of a problem");
static_assert(sizeof(ConvolutionProblem) % sizeof(uint64_t) == 0);

std::string Extents(const Spatial& extents, int rank) {
  std::string text;
  for (int axis = kMaxSpatial - rank; axis < kMaxSpatial; ++axis) {
    if (!text.empty()) text += "x";
    text += std::to_string(extents[axis]);
  }
  return text;
}

}  // namespace

uint64_t ConvolutionProblem::Hash() const {
  constexpr size_t kWords = sizeof(ConvolutionProblem) / sizeof(uint64_t);
  std::array<uint64_t, kWords> words;
  std::memcpy(words.data(), this, sizeof(*this));
  // Every call hashes a problem. So the words are mixed in two independent chains of operations,
  // which the CPU computes in parallel.
  uint64_t a = 0x9e3779b97f4a7c15u;
  uint64_t b = 0xc2b2ae3d27d4eb4fu;
  for (size_t i = 0; i + 1 < kWords; i += 2) {
    a = std::rotl(a ^ words[i], 29) * 0x9fb21c651e98df25u;
    b = std::rotl(b ^ words[i + 1], 31) * 0xd6e8feb86659fd93u;
  }
  if (kWords % 2 == 1) a = std::rotl(a ^ words[kWords - 1], 29) * 0x9fb21c651e98df25u;
  const uint64_t mixed = a ^ std::rotl(b, 17);
  return mixed ^ (mixed >> 32);
}

Spatial OutputExtents(const ConvolutionProblem& problem) {
  Spatial y;
  for (int axis = 0; axis < kMaxSpatial; ++axis) {
    const int64_t effective = (problem.w[axis] - int64_t{1}) * problem.dilation[axis] + 1;
    const int64_t padded = PaddedExtent(problem, static_cast<size_t>(axis));
    // Every call computes the extents. Most strides are 1, and dividing by 1 is skipped because a
    // division is slow.
    const int64_t range = padded - effective;
    const int stride = problem.stride[axis];
    // An extent that is outside of int becomes the nearest int, which callers refuse as too large
    // or empty.
    y[axis] = static_cast<int>(std::clamp<int64_t>(1 + (stride == 1 ? range : range / stride),
                                                   std::numeric_limits<int>::min(),
                                                   std::numeric_limits<int>::max()));
  }
  return y;
}

Strides PackedStrides(Layout layout, int64_t channels, const Spatial& extents) {
  const int64_t d = extents[0], h = extents[1], w = extents[2];
  if (layout == Layout::kNchw) return {channels * d * h * w, d * h * w, h * w, w, 1};
  return {channels * d * h * w, 1, h * w * channels, w * channels, channels};
}

void SetPackedStrides(ConvolutionProblem& problem) {
  problem.x_strides = PackedStrides(problem.layout, problem.c, problem.x);
  problem.y_strides = PackedStrides(problem.layout, problem.k, OutputExtents(problem));
}

size_t ElementBytes(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return 4;
    case DataType::kHalf:
    case DataType::kBfloat16:
      return 2;
    case DataType::kDouble:
      return 8;
  }
  return 0;
}

int LegalStep(const ConvolutionProblem& problem) {
  const int64_t alignment = problem.alignment;
  const auto element = static_cast<int64_t>(ElementBytes(problem.type));
  int64_t step = 1;
  for (const Strides& strides : {problem.x_strides, problem.y_strides}) {
    const int64_t image_bytes = strides[0] * element;
    step = std::lcm(step, alignment / std::gcd(alignment, image_bytes));
  }
  return static_cast<int>(step);
}

ConvolutionProblem KernelFamily(ConvolutionProblem problem) {
  problem.n = 0;
  return problem;
}

std::string Describe(const ConvolutionProblem& problem) {
  const int rank = problem.spatial_rank;
  // n is 0 in a kernel family, and in an imported row that lacks `n`.
  const std::string n = problem.n == 0 ? "N" : std::to_string(problem.n);
  std::string text = std::string(OperationName(problem.operation)) + " " + n + "x" +
                     std::to_string(problem.c) + "x" + Extents(problem.x, rank) + " -> " +
                     std::to_string(problem.k) + ", " + Extents(problem.w, rank) + " pad " +
                     Extents(problem.pad, rank);
  if (!problem.HasEvenPads()) {
    Spatial behind = problem.pad;
    for (int axis = 0; axis < kMaxSpatial; ++axis) behind[axis] += problem.extra_pad[axis];
    text += " and " + Extents(behind, rank) + " behind";
  }
  if (problem.stride != Spatial{1, 1, 1}) text += " stride " + Extents(problem.stride, rank);
  if (problem.dilation != Spatial{1, 1, 1}) text += " dilation " + Extents(problem.dilation, rank);
  if (problem.groups != 1) text += " groups " + std::to_string(problem.groups);
  text += std::string(" ") + DataTypeName(problem.type);
  text += problem.layout == Layout::kNchw ? " nchw" : " nhwc";
  return text;
}

const char* OperationName(Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return "forward";
    case Operation::kBackwardData:
      return "backward_data";
    case Operation::kBackwardFilter:
      return "backward_filter";
  }
  return "";
}

const char* DataTypeName(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return "fp32";
    case DataType::kHalf:
      return "fp16";
    case DataType::kBfloat16:
      return "bf16";
    case DataType::kDouble:
      return "fp64";
  }
  return "";
}

}  // namespace ucudnn
