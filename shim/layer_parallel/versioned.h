// Checks and converts versioned structs of the C API. Their first member is the size that the
// struct had in the version with which the program was compiled. Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "base/status.h"

namespace ucudnn::layer_parallel {

// Returns Ok if given.struct_size is one of `sizes`. `name` is the argument's name in the error.
template <typename Struct>
Status CheckVersion(const char* name, const Struct& given, std::span<const size_t> sizes) {
  if (std::find(sizes.begin(), sizes.end(), given.struct_size) != sizes.end()) return Status::Ok();
  std::string expected;
  for (const size_t size : sizes) {
    expected += (expected.empty() ? "" : " or ") + std::to_string(size);
  }
  return Status::Error(std::string(name) + "->struct_size is " + std::to_string(given.struct_size) +
                       "; " + expected + " is expected");
}

// Returns `given` with 0 in the members that its version lacks.
template <typename Struct>
Result<Struct> ReadVersion(const char* name, const Struct& given, std::span<const size_t> sizes) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  UCUDNN_RETURN_IF_ERROR(CheckVersion(name, given, sizes));
  Struct read = {};
  std::memcpy(&read, &given, given.struct_size);
  return read;
}

// Copies to `given` the members of `made` that the version of `given` has. REQUIRES: CheckVersion
// returned Ok.
template <typename Struct>
void WriteVersion(Struct made, Struct& given) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  made.struct_size = given.struct_size;
  std::memcpy(&given, &made, given.struct_size);
}

}  // namespace ucudnn::layer_parallel
