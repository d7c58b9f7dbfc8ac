#include "shim/host/nccl/reduction.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "shim/host/engines/element.h"

namespace hostgpu::nccl {
namespace {

// Number of elements whose partial results fit in the first-level cache.
constexpr size_t kTile = 2048;

template <class T>
constexpr bool kIsNarrow = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;

// Converts an element to the type in which it is computed. Integers become unsigned, so that they
// wrap around.
template <class T>
auto Wide(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::common_type_t<std::make_unsigned_t<T>, unsigned>>(value);
  } else {
    return Load(value);
  }
}
template <class T, class W>
T Narrowed(W value) {
  if constexpr (kIsNarrow<T>) {
    T narrow;
    Store(narrow, value);
    return narrow;
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
T Larger(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return std::max(a, b);
  } else {
    return Narrowed<T>(std::fmax(Load(a), Load(b)));
  }
}
template <class T>
T Smaller(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return std::min(a, b);
  } else {
    return Narrowed<T>(std::fmin(Load(a), Load(b)));
  }
}

template <class T, class Combine>
void CombineRun(T* to, const T* from, size_t count, const Combine& combine) {
  for (size_t i = 0; i < count; ++i) to[i] = combine(to[i], from[i]);
}

template <class T>
void Accumulate(ncclRedOp_t op, T* to, const T* from, size_t count) {
  switch (op) {
    case ncclProd:
      return CombineRun(to, from, count, [](T a, T b) { return Narrowed<T>(Wide(a) * Wide(b)); });
    case ncclMax:
      return CombineRun(to, from, count, [](T a, T b) { return Larger(a, b); });
    case ncclMin:
      return CombineRun(to, from, count, [](T a, T b) { return Smaller(a, b); });
    default:
      return CombineRun(to, from, count, [](T a, T b) { return Narrowed<T>(Wide(a) + Wide(b)); });
  }
}

// Prepares an average: multiplies each floating-point value by 1 / ranks before the values are
// summed. Leaves integers unchanged, because Divide divides their sum.
template <class T>
void TakeShare(T* values, size_t count, int ranks) {
  if constexpr (!std::is_integral_v<T>) {
    const auto share = Wide(Narrowed<T>(1 / static_cast<decltype(Wide(T{}))>(ranks)));
    for (size_t i = 0; i < count; ++i) values[i] = Narrowed<T>(Wide(values[i]) * share);
  }
}
template <class T>
void Divide(T* values, size_t count, int ranks) {
  if constexpr (std::is_integral_v<T>) {
    using Quotient = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    for (size_t i = 0; i < count; ++i) {
      values[i] = static_cast<T>(static_cast<Quotient>(values[i]) / static_cast<Quotient>(ranks));
    }
  }
}

template <class T>
void ReduceTile(const Reduction& reduction, int first, const std::vector<const char*>& from,
                size_t begin, size_t count, char* to) {
  const int ranks = static_cast<int>(from.size());
  const size_t offset = begin * sizeof(T), bytes = count * sizeof(T);
  T sum[kTile], next[kTile];
  std::memcpy(sum, from[first] + offset, bytes);
  if (reduction.op == ncclAvg) TakeShare(sum, count, ranks);
  for (int step = 1; step < ranks; ++step) {
    std::memcpy(next, from[(first + step) % ranks] + offset, bytes);
    if (reduction.op == ncclAvg) TakeShare(next, count, ranks);
    Accumulate(reduction.op, sum, next, count);
  }
  if (reduction.op == ncclAvg) Divide(sum, count, ranks);
  std::memcpy(to + offset, sum, bytes);
}

template <class T>
void ReduceAs(const Reduction& reduction, const std::vector<const char*>& from, char* to,
              size_t count) {
  const size_t ranks = from.size();
  const size_t part = (count + ranks - 1) / ranks;
  for (size_t begin = 0; begin < count;) {
    const size_t number = begin / part;
    const size_t end = std::min({count, begin + kTile, (number + 1) * part});
    const int first =
        reduction.first >= 0 ? reduction.first : static_cast<int>((number + 1) % ranks);
    ReduceTile<T>(reduction, first, from, begin, end - begin, to);
    begin = end;
  }
}

}  // namespace

size_t ElementBytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

bool CanReduce(ncclDataType_t type) {
  return ElementBytes(type) != 0 && type != ncclFloat8e4m3 && type != ncclFloat8e5m2;
}

void Reduce(const Reduction& reduction, const std::vector<const char*>& from, char* to,
            size_t count) {
  switch (reduction.type) {
    case ncclInt8:
      return ReduceAs<int8_t>(reduction, from, to, count);
    case ncclUint8:
      return ReduceAs<uint8_t>(reduction, from, to, count);
    case ncclInt32:
      return ReduceAs<int32_t>(reduction, from, to, count);
    case ncclUint32:
      return ReduceAs<uint32_t>(reduction, from, to, count);
    case ncclInt64:
      return ReduceAs<int64_t>(reduction, from, to, count);
    case ncclUint64:
      return ReduceAs<uint64_t>(reduction, from, to, count);
    case ncclFloat16:
      return ReduceAs<Half>(reduction, from, to, count);
    case ncclBfloat16:
      return ReduceAs<Bfloat16>(reduction, from, to, count);
    case ncclFloat32:
      return ReduceAs<float>(reduction, from, to, count);
    case ncclFloat64:
      return ReduceAs<double>(reduction, from, to, count);
    default:
      return;
  }
}

}  // namespace hostgpu::nccl
