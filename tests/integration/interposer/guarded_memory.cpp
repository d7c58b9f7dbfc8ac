#include "guarded_memory.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "shim/host/hostgpu.h"

namespace ucudnn::test {
namespace {

constexpr unsigned char kGuard = 0xC3;
constexpr size_t kAlignment = 16;
constexpr size_t kMargin = 2 * kAlignment;  // room for a Placement's offset and for alignment

size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

GuardedMemory::GuardedMemory(size_t bytes, const Placement& placement) : bytes_(bytes) {
  if (bytes == 0) return;
  const size_t page = PageBytes();
  host_bytes_ = RoundUp(bytes + kMargin, page);
  // Two pages for the guards, and one because the block may start anywhere in a page.
  EXPECT_EQ(cudaMalloc(&block_, host_bytes_ + 3 * page), cudaSuccess);
  if (block_ == nullptr) return;
  // The stand-in's kernels access device memory through its host alias, so the alias gets the
  // guards.
  auto* const alias = static_cast<unsigned char*>(hostgpuHostAlias(block_));
  const auto start = reinterpret_cast<uintptr_t>(alias);
  host_ = alias + (RoundUp(start, page) - start) + page;
  std::memset(host_, kGuard, host_bytes_);
  EXPECT_EQ(mprotect(host_ - page, page, PROT_NONE), 0);
  EXPECT_EQ(mprotect(host_ + host_bytes_, page, PROT_NONE), 0);
  before_ = placement.offset;
  if (placement.edge == Placement::Edge::kEnd) {
    before_ += (host_bytes_ - bytes - placement.offset) / kAlignment * kAlignment;
  }
  data_ = static_cast<unsigned char*>(block_) + (host_ - alias) + before_;
}

GuardedMemory::~GuardedMemory() {
  if (block_ == nullptr) return;
  cudaDeviceSynchronize();  // pending work must end before the guards are removed
  const size_t page = PageBytes();
  mprotect(host_ - page, page, PROT_READ | PROT_WRITE);
  mprotect(host_ + host_bytes_, page, PROT_READ | PROT_WRITE);
  cudaFree(block_);
}

void* GuardedMemory::data() const { return data_; }

void GuardedMemory::Upload(const Bytes& content) {
  if (content.empty()) return;
  EXPECT_EQ(cudaMemcpy(data(), content.data(), content.size(), cudaMemcpyHostToDevice),
            cudaSuccess);
}

Bytes GuardedMemory::Download() const {
  Bytes content(bytes_);
  if (bytes_ == 0) return content;
  EXPECT_EQ(cudaMemcpy(content.data(), data(), bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
  return content;
}

bool GuardedMemory::GuardsAreIntact() const {
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const auto intact = [](unsigned char byte) { return byte == kGuard; };
  return std::all_of(host_, host_ + before_, intact) &&
         std::all_of(host_ + before_ + bytes_, host_ + host_bytes_, intact);
}

}  // namespace ucudnn::test
