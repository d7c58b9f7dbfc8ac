// The element types of tensors, and their conversion to the type in which the engines compute: fp32
// for fp32, fp16 and bf16; fp64 for fp64 and for integers, whose products are then summed exactly.
// Rounding is to nearest, ties to even.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
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
using Accumulator =
    std::conditional_t<std::is_same_v<T, double> || std::is_integral_v<T>, double, float>;

float ToFloat(Half value);
Half ToHalf(float value);

// Widen and Narrow convert `count` fp16 elements, with the processor's fp16 instructions if any.
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
inline double Load(int8_t value) { return value; }
inline double Load(int32_t value) { return value; }

inline void Store(Half& to, float value) { to = ToHalf(value); }
inline void Store(Bfloat16& to, float value) { to = ToBfloat16(value); }
inline void Store(float& to, float value) { to = value; }
inline void Store(double& to, double value) { to = value; }

// Stores the integer nearest to `value`. A value outside the type's range becomes the nearest value
// of the type, and NaN becomes 0.
template <class Integer>
void StoreInteger(Integer& to, double value) {
  constexpr double kLeast = std::numeric_limits<Integer>::min();
  constexpr double kMost = std::numeric_limits<Integer>::max();
  to = std::isnan(value) ? Integer{0}
                         : static_cast<Integer>(std::clamp(std::nearbyint(value), kLeast, kMost));
}
inline void Store(int8_t& to, double value) { StoreInteger(to, value); }
inline void Store(int32_t& to, double value) { StoreInteger(to, value); }

// Sets to[i] = from[i * from_stride] for i < count, converted to the accumulator type.
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

// Sets to[i * to_stride] = alpha * from[i * from_stride] + beta * to[i * to_stride], and rounds
// each result once. A may be wider than the accumulator type of T. If beta is 0, `to` is not read.
template <class A, class T>
void BlendRun(const A* from, int64_t from_stride, T* to, int64_t to_stride, int64_t count,
              std::type_identity_t<A> alpha, std::type_identity_t<A> beta) {
  using Narrowed = Accumulator<T>;
  if (beta != 0) {
    for (int64_t i = 0; i < count; ++i) {
      T& element = to[i * to_stride];
      Store(element, static_cast<Narrowed>(alpha * from[i * from_stride] + beta * Load(element)));
    }
  } else if (from_stride != 1 || to_stride != 1) {
    for (int64_t i = 0; i < count; ++i) {
      Store(to[i * to_stride], static_cast<Narrowed>(alpha * from[i * from_stride]));
    }
  } else {
    if constexpr (std::is_same_v<T, Half> && std::is_same_v<A, float>) {
      if (alpha == 1) return Narrow(from, to, count);
    }
    for (int64_t i = 0; i < count; ++i) Store(to[i], static_cast<Narrowed>(alpha * from[i]));
  }
}

// Calls body(T{}), where T is the element type for `type`. `type` must not be an integer type.
template <class Body>
auto WithElement(DataType type, const Body& body) {
  switch (type) {
    case DataType::kHalf:
      return body(Half{});
    case DataType::kBfloat16:
      return body(Bfloat16{});
    case DataType::kDouble:
      return body(double{});
    default:
      break;
  }
  return body(float{});
}

// Does what WithElement does, and also accepts integer types.
template <class Body>
auto WithNumber(DataType type, const Body& body) {
  switch (type) {
    case DataType::kInt8:
      return body(int8_t{});
    case DataType::kInt32:
      return body(int32_t{});
    default:
      return WithElement(type, body);
  }
}

}  // namespace hostgpu
