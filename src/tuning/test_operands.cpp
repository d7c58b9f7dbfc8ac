#include "tuning/test_operands.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ucudnn::tuning {
namespace {

constexpr size_t kCopiedBytes = size_t{16} << 20;
// The numbers of elements after which a dense operand repeats itself: the first number or, if a
// stride is a multiple of the first number, the second. Both numbers are prime, so that images,
// channels or rows differ from each other. A stride that is a multiple of both numbers would be
// larger than 10^12 elements.
constexpr int64_t kPeriods[] = {1048573, 1048571};

// Mixes the bits of `value`. Source: Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// Stores +-1, or +-2 if `two` is true.
void StoreInteger(DataType type, bool negative, bool two, std::byte* to) {
  const auto store = [&](auto one_bits, auto two_bits) {
    using Bits = decltype(one_bits);
    const Bits sign = Bits{1} << (8 * sizeof(Bits) - 1);
    const Bits bits = static_cast<Bits>((two ? two_bits : one_bits) | (negative ? sign : Bits{0}));
    std::memcpy(to, &bits, sizeof bits);
  };
  switch (type) {
    case DataType::kFloat:
      return store(std::bit_cast<uint32_t>(1.0f), std::bit_cast<uint32_t>(2.0f));
    case DataType::kDouble:
      return store(std::bit_cast<uint64_t>(1.0), std::bit_cast<uint64_t>(2.0));
    case DataType::kHalf:
      return store(uint16_t{0x3c00}, uint16_t{0x4000});
    case DataType::kBfloat16:
      return store(uint16_t{0x3f80}, uint16_t{0x4000});
  }
}

OperandPattern Dense(const Tensor& tensor, bool with_twos, uint64_t seed) {
  const size_t element = ElementBytes(tensor.type);
  const bool repeats = std::any_of(tensor.strides.begin(), tensor.strides.end(),
                                   [](int64_t stride) { return stride % kPeriods[0] == 0; });
  const int64_t count = std::min(tensor.Span(), kPeriods[repeats ? 1 : 0]);
  OperandPattern operand;
  operand.bytes = tensor.Bytes();
  operand.pattern.resize(static_cast<size_t>(count) * element);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t random = Mix(seed + static_cast<uint64_t>(i));
    StoreInteger(tensor.type, (random & 1) != 0, with_twos && (random & 2) != 0,
                 operand.pattern.data() + static_cast<size_t>(i) * element);
  }
  return operand;
}

// Sets of elements of the sparse operand. The elements of a set have numbers. An output element is
// the sum of the terms of one set; output elements that read the same elements have the same set.
struct ReductionSets {
  int64_t sets;
  int64_t length;
  // Returns the offset in memory of element `index` of set `set`.
  int64_t (*offset)(const ConvolutionProblem& problem, const Tensor& tensor, int64_t set,
                    int64_t index);
};

int64_t SpatialOffset(const Tensor& tensor, int64_t pixel) {
  int64_t offset = 0;
  for (int axis = kMaxSpatial + 1; axis >= 2; --axis) {
    offset += pixel % tensor.extents[axis] * tensor.strides[axis];
    pixel /= tensor.extents[axis];
  }
  return offset;
}

ReductionSets SetsOf(const ConvolutionProblem& problem) {
  const int64_t length = ReductionLength(problem);
  switch (problem.operation) {
    case Operation::kForward:  // a set is one filter
      return {problem.k, length,
              [](const ConvolutionProblem&, const Tensor& w, int64_t set, int64_t index) {
                const int64_t taps = w.extents[2] * w.extents[3] * w.extents[4];
                return set * w.strides[0] + index / taps * w.strides[1] +
                       SpatialOffset(w, index % taps);
              }};
    case Operation::kBackwardData:  // a set is one channel of all filters of a group
      return {problem.c, length,
              [](const ConvolutionProblem& p, const Tensor& w, int64_t set, int64_t index) {
                const int64_t taps = w.extents[2] * w.extents[3] * w.extents[4];
                const int64_t group = set / w.extents[1];
                const int64_t filter = group * (p.k / p.groups) + index / taps;
                return filter * w.strides[0] + set % w.extents[1] * w.strides[1] +
                       SpatialOffset(w, index % taps);
              }};
    case Operation::kBackwardFilter:  // a set is one channel of the output's gradient in all images
      break;
  }
  return {problem.k, length,
          [](const ConvolutionProblem&, const Tensor& y, int64_t set, int64_t index) {
            const int64_t pixels = y.extents[2] * y.extents[3] * y.extents[4];
            return index / pixels * y.strides[0] + set * y.strides[1] +
                   SpatialOffset(y, index % pixels);
          }};
}

// Returns the number of consecutive elements of a set of which Sparse makes one nonzero. The number
// is so large that a set has at most MaxExactTerms nonzero elements.
int64_t Spacing(const ConvolutionProblem& problem) {
  const int64_t most = MaxExactTerms(problem);
  return (ReductionLength(problem) + most - 1) / most;
}

// Makes an operand whose elements are 0, except that in each set one of every `spacing` consecutive
// elements is +-1.
OperandPattern Sparse(const ConvolutionProblem& problem, const Tensor& tensor, int64_t spacing,
                      uint64_t seed) {
  const size_t element = ElementBytes(tensor.type);
  OperandPattern operand;
  operand.bytes = tensor.Bytes();
  operand.pattern.resize(operand.bytes);
  const ReductionSets sets = SetsOf(problem);
  for (int64_t set = 0; set < sets.sets; ++set) {
    for (int64_t begin = 0; begin < sets.length; begin += spacing) {
      const uint64_t random = Mix(seed + static_cast<uint64_t>(set * sets.length + begin));
      const int64_t choices = std::min(spacing, sets.length - begin);
      const int64_t index = begin + static_cast<int64_t>((random >> 1) % choices);
      const int64_t offset = sets.offset(problem, tensor, set, index);
      StoreInteger(tensor.type, (random & 1) != 0, false,
                   operand.pattern.data() + static_cast<size_t>(offset) * element);
    }
  }
  return operand;
}

}  // namespace

int64_t TestTerms(const ConvolutionProblem& problem) {
  const int64_t length = ReductionLength(problem), spacing = Spacing(problem);
  return (length + spacing - 1) / spacing;
}

TestOperands MakeTestOperands(const ConvolutionProblem& problem) {
  constexpr uint64_t kDenseSeed = 0x5eed0000000000u, kSparseSeed = 0xca5cade00000000u;
  const bool gradient_of_filter = problem.operation == Operation::kBackwardFilter;
  const Tensor dense =
      problem.operation == Operation::kBackwardData ? OutputTensor(problem) : ImageTensor(problem);
  const Tensor sparse = gradient_of_filter ? OutputTensor(problem) : FilterTensor(problem);
  const int64_t spacing = Spacing(problem);
  return {Dense(dense, true, kDenseSeed), spacing == 1
                                              ? Dense(sparse, false, kSparseSeed)
                                              : Sparse(problem, sparse, spacing, kSparseSeed)};
}

OperandPattern MakeFusedOperand(DataType type, size_t bytes, size_t number) {
  Tensor line;
  line.type = type;
  line.extents[kMaxSpatial + 1] = static_cast<int64_t>(bytes / ElementBytes(type));
  line.strides.fill(1);
  // The seeds of fused operands must differ from the seeds of the convolution's own operands.
  constexpr uint64_t kFirstSeed = uint64_t{1} << 60;
  return Dense(line, false, kFirstSeed * (number + 1));
}

Status Upload(const cuda::Driver& driver, CUstream stream, const OperandPattern& operand,
              CUdeviceptr to) {
  size_t done = std::min(operand.pattern.size(), operand.bytes);
  UCUDNN_RETURN_IF_ERROR(
      cuda::DriverStatus(driver, driver.cuMemcpyHtoDAsync(to, operand.pattern.data(), done, stream),
                         "copying an operand"));
  // Each copy doubles the part that is filled, up to `done`. So `done` stays a multiple of the
  // pattern's size until the last copy.
  while (done < operand.bytes) {
    const size_t size = std::min(done, operand.bytes - done);
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        driver, driver.cuMemcpyDtoDAsync(to + done, to, size, stream), "repeating an operand"));
    done += size;
  }
  return Status::Ok();
}

Result<bool> IsUnchanged(const cuda::Driver& driver, CUstream stream, const OperandPattern& operand,
                         CUdeviceptr from, Clock::time_point deadline) {
  std::vector<std::byte> chunk(std::min(kCopiedBytes, operand.bytes));
  for (size_t begin = 0; begin < operand.bytes; begin += kCopiedBytes) {
    if (Clock::now() >= deadline) return Status::Error("verifying takes too long");
    const size_t size = std::min(kCopiedBytes, operand.bytes - begin);
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        driver, driver.cuMemcpyDtoHAsync(chunk.data(), from + begin, size, stream),
        "copying an operand back"));
    UCUDNN_RETURN_IF_ERROR(
        cuda::DriverStatus(driver, driver.cuStreamSynchronize(stream), "waiting for an operand"));
    for (size_t done = 0; done < size;) {
      const size_t at = (begin + done) % operand.pattern.size();
      const size_t run = std::min(operand.pattern.size() - at, size - done);
      if (std::memcmp(chunk.data() + done, operand.pattern.data() + at, run) != 0) return false;
      done += run;
    }
  }
  return true;
}

}  // namespace ucudnn::tuning
