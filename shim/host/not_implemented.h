// Messages about exports that the stand-ins do not implement. The generated stubs
// (tools/generate-host-stubs) jump to hostgpuNotImplemented, which each stand-in defines with its
// own library's error. Thread-safe.
#pragma once

#include <atomic>
#include <cstdio>

namespace hostgpu {

// A stub's record as the generator lays it out: one byte, followed by the name, which ends with 0.
struct UnimplementedExport {
  std::atomic<bool> was_said;
  const char* Name() const { return reinterpret_cast<const char*>(this + 1); }
};
static_assert(sizeof(UnimplementedExport) == 1);

// Names the export on stderr the first time. `answer` is the name of the error that its callers
// get.
inline void SayNotImplemented(UnimplementedExport& stub, const char* answer) {
  if (stub.was_said.exchange(true)) return;
  std::fprintf(stderr, "hostgpu: %s is not implemented by the CPU stand-in: it returns %s\n",
               stub.Name(), answer);
}

}  // namespace hostgpu

// The result of every stub.
extern "C" [[gnu::visibility("hidden")]] int hostgpuNotImplemented(
    hostgpu::UnimplementedExport* stub);
