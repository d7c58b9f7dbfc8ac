// The names and parameters of the kernels come from CCCL 3 in CUDA 13: cub/device/dispatch/kernels
// and thrust/system/cuda/detail.
#include "shim/host/cudart/known_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <regex>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shim/host/enqueue.h"

namespace hostgpu::runtime {
namespace {

// A C++ number type with its name. A long double can hold every value of each of these types.
struct Number {
  std::string_view name;
  size_t bytes;
  long double (*read)(const void* from);
  void (*write)(long double value, void* to);
};

// Converts as a GPU does: a value outside an integer type's range becomes the nearest value of the
// type, and NaN becomes 0.
template <class T>
T ConvertTo(long double value) {
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(value)) return 0;
    if (value <= std::numeric_limits<T>::min()) return std::numeric_limits<T>::min();
    if (value >= std::numeric_limits<T>::max()) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}

template <class T>
constexpr Number NumberOf(std::string_view name) {
  return {name, sizeof(T),
          [](const void* from) {
            T value;
            std::memcpy(&value, from, sizeof value);
            return static_cast<long double>(value);
          },
          [](long double wide, void* to) {
            const T value = ConvertTo<T>(wide);
            std::memcpy(to, &value, sizeof value);
          }};
}

constexpr Number kNumbers[] = {NumberOf<float>("float"),
                               NumberOf<double>("double"),
                               NumberOf<char>("char"),
                               NumberOf<signed char>("signed char"),
                               NumberOf<uint8_t>("unsigned char"),
                               NumberOf<short>("short"),
                               NumberOf<uint16_t>("unsigned short"),
                               NumberOf<int>("int"),
                               NumberOf<unsigned>("unsigned int"),
                               NumberOf<long>("long"),
                               NumberOf<unsigned long>("unsigned long")};

const Number* FindNumber(const std::string& name) {
  const auto* const found = std::find_if(std::begin(kNumbers), std::end(kNumbers),
                                         [&](const Number& n) { return n.name == name; });
  return found == std::end(kNumbers) ? nullptr : found;
}

template <class T>
T Argument(const void* argument) {
  T value;
  std::memcpy(&value, argument, sizeof value);
  return value;
}

// Returns the number of elements that a launch processes. This number is the launch's first
// argument, to which `argument` points; it has the integer type `type`.
size_t CountOf(const Number& type, const void* argument) {
  return static_cast<size_t>(std::max(0.0L, type.read(argument)));
}

bool IsDeviceMemory(const void* address, size_t bytes) {
  return bytes == 0 || hostgpuBytesFrom(address) >= bytes;
}

cudaError_t Enqueue(cudaStream_t stream, std::initializer_list<const void*> uses,
                    std::function<void()> work) {
  return EnqueueOn(stream, uses, std::move(work)) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

// Returns the computation of static_kernel(count, functor{to, value}), which sets `count` elements
// to `value`.
KnownKernel Fill(const Number& count_type, const Number& to_type, const Number& value_type) {
  return [&](void** arguments, cudaStream_t stream) {
    const size_t count = CountOf(count_type, arguments[0]);
    const auto* const functor = static_cast<const char*>(arguments[1]);
    char* const to = Argument<char*>(functor);
    if (!IsDeviceMemory(to, count * to_type.bytes)) return cudaErrorIllegalAddress;
    const long double value = value_type.read(functor + sizeof to);
    return Enqueue(stream, {to}, [=, &to_type] {
      auto* const host = static_cast<char*>(hostgpuHostAlias(to));
      if (count > 0) to_type.write(value, host);
      // Copies the filled part to the bytes after it until all bytes are filled; each copy doubles
      // the filled part.
      const size_t bytes = count * to_type.bytes;
      for (size_t done = to_type.bytes; done < bytes; done *= 2) {
        std::memcpy(host + done, host, std::min(done, bytes - done));
      }
    });
  };
}

// Returns the computation of transform_kernel(count, elements per thread, identity, to, from),
// which copies `count` elements.
KnownKernel Copy(const Number& count_type, const Number& to_type, const Number& from_type) {
  return [&](void** arguments, cudaStream_t stream) {
    const size_t count = CountOf(count_type, arguments[0]);
    char* const to = Argument<char*>(arguments[3]);
    const char* const from = Argument<const char*>(arguments[4]);
    if (!IsDeviceMemory(to, count * to_type.bytes) ||
        !IsDeviceMemory(from, count * from_type.bytes)) {
      return cudaErrorIllegalAddress;
    }
    return Enqueue(stream, {to, from}, [=, &to_type, &from_type] {
      auto* const host_to = static_cast<char*>(hostgpuHostAlias(to));
      const auto* const host_from = static_cast<const char*>(hostgpuHostAlias(from));
      for (size_t i = 0; i < count; ++i) {
        to_type.write(from_type.read(host_from + i * from_type.bytes), host_to + i * to_type.bytes);
      }
    });
  };
}

struct Pattern {
  std::regex name;  // groups: the types of the count, of the written and of the read elements
  KnownKernel (*kernel)(const Number&, const Number&, const Number&);
};

// The patterns accept any name of the inner namespace of CUB and Thrust, because that name contains
// their version and the GPUs for which they were compiled.
const std::vector<Pattern>& Patterns() {
  static const auto* const patterns = new std::vector<Pattern>{
      {std::regex(R"(void cub::(?:\w+::)?detail::for_each::static_kernel<[\w: ]+, ([a-z ]+), )"
                  R"(thrust::(?:\w+::)?cuda_cub::__fill::functor<)"
                  R"(thrust::(?:\w+::)?device_ptr<([a-z ]+)>, ([a-z ]+)> ?>\(.*)"),
       Fill},
      {std::regex(R"(void cub::(?:\w+::)?detail::transform::transform_kernel<.*, ([a-z ]+), )"
                  R"(cuda::std::(?:\w+::)?__identity, )"
                  R"(thrust::(?:\w+::)?device_ptr<([a-z ]+)>, ([a-z ]+)\*>\(.*)"),
       Copy}};
  return *patterns;
}

}  // namespace

KnownKernel FindKnownKernel(const std::string& name) {
  // std::regex recurses for each matched character, so a long name could overflow the stack.
  constexpr size_t kLongestName = 1000;
  if (name.size() > kLongestName) return {};
  for (const Pattern& pattern : Patterns()) {
    std::smatch types;
    if (!std::regex_match(name, types, pattern.name)) continue;
    const Number* const count = FindNumber(types[1]);
    const Number* const to = FindNumber(types[2]);
    const Number* const from = FindNumber(types[3]);
    if (count && to && from) return pattern.kernel(*count, *to, *from);
  }
  return {};
}

}  // namespace hostgpu::runtime
