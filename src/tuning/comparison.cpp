#include "tuning/comparison.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace ucudnn::tuning {
namespace {

constexpr size_t kChunkBytes = size_t{16} << 20;
// The number of elements that SameAndFinite compares at once.
constexpr int64_t kBlock = 1024;

struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

// Returns NaN for infinities, because neither a NaN nor an infinity may agree with any number.
inline float Value(Half half) {
  const uint32_t magnitude = uint32_t{half.bits} & 0x7fffu;
  // The product changes the bias of the exponent from 15 to 127, and also converts subnormal
  // numbers.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const float finite = magnitude >= 0x7c00u ? std::numeric_limits<float>::quiet_NaN() : value;
  return (half.bits & 0x8000u) != 0 ? -finite : finite;
}
inline float Value(Bfloat16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }
inline float Value(float value) { return value; }
inline double Value(double value) { return value; }

// Calls `body` with a value of the element type that `type` names.
template <typename Body>
void WithElement(DataType type, const Body& body) {
  switch (type) {
    case DataType::kFloat:
      return body(float{});
    case DataType::kHalf:
      return body(Half{});
    case DataType::kBfloat16:
      return body(Bfloat16{});
    case DataType::kDouble:
      return body(double{});
  }
}

// The unsigned integer type that holds an element's bits, and the mask of the exponent. In NaN and
// infinity all bits of the exponent are set.
template <typename Element>
struct Encoding {
  using Bits = uint32_t;
  static constexpr Bits kExponent = 0x7f800000u;
};
template <>
struct Encoding<double> {
  using Bits = uint64_t;
  static constexpr Bits kExponent = 0x7ff0000000000000u;
};
template <>
struct Encoding<Half> {
  using Bits = uint16_t;
  static constexpr Bits kExponent = 0x7c00u;
};
template <>
struct Encoding<Bfloat16> {
  using Bits = uint16_t;
  static constexpr Bits kExponent = 0x7f80u;
};

// Returns whether all elements of `got` and `expected` are equal bit by bit and finite. They
// usually are, so this test is made as fast as memory allows.
template <typename Element>
bool SameAndFinite(const Element* got, const Element* expected, int64_t count) {
  using Bits = typename Encoding<Element>::Bits;
  constexpr Bits kExponent = Encoding<Element>::kExponent;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  Bits different = 0, special = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto a = std::bit_cast<Bits>(got[i]);
    different |= static_cast<Bits>(a ^ std::bit_cast<Bits>(expected[i]));
    // The addition carries into the sign bit if and only if all bits of the exponent are set.
    special |= static_cast<Bits>((a & static_cast<Bits>(~kSign)) + (kSign - kExponent));
  }
  return different == 0 && (special & kSign) == 0;
}

// Returns false for NaN, because every comparison with NaN is false, and for infinity, because its
// distance from any value is infinite or NaN.
template <typename Real>
inline bool Agree(Real a, Real b, Real absolute, Real relative) {
  const Real limit = absolute + relative * std::max(std::abs(a), std::abs(b));
  return std::abs(a - b) <= std::min(limit, std::numeric_limits<Real>::max());
}

template <typename Real>
inline bool Agree(Real a, Real b, const Tolerance& tolerance) {
  if (tolerance.specials_agree && !std::isfinite(a) && !std::isfinite(b)) return true;
  constexpr double kMost = std::numeric_limits<Real>::max();
  return Agree(a, b, static_cast<Real>(std::min(tolerance.absolute, kMost)),
               static_cast<Real>(tolerance.relative));
}

// A row of elements at equal distances in a tensor's memory.
struct ElementRun {
  int64_t offset;  // of the first element
  int64_t count;
  int64_t stride;
};

// Compares the elements of `run`. `got` and `expected` point to its first element.
template <typename Element>
void CompareRun(const Element* got, const Element* expected, const ElementRun& run,
                const Tolerance& tolerance, Differences& differences) {
  using Real = decltype(Value(Element{}));
  const auto farthest = [&] { return std::abs(differences.got - differences.expected); };
  for (int64_t begin = 0; begin < run.count; begin += kBlock) {
    const int64_t end = std::min(run.count, begin + kBlock);
    if (run.stride == 1 && SameAndFinite(got + begin, expected + begin, end - begin)) continue;
    for (int64_t i = begin; i < end; ++i) {
      const Real a = Value(got[i * run.stride]), b = Value(expected[i * run.stride]);
      if (Agree(a, b, tolerance)) continue;
      // NaN counts as the largest distance. Of elements with equally large distances, the first one
      // is kept.
      const double apart = std::abs(static_cast<double>(a) - static_cast<double>(b));
      if (differences.count++ == 0 || apart > farthest() ||
          (std::isnan(apart) && !std::isnan(farthest()))) {
        differences.offset = run.offset + i * run.stride;
        differences.got = static_cast<double>(a);
        differences.expected = static_cast<double>(b);
      }
    }
  }
}

template <typename Element>
void CompareTyped(const Comparison& comparison, int64_t begin, std::span<std::byte> got_bytes,
                  std::span<const std::byte> expected_bytes, Differences& differences) {
  const Tensor& tensor = comparison.tensor;
  const Tolerance& tolerance = comparison.tolerance;
  const std::optional<std::byte> untouched = comparison.untouched;
  auto* const got = reinterpret_cast<Element*>(got_bytes.data());
  const auto* const expected = reinterpret_cast<const Element*>(expected_bytes.data());
  const auto count = static_cast<int64_t>(got_bytes.size() / sizeof(Element));
  if (tensor.Elements() == tensor.Span()) {
    return CompareRun(got, expected, {begin, count, 1}, tolerance, differences);
  }
  const std::vector<Axis> axes = SortedAxes(tensor);
  ForEachRun(axes, 0, begin, begin + count, [&](int64_t offset, int64_t elements, int64_t stride) {
    CompareRun(got + (offset - begin), expected + (offset - begin), {offset, elements, stride},
               tolerance, differences);
    if (!untouched) return;
    std::byte* const first = got_bytes.data() + (offset - begin) * sizeof(Element);
    if (stride == 1) {
      std::fill_n(first, elements * sizeof(Element), *untouched);
    } else {
      for (int64_t i = 0; i < elements; ++i) {
        std::fill_n(first + i * stride * sizeof(Element), sizeof(Element), *untouched);
      }
    }
  });
  if (!untouched || differences.gap) return;
  // The elements were compared and then overwritten with `untouched`. So every byte must have this
  // value now, which is so if the first byte has it and each byte equals the next one.
  if (got_bytes.empty() ||
      (got_bytes[0] == *untouched &&
       std::memcmp(got_bytes.data(), got_bytes.data() + 1, got_bytes.size() - 1) == 0)) {
    return;
  }
  const auto written = std::find_if(got_bytes.begin(), got_bytes.end(),
                                    [&](std::byte byte) { return byte != *untouched; });
  if (written != got_bytes.end()) {
    differences.gap = begin * static_cast<int64_t>(sizeof(Element)) + (written - got_bytes.begin());
  }
}

template <typename Element>
double LargestIn(const Tensor& tensor, int64_t begin, std::span<const std::byte> bytes) {
  const auto* const elements = reinterpret_cast<const Element*>(bytes.data());
  const auto end = begin + static_cast<int64_t>(bytes.size() / sizeof(Element));
  double largest = 0;
  ForEachRun(SortedAxes(tensor), 0, begin, end, [&](int64_t offset, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; ++i) {
      const double magnitude = std::abs(Value(elements[offset - begin + i * stride]));
      if (magnitude <= std::numeric_limits<double>::max()) largest = std::max(largest, magnitude);
    }
  });
  return largest;
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

std::string Tell(const Tensor& tensor, const Differences& differences, const Tolerance& tolerance,
                 const std::string& whose) {
  std::string position;
  for (const int64_t index : tensor.Position(differences.offset)) {
    position += (position.empty() ? "" : ", ") + std::to_string(index);
  }
  return std::to_string(differences.count) + " of " + std::to_string(tensor.Elements()) +
         " elements differ; element (" + position + ")" + whose + " is " + Number(differences.got) +
         ", undivided " + Number(differences.expected) + ", tolerance " +
         Number(tolerance.absolute);
}

void CompareChunk(const Comparison& comparison, int64_t begin, std::span<std::byte> got,
                  std::span<const std::byte> expected, Differences& differences) {
  WithElement(comparison.tensor.type, [&](auto element) {
    CompareTyped<decltype(element)>(comparison, begin, got, expected, differences);
  });
}

Result<double> LargestOnDevice(const cuda::Driver& driver, CUstream stream, const Tensor& tensor,
                               CUdeviceptr from) {
  const size_t bytes = tensor.Bytes();
  std::vector<std::byte> chunk(std::min(bytes, kChunkBytes));
  double largest = 0;
  for (size_t begin = 0; begin < bytes; begin += kChunkBytes) {
    const size_t size = std::min(kChunkBytes, bytes - begin);
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        driver, driver.cuMemcpyDtoHAsync(chunk.data(), from + begin, size, stream),
        "copying a result"));
    UCUDNN_RETURN_IF_ERROR(
        cuda::DriverStatus(driver, driver.cuStreamSynchronize(stream), "waiting for a result"));
    const std::span<const std::byte> used = std::span(chunk).first(size);
    WithElement(tensor.type, [&](auto element) {
      using Element = decltype(element);
      const auto first = static_cast<int64_t>(begin / sizeof(Element));
      largest = std::max(largest, LargestIn<Element>(tensor, first, used));
    });
  }
  return largest;
}

Result<Differences> CompareOnDevice(const cuda::Driver& driver, CUstream stream,
                                    const Comparison& comparison, CUdeviceptr got,
                                    CUdeviceptr expected, Clock::time_point deadline) {
  const size_t bytes = comparison.tensor.Bytes();
  const size_t element = ElementBytes(comparison.tensor.type);
  std::vector<std::byte> got_chunk(std::min(bytes, kChunkBytes)), expected_chunk(got_chunk.size());
  Differences differences;
  for (size_t begin = 0; begin < bytes; begin += kChunkBytes) {
    if (Clock::now() >= deadline) return Status::Error("verifying takes too long");
    const size_t size = std::min(kChunkBytes, bytes - begin);
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        driver, driver.cuMemcpyDtoHAsync(got_chunk.data(), got + begin, size, stream),
        "copying a result"));
    UCUDNN_RETURN_IF_ERROR(cuda::DriverStatus(
        driver, driver.cuMemcpyDtoHAsync(expected_chunk.data(), expected + begin, size, stream),
        "copying a result"));
    UCUDNN_RETURN_IF_ERROR(
        cuda::DriverStatus(driver, driver.cuStreamSynchronize(stream), "waiting for a result"));
    CompareChunk(comparison, static_cast<int64_t>(begin / element),
                 std::span(got_chunk).first(size), std::span(expected_chunk).first(size),
                 differences);
  }
  return differences;
}

}  // namespace ucudnn::tuning
