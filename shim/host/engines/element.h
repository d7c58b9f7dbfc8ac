// The element types of tensors and their conversion to the type the engines compute in:
// fp32 for fp32, fp16 and bf16; fp64 for fp64. Rounding is to nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "shim/host/engines/engine.h"

namespace hostgpu {

struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

float ToFloat(Half value);
Half ToHalf(float value);

// Runs of elements; written once per type because fp16 has an instruction worth looking for.
void Widen(const Half* from, float* to, int64_t count);
void Narrow(const float* from, Half* to, int64_t count);

inline float ToFloat(Bfloat16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

inline Bfloat16 ToBfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline float Load(Half value) { return ToFloat(value); }
inline float Load(Bfloat16 value) { return ToFloat(value); }
inline float Load(float value) { return value; }
inline double Load(double value) { return value; }

inline void Store(Half& to, float value) { to = ToHalf(value); }
inline void Store(Bfloat16& to, float value) { to = ToBfloat16(value); }
inline void Store(float& to, float value) { to = value; }
inline void Store(double& to, double value) { to = value; }

// to[i] = from[i * from_stride], widened.
template <class T>
void LoadRun(const T* from, int64_t from_stride, Accumulator<T>* to, int64_t count) {
  if (from_stride != 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = Load(from[i * from_stride]);
  } else if constexpr (std::is_same_v<T, Half>) {
    Widen(from, to, count);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = Load(from[i]);
  }
}

// to[i * to_stride] = alpha * from[i * from_stride] + beta * to[i * to_stride], narrowed once.
// beta = 0 does not read `to`.
template <class T>
void BlendRun(const Accumulator<T>* from, int64_t from_stride, T* to, int64_t to_stride,
              int64_t count, Accumulator<T> alpha, Accumulator<T> beta) {
  if (beta != 0) {
    for (int64_t i = 0; i < count; ++i) {
      T& element = to[i * to_stride];
      Store(element, alpha * from[i * from_stride] + beta * Load(element));
    }
  } else if (from_stride != 1 || to_stride != 1) {
    for (int64_t i = 0; i < count; ++i) Store(to[i * to_stride], alpha * from[i * from_stride]);
  } else {
    if constexpr (std::is_same_v<T, Half>) {
      if (alpha == 1) return Narrow(from, to, count);
    }
    for (int64_t i = 0; i < count; ++i) Store(to[i], alpha * from[i]);
  }
}

// Calls body(T{}) with the storage type `type` names.
template <class Body>
auto WithElement(DataType type, const Body& body) {
  switch (type) {
    case DataType::kHalf:
      return body(Half{});
    case DataType::kBfloat16:
      return body(Bfloat16{});
    case DataType::kDouble:
      return body(double{});
    case DataType::kFloat:
      break;
  }
  return body(float{});
}

}  // namespace hostgpu
