// Prints messages about exports that the stand-ins do not implement. The stubs that
// tools/generate-host-stubs writes jump to hostgpuNotImplemented, which each stand-in defines with
// an error of the library that it replaces. Thread-safe.
#pragma once

#include <atomic>
#include <cstdio>

namespace hostgpu {

// A stub's record as the generator writes it: one byte, and then the name, which ends with a zero
// byte.
struct UnimplementedExport {
  std::atomic<bool> was_said;
  const char* Name() const { return reinterpret_cast<const char*>(this + 1); }
};
static_assert(sizeof(UnimplementedExport) == 1);

// Prints the export's name to stderr at the first call. `answer` is the name of the error that
// callers of the export get.
inline void SayNotImplemented(UnimplementedExport& stub, const char* answer) {
  if (stub.was_said.exchange(true)) return;
  std::fprintf(stderr, "hostgpu: %s is not implemented by the CPU stand-in: it returns %s\n",
               stub.Name(), answer);
}

}  // namespace hostgpu

// Returns the error that each stub returns.
extern "C" [[gnu::visibility("hidden")]] int hostgpuNotImplemented(
    hostgpu::UnimplementedExport* stub);
