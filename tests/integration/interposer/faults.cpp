#include "faults.h"

#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "shim/host/hostgpu.h"

namespace {

std::atomic<bool> counting = false;
std::atomic<long> allocations = 0, failing = 0;
uintptr_t text_begin = 0, text_end = 0;

void FindLibraryText() {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void*) {
        if (std::strstr(info->dlpi_name, "libucudnn.so") == nullptr) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
          text_begin = info->dlpi_addr + header.p_vaddr;
          text_end = text_begin + header.p_memsz;
        }
        return 1;
      },
      nullptr);
}

// Returns whether the allocation by `caller` must fail (see FailAllocation). Not used in builds
// with a sanitizer.
[[maybe_unused]] bool Fails(void* caller) {
  if (!counting) return false;
  const auto address = reinterpret_cast<uintptr_t>(caller);
  return address >= text_begin && address < text_end && ++allocations == failing;
}

}  // namespace

// In builds with a sanitizer, allocations cannot be made to fail. There malloc belongs to the
// sanitizer, or libstdc++ calls malloc from outside of libucudnn's code.
#if !defined(SANITIZED)
#define INTERPOSES_MALLOC 1
extern "C" {
void* __libc_malloc(size_t);
void* __libc_realloc(void*, size_t);
__attribute__((visibility("default"))) void* malloc(size_t bytes) {
  return Fails(__builtin_return_address(0)) ? nullptr : __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void* realloc(void* old, size_t bytes) {
  return Fails(__builtin_return_address(0)) ? nullptr : __libc_realloc(old, bytes);
}
}
#endif

namespace ucudnn::test {

bool AllocationsCanFail() {
#ifdef INTERPOSES_MALLOC
  return true;
#else
  return false;
#endif
}

void FailAllocation(long kth) {
  if (text_begin == 0) FindLibraryText();
  EXPECT_NE(text_begin, 0u);
  allocations = 0;
  failing = kth;
  counting = true;
}

long AllocationsSince() {
  counting = false;
  return allocations;
}

bool EveryFault() {
  static const char* const faults = std::getenv("INTERPOSER_TEST_FAULTS");
  return faults != nullptr && std::string_view(faults) == "every";
}

void Fault::Arm() const {
  if (site_ == kHostMemory) return FailAllocation(std::max(left_, 0L));
  hostgpuInjectFault(site_.c_str(), std::max(left_, 0L));
}

void Fault::Disarm() {
  const bool host = site_ == kHostMemory;
  const long seen = host ? AllocationsSince() : hostgpuFaultCount(site_.c_str());
  if (!host) hostgpuInjectFault(site_.c_str(), 0);
  last_failed_ = left_ > 0 && seen == left_;
  left_ -= seen;
}

}  // namespace ucudnn::test
