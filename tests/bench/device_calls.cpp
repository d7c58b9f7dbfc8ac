#include "tests/bench/device_calls.h"

#include <cuda.h>
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <tuple>

#include "tests/bench/allocation_count.h"

namespace ucudnn::bench {
namespace {

std::atomic<bool> left_out = false;

enum Slot {
  kSend,
  kReceive,
  kReduction,
  kToHost,
  kFromHost,
  kCopy,
  kCopy3D,
  kCopyPeer,
  kFill,
  kFill2D,
  kEvent,
  kWaitEvent,
  kWaitValue,
  kWriteValue,
  kHostFunction,
  kGroupStart,
  kGroupEnd,
  kSlots
};

struct Count {
  std::atomic<long> calls = 0, bytes = 0;
  void* original = nullptr;
};
Count counts[kSlots];

// The parameter with index kAmount holds a call's number of bytes. For a reduction, it holds the
// number of elements. With kNothing, only calls are counted.
constexpr int kNothing = -1;
template <Slot kSlot, int kAmount, typename Return, typename... Parameters>
Return Replacement(Parameters... parameters) {
  Count& count = counts[kSlot];
  count.calls.fetch_add(1, std::memory_order_relaxed);
  if constexpr (kAmount != kNothing) {
    auto amount = static_cast<long>(std::get<kAmount>(std::tuple(parameters...)));
    // The parameter after the number of elements is the type: 7 is fp32, and 8 is fp64.
    if constexpr (kSlot == kReduction) {
      amount *= std::get<kAmount + 1>(std::tuple(parameters...)) == 8 ? 8 : 4;
    }
    count.bytes.fetch_add(amount, std::memory_order_relaxed);
  }
  if (left_out.load(std::memory_order_relaxed)) return Return();
  return reinterpret_cast<Return (*)(Parameters...)>(count.original)(parameters...);
}

template <Slot kSlot, int kAmount = kNothing, typename Return, typename... Parameters>
void* Replacing(Return (*)(Parameters...)) {
  return reinterpret_cast<void*>(&Replacement<kSlot, kAmount, Return, Parameters...>);
}

struct Entry {
  const char* name;
  Slot slot;
  void* replacement;
};
// This is a null pointer of the type that the driver's header gives the function.
#define OF_DRIVER(name) static_cast<decltype(&::name)>(nullptr)
const Entry kDriver[] = {
    {"cuMemcpyDtoHAsync", kToHost, Replacing<kToHost, 2>(OF_DRIVER(cuMemcpyDtoHAsync))},
    {"cuMemcpyHtoDAsync", kFromHost, Replacing<kFromHost, 2>(OF_DRIVER(cuMemcpyHtoDAsync))},
    {"cuMemcpyDtoDAsync", kCopy, Replacing<kCopy>(OF_DRIVER(cuMemcpyDtoDAsync))},
    {"cuMemcpy3DAsync", kCopy3D, Replacing<kCopy3D>(OF_DRIVER(cuMemcpy3DAsync))},
    {"cuMemcpyPeerAsync", kCopyPeer, Replacing<kCopyPeer>(OF_DRIVER(cuMemcpyPeerAsync))},
    {"cuMemsetD8Async", kFill, Replacing<kFill>(OF_DRIVER(cuMemsetD8Async))},
    {"cuMemsetD2D8Async", kFill2D, Replacing<kFill2D>(OF_DRIVER(cuMemsetD2D8Async))},
    {"cuEventRecord", kEvent, Replacing<kEvent>(OF_DRIVER(cuEventRecord))},
    {"cuStreamWaitEvent", kWaitEvent, Replacing<kWaitEvent>(OF_DRIVER(cuStreamWaitEvent))},
    {"cuStreamWaitValue32", kWaitValue, Replacing<kWaitValue>(OF_DRIVER(cuStreamWaitValue32))},
    {"cuStreamWriteValue32", kWriteValue, Replacing<kWriteValue>(OF_DRIVER(cuStreamWriteValue32))},
    {"cuLaunchHostFunc", kHostFunction, Replacing<kHostFunction>(OF_DRIVER(cuLaunchHostFunc))},
};
#undef OF_DRIVER

// NCCL's header may be missing, so these types have int for its enums and void* for its handles.
using SendFunction = int(const void*, size_t, int, int, void*, CUstream);
using ReceiveFunction = int(void*, size_t, int, int, void*, CUstream);
using ReduceFunction = int(const void*, void*, size_t, int, int, void*, CUstream);
using GroupFunction = int();
const Entry kNccl[] = {
    {"ncclSend", kSend, Replacing<kSend, 1>(static_cast<SendFunction*>(nullptr))},
    {"ncclRecv", kReceive, Replacing<kReceive, 1>(static_cast<ReceiveFunction*>(nullptr))},
    {"ncclAllReduce", kReduction, Replacing<kReduction, 2>(static_cast<ReduceFunction*>(nullptr))},
    {"ncclGroupStart", kGroupStart, Replacing<kGroupStart>(static_cast<GroupFunction*>(nullptr))},
    {"ncclGroupEnd", kGroupEnd, Replacing<kGroupEnd>(static_cast<GroupFunction*>(nullptr))},
};

template <size_t kEntries>
void* Replaced(const Entry (&entries)[kEntries], const char* name, void* original) {
  for (const Entry& entry : entries) {
    if (original == nullptr || std::strcmp(name, entry.name) != 0) continue;
    counts[entry.slot].original = original;
    return entry.replacement;
  }
  return original;
}

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult*);
GetProcAddress get_proc_address = nullptr;

CUresult CountedProcAddress(const char* name, void** function, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult* found) {
  const CUresult result = get_proc_address(name, function, version, flags, found);
  if (result == CUDA_SUCCESS) *function = Replaced(kDriver, name, *function);
  return result;
}

// Finds the addresses of libucudnn's code, so that allocations by this code are counted separately.
int WatchLibrary(dl_phdr_info* library, size_t, void*) {
  if (std::strstr(library->dlpi_name, "/libucudnn.so") == nullptr) return 0;
  uintptr_t end = 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = library->dlpi_phdr[i];
    if (part.p_type == PT_LOAD) end = library->dlpi_addr + part.p_vaddr + part.p_memsz;
  }
  WatchAllocations(library->dlpi_addr, end);
  return 1;
}

bool IsLibucudnn(const void* address) {
  Dl_info info = {};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "/libucudnn.so") != nullptr;
}

using Dlsym = void* (*)(void*, const char*);
Dlsym RealDlsym() {
  // GLIBC_2.2.5 is the version of dlsym that every glibc for x86-64 has.
  static const auto real = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  if (real == nullptr) {
    std::fprintf(stderr, "device_calls: the C library has no dlsym\n");
    std::exit(1);
  }
  return real;
}

void* CountedSymbol(const char* name, void* found) {
  if (std::strcmp(name, "cuGetProcAddress_v2") != 0 || found == nullptr) {
    return Replaced(kNccl, name, found);
  }
  dl_iterate_phdr(WatchLibrary, nullptr);
  get_proc_address = reinterpret_cast<GetProcAddress>(found);
  return reinterpret_cast<void*>(&CountedProcAddress);
}

long SumOf(std::atomic<long> Count::*member, std::initializer_list<Slot> slots) {
  long sum = 0;
  for (const Slot slot : slots) sum += counts[slot].*member;
  return sum;
}

}  // namespace

DeviceCalls Counted() {
  DeviceCalls calls;
  calls.sends = SumOf(&Count::calls, {kSend, kToHost});
  calls.sent_bytes = SumOf(&Count::bytes, {kSend, kToHost});
  calls.receives = SumOf(&Count::calls, {kReceive, kFromHost});
  calls.received_bytes = SumOf(&Count::bytes, {kReceive, kFromHost});
  calls.reductions = SumOf(&Count::calls, {kReduction});
  calls.reduced_bytes = SumOf(&Count::bytes, {kReduction});
  calls.copies = SumOf(&Count::calls, {kCopy, kCopy3D, kCopyPeer});
  calls.fills = SumOf(&Count::calls, {kFill, kFill2D});
  calls.events = SumOf(&Count::calls, {kEvent, kWriteValue});
  calls.waits = SumOf(&Count::calls, {kWaitEvent, kWaitValue});
  calls.host_functions = SumOf(&Count::calls, {kHostFunction});
  calls.allocations = WatchedAllocations();
  calls.calling_allocations = WatchedAllocationsHere();
  return calls;
}

DeviceCalls DeviceCalls::operator-(const DeviceCalls& before) const {
  DeviceCalls since = *this;
  for (long DeviceCalls::*const member :
       {&DeviceCalls::sends, &DeviceCalls::sent_bytes, &DeviceCalls::receives,
        &DeviceCalls::received_bytes, &DeviceCalls::reductions, &DeviceCalls::reduced_bytes,
        &DeviceCalls::copies, &DeviceCalls::fills, &DeviceCalls::events, &DeviceCalls::waits,
        &DeviceCalls::host_functions, &DeviceCalls::allocations,
        &DeviceCalls::calling_allocations}) {
    since.*member -= before.*member;
  }
  return since;
}

void LeaveOutDevice() { left_out = true; }

}  // namespace ucudnn::bench

#pragma GCC visibility push(default)
// Replaces dlsym for all libraries. libucudnn gets functions that count their calls, and other
// libraries get what they ask for.
extern "C" void* dlsym(void* handle, const char* name) noexcept {
  const auto real = ucudnn::bench::RealDlsym();
  // This must be a tail call, so that RTLD_NEXT is relative to the caller's library.
  if (!ucudnn::bench::IsLibucudnn(__builtin_return_address(0))) return real(handle, name);
  return ucudnn::bench::CountedSymbol(name, real(handle, name));
}
#pragma GCC visibility pop
