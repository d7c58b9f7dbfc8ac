// Comparing two tensors in device memory, element by element, on the host: copied in chunks.
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
  int64_t offset = 0;  // of the one farthest apart, in elements
  double got = 0;
  double expected = 0;
  std::optional<int64_t> gap;  // the first byte between elements that was written, where looked for
};

// "3 of 64 elements differ; element (1, 0, 0, 5, 5) is 4, undivided 5, tolerance 0"; `whose`
// follows the element's position.
std::string Tell(const Tensor& tensor, const Differences& differences, const Tolerance& tolerance,
                 const std::string& whose = "");

// Compares elements [begin, begin + got.size() / element) of a nested tensor's memory; both spans
// hold the same elements. With `untouched`, bytes between elements must have that value in `got`,
// whose elements are then overwritten.
void CompareChunk(const Tensor& tensor, const Tolerance& tolerance, int64_t begin,
                  std::span<std::byte> got, std::span<const std::byte> expected,
                  std::optional<std::byte> untouched, Differences& differences);

// The largest finite magnitude of a nested tensor in device memory, behind what `stream` holds.
Result<double> LargestOnDevice(const cuda::Driver& driver, CUstream stream, const Tensor& tensor,
                               CUdeviceptr from);

// Compares two nested tensors in device memory behind what `stream` holds. An error when copying
// fails or `deadline` passes before the end; what was different up to then is lost.
Result<Differences> CompareOnDevice(const cuda::Driver& driver, CUstream stream,
                                    const Tensor& tensor, const Tolerance& tolerance,
                                    CUdeviceptr got, CUdeviceptr expected,
                                    std::optional<std::byte> untouched, Clock::time_point deadline);

}  // namespace ucudnn::tuning
