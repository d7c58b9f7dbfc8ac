#include "cases.h"

#include <gtest/gtest.h>

#include <sstream>

#include "libraries.h"

namespace ucudnn::test {
namespace {

enum class Memory { kNchw, kNhwc, kPadded };

struct Geometry {
  int n, c, k, groups;
  Spatial x, w, pad, stride, dilation;
  ConvolutionMode mode;
};

constexpr auto kPlain = ConvolutionMode::kCrossCorrelation;
constexpr auto kFlipped = ConvolutionMode::kConvolution;

// Geometry 0 has input images with an odd number of elements, so only every fourth boundary between
// fp32 images is aligned. Geometry 2 is depthwise with 2 filters for each channel. 2-D cases ignore
// depth.
const Geometry kGeometries[] = {
    {7, 3, 4, 1, {3, 5, 5}, {2, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, kPlain},
    {13, 4, 6, 2, {4, 6, 5}, {1, 3, 2}, {0, 1, 0}, {2, 2, 1}, {1, 1, 1}, kFlipped},
    {5, 4, 8, 4, {3, 8, 8}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}, {1, 2, 2}, kPlain},
    {13, 2, 3, 1, {2, 7, 9}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}, kPlain},
    {6, 6, 4, 2, {4, 9, 8}, {2, 5, 3}, {1, 2, 2}, {2, 2, 1}, {1, 1, 2}, kFlipped},
};

// Row 0: input and output images have odd numbers of elements. Row 1: an input image has an even
// number that is not a multiple of 4, and an output image has an odd number. Row 2: both numbers
// are multiples of 4 but not of 8 (in 3-D, multiples of 8).
const Geometry kUnaligned[] = {
    {1, 3, 5, 1, {3, 5, 7}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}, kPlain},
    {1, 2, 1, 1, {3, 5, 5}, {1, 3, 3}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}, kFlipped},
    {1, 4, 12, 4, {2, 7, 9}, {1, 3, 1}, {0, 1, 0}, {1, 1, 1}, {1, 1, 1}, kPlain},
};

const Scales kScales[] = {{1, 0}, {1, 1}, {2, -1}, {0.5, 2}, {-1, 0}};

// Returns strides that are not multiples of each other (except the depth stride in 2-D), with gaps
// between any two elements.
Strides PaddedStrides(int channels, const Spatial& extents, int rank) {
  Strides strides;
  int64_t stride = 2;
  for (int axis = 4; axis >= 0; --axis) {
    if (axis == 2 && rank == 2) continue;
    strides[axis] = stride;
    stride = stride * (axis >= 2 ? extents[axis - 2] : channels) + 3;
  }
  if (rank == 2) strides[2] = strides[3] * extents[1];
  return strides;
}

ConvolutionProblem Problem(const Geometry& geometry, Operation operation, DataType type,
                           Memory memory, int rank) {
  ConvolutionProblem problem;
  problem.operation = operation;
  problem.spatial_rank = rank;
  problem.n = geometry.n;
  problem.c = geometry.c;
  problem.k = geometry.k;
  problem.groups = geometry.groups;
  for (int axis = kMaxSpatial - rank; axis < kMaxSpatial; ++axis) {
    problem.x[axis] = geometry.x[axis];
    problem.w[axis] = geometry.w[axis];
    problem.pad[axis] = geometry.pad[axis];
    problem.stride[axis] = geometry.stride[axis];
    problem.dilation[axis] = geometry.dilation[axis];
  }
  problem.type = type;
  problem.compute = type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  problem.mode = geometry.mode;
  problem.layout = memory == Memory::kNhwc ? Layout::kNhwc : Layout::kNchw;
  SetPackedStrides(problem);
  if (memory == Memory::kPadded) {
    problem.x_strides = PaddedStrides(problem.c, problem.x, rank);
    problem.y_strides = PaddedStrides(problem.k, OutputExtents(problem), rank);
  }
  problem = AsRead(problem);
  const int step = LegalStep(problem);
  if (problem.n <= step) problem.n = step + 3;
  return problem;
}

}  // namespace

ConvolutionProblem AsRead(const ConvolutionProblem& problem) {
  cudnn::OwnedDescriptors descriptors(Undivided());
  const Status status = descriptors.Create(problem);
  EXPECT_TRUE(status.ok()) << status.message();
  ConvolutionProblem read;
  const char* const refused =
      cudnn::ReadProblem(Undivided(), problem.operation, descriptors.get(), read);
  EXPECT_EQ(refused, nullptr) << refused;
  return read;
}

std::vector<Case> CasesOf(Operation operation, Extra extra, bool z_is_y) {
  std::vector<Case> cases;
  size_t next = 0;  // shifts the scales, so that each scale is paired with every geometry
  for (const DataType type :
       {DataType::kFloat, DataType::kHalf, DataType::kBfloat16, DataType::kDouble})
    for (const Memory memory : {Memory::kNchw, Memory::kNhwc, Memory::kPadded})
      for (const int rank : {2, 3}) {
        for (const Geometry& geometry : kGeometries) {
          cases.push_back({Problem(geometry, operation, type, memory, rank), extra, z_is_y,
                           kScales[next++ % std::size(kScales)]});
        }
        ++next;
      }
  return cases;
}

std::vector<Case> UnalignedCasesOf(Operation operation) {
  std::vector<Case> cases;
  for (const DataType type :
       {DataType::kFloat, DataType::kHalf, DataType::kBfloat16, DataType::kDouble})
    for (const Memory memory : {Memory::kNchw, Memory::kNhwc, Memory::kPadded})
      for (const int rank : {2, 3})
        for (const Geometry& geometry : kUnaligned) {
          ConvolutionProblem problem = Problem(geometry, operation, type, memory, rank);
          if (memory == Memory::kPadded) {
            problem.x_strides[0] |= 1;
            problem.y_strides[0] |= 1;
          }
          const int step = LegalStep(problem);
          if (step == 1) continue;
          const size_t next = cases.size();
          problem.n = 3 * step + (next % 2 == 0 ? 1 : step - 1);
          cases.push_back(
              {AsRead(problem), Extra::kNone, false, kScales[next % std::size(kScales)]});
        }
  return cases;
}

std::string Describe(const Case& which) {
  std::ostringstream text;
  text << Describe(which.problem) << " strides";
  for (const int64_t stride : which.problem.x_strides) text << " " << stride;
  text << " alpha " << which.scales.alpha << " beta " << which.scales.beta;
  if (which.extra != Extra::kNone) text << (which.z_is_y ? " z is y" : " z apart");
  return text.str();
}

}  // namespace ucudnn::test
