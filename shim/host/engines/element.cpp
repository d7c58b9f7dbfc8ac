#include "shim/host/engines/element.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hostgpu {

float ToFloat(Half value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t mantissa = value.bits & 0x3ffu;
  float magnitude;
  if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  } else {
    const uint32_t bits = (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | mantissa << 13;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
  }
  uint32_t bits;
  std::memcpy(&bits, &magnitude, sizeof bits);
  bits |= sign;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

Half ToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  bits &= 0x7fffffffu;
  uint32_t half;
  if (bits > 0x7f800000u) {
    half = 0x7e00u | ((bits >> 13) & 0x3ffu);
  } else if (bits >= 0x477ff000u) {  // 65520 and more: rounds to infinity
    half = 0x7c00u;
  } else if (bits < 0x38800000u) {  // below 2^-14: adding 0.5f rounds to a multiple of 2^-24
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
    magnitude += 0.5f;
    std::memcpy(&half, &magnitude, sizeof half);
    half -= 0x3f000000u;
  } else {
    half = (bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13;
  }
  return {static_cast<uint16_t>(sign | half)};
}

#if defined(__x86_64__)
namespace {

__attribute__((target("avx,f16c"))) void WidenF16c(const Half* from, float* to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(half));
  }
  for (; i < count; ++i) to[i] = ToFloat(from[i]);
}

__attribute__((target("avx,f16c"))) void NarrowF16c(const float* from, Half* to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half =
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), half);
  }
  for (; i < count; ++i) to[i] = ToHalf(from[i]);
}

// Returns true if the processor has F16C. Every processor with AVX2 has it, and older compilers do
// not accept the name "f16c".
bool HasF16c() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

}  // namespace
#endif

void Widen(const Half* from, float* to, int64_t count) {
#if defined(__x86_64__)
  if (HasF16c()) return WidenF16c(from, to, count);
#endif
  for (int64_t i = 0; i < count; ++i) to[i] = ToFloat(from[i]);
}

void Narrow(const float* from, Half* to, int64_t count) {
#if defined(__x86_64__)
  if (HasF16c()) return NarrowF16c(from, to, count);
#endif
  for (int64_t i = 0; i < count; ++i) to[i] = ToHalf(from[i]);
}

}  // namespace hostgpu
