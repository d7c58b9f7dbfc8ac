#include "free_memory.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "base/byte_size.h"
#include "suites.h"

namespace ucudnn::test {
namespace {

// The stand-in rounds each allocation up. This is an upper bound for the bytes that are added to
// the few segments of ucudnn's workspace.
constexpr size_t kRounding = 8192;

}  // namespace

size_t FreeMemory() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

void ExpectNothingStays(size_t before) {
  const size_t now = FreeMemory();
  const std::optional<size_t> budget = TotalWorkspace();
  if (!budget) {
    EXPECT_EQ(now, before);
    return;
  }
  EXPECT_LE(now, before);
  EXPECT_LE(before - now, *budget + kRounding);
}

NothingStays::NothingStays() : before_(FreeMemory()) {}
NothingStays::~NothingStays() { EXPECT_EQ(FreeMemory(), before_); }

}  // namespace ucudnn::test
