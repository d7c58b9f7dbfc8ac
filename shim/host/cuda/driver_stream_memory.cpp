// Stream memory operations: a stream writes a 32-bit word, or waits until a word meets a condition.
// The word is in device memory or in page-locked host memory. Other processes may have mapped that
// memory too.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <optional>

#include "shim/host/cuda/address.h"
#include "shim/host/cuda/capture.h"
#include "shim/host/cuda/context.h"

using namespace hostgpu;

namespace {

// A waiting thread reads the word this many times before it sleeps.
constexpr int kLooksBeforeSleep = 200;
// A waiting thread sleeps until a stream of the stand-in writes the word. A store by the program
// itself does not wake the thread, so each sleep has a time limit, after which the thread reads the
// word again. The first limit is kShortestSleepNs; each limit is twice the previous one, up to
// kLongestSleepNs.
constexpr long kShortestSleepNs = 20'000;
constexpr long kLongestSleepNs = 1'000'000;

// Returns the address by which the stand-in accesses the word; null if the address is misaligned or
// a device cannot access it.
uint32_t* Word(CUdeviceptr address) {
  if (address == 0 || address % sizeof(uint32_t) != 0) return nullptr;
  const std::optional<Place> place = Locate(address, sizeof(uint32_t));
  return place && place->context ? static_cast<uint32_t*>(place->host) : nullptr;
}

uint32_t Read(const uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

bool Holds(uint32_t found, uint32_t value, unsigned condition) {
  switch (condition) {
    case CU_STREAM_WAIT_VALUE_GEQ:  // the comparison is cyclic, as in CUDA
      return static_cast<int32_t>(found - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return found == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (found & value) != 0;
    default:  // CU_STREAM_WAIT_VALUE_NOR
      return ~(found | value) != 0;
  }
}

void Wait(const uint32_t* word, uint32_t value, unsigned condition) {
  for (int look = 0; look < kLooksBeforeSleep; ++look) {
    if (Holds(Read(word), value, condition)) return;
  }
  long sleep_ns = kShortestSleepNs;
  for (uint32_t found = Read(word); !Holds(found, value, condition); found = Read(word)) {
    const timespec most{0, sleep_ns};
    // The system call returns immediately if the word no longer has the value `found`.
    syscall(SYS_futex, word, FUTEX_WAIT, found, &most, nullptr, 0);
    sleep_ns = std::min(2 * sleep_ns, kLongestSleepNs);
  }
}

void Write(uint32_t* word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

CUresult cuStreamWaitValue32(CUstream handle, CUdeviceptr address, cuuint32_t value,
                             unsigned flags) {
  return CallOnStream(handle, [&](Context&, Stream& stream) -> CUresult {
    // The FLUSH flag asks for remote writes to be flushed, which host memory does not need.
    const unsigned condition = flags & ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH);
    const uint32_t* const word = Word(address);
    if (!word || condition > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
    const auto run = [=] { Wait(word, value, condition); };
    return Submit(stream, {CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, run, {address}});
  });
}

CUresult cuStreamWriteValue32(CUstream handle, CUdeviceptr address, cuuint32_t value,
                              unsigned flags) {
  return CallOnStream(handle, [&](Context&, Stream& stream) -> CUresult {
    uint32_t* const word = Word(address);
    if (!word || (flags & ~static_cast<unsigned>(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const auto run = [=] { Write(word, value); };
    return Submit(stream, {CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, run, {address}});
  });
}
