// Compares two tensors in device memory, element by element. The tensors are copied to the host in
// chunks and compared there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "cuda/resources.h"
#include "tuning/budget.h"
#include "tuning/tensor.h"
#include "tuning/tolerance.h"

namespace ucudnn::tuning {

struct Differences {
  int64_t count = 0;   // elements beyond the tolerance
  int64_t offset = 0;  // offset of the element with the largest difference, in elements
  double got = 0;
  double expected = 0;
  // The byte offset of the first byte between elements that was written. None if there is no such
  // byte, or if `untouched` of the Comparison is not set.
  std::optional<int64_t> gap;
};

// Returns a sentence such as "3 of 64 elements differ; element (1, 0, 0, 5, 5) is 4, undivided 5,
// tolerance 0". `whose` is inserted after the element's position.
std::string Tell(const Tensor& tensor, const Differences& differences, const Tolerance& tolerance,
                 const std::string& whose = "");

// The layout of the tensors to compare, and how strictly they are compared.
struct Comparison {
  const Tensor& tensor;  // layout of both results; must be nested (Tensor::IsNested)
  Tolerance tolerance;
  // If set, the bytes between the elements of the checked result `got` must have this value.
  std::optional<std::byte> untouched;
};

// Compares a chunk of a tensor's memory that begins at the element `begin`, and adds what it finds
// to `differences`. `got` holds the chunk of the checked result, and `expected` the chunk of the
// expected result. If comparison.untouched is set, overwrites the elements of `got`.
void CompareChunk(const Comparison& comparison, int64_t begin, std::span<std::byte> got,
                  std::span<const std::byte> expected, Differences& differences);

// Returns the largest finite magnitude of an element of a nested tensor in device memory. Waits for
// earlier work on `stream`.
Result<double> LargestOnDevice(const cuda::Driver& driver, CUstream stream, const Tensor& tensor,
                               CUdeviceptr from);

// Waits for earlier work on `stream`, then compares two tensors in device memory. Fails if copying
// fails, or if `deadline` passes before the end.
Result<Differences> CompareOnDevice(const cuda::Driver& driver, CUstream stream,
                                    const Comparison& comparison, CUdeviceptr got,
                                    CUdeviceptr expected, Clock::time_point deadline);
}  // namespace ucudnn::tuning
