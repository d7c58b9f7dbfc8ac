// A libcudnn.so.9 that writes the name of every cuDNN function that a program calls, in order, one
// a line, to the file in UCUDNN_TRACE, and forwards the call to the real library, which it finds as
// the drop-in does. For LD_PRELOAD; any thread may call.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "cudnn/real_library.h"

namespace {

#define EXPORT(index, name, kind) #name "\n",
constexpr const char* kLines[] = {
#include "exports.inc"
};
#undef EXPORT

std::atomic<void*> targets[EXPORT_COUNT];

int Missing() { return 1001; }  // CUDNN_STATUS_NOT_INITIALIZED

int OpenTrace() {
  const char* path = std::getenv("UCUDNN_TRACE");
  return path != nullptr ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
}

void* FindTarget(const char* name) {
  const ucudnn::cudnn::RealLibrary& real = ucudnn::cudnn::OpenReal(
      std::getenv("UCUDNN_REAL_CUDNN"), reinterpret_cast<const void*>(&FindTarget));
  void* const function = real.library ? real.library->Symbol(name) : nullptr;
  return function != nullptr ? function : reinterpret_cast<void*>(&Missing);
}

}  // namespace

// Called by forwarders.S. Each call is one write, so that lines of several threads do not mix and
// nothing is lost when a signal ends the program.
extern "C" __attribute__((visibility("hidden"))) void* UcudnnTraceCall(unsigned index) {
  static const int file = OpenTrace();
  const char* const line = kLines[index];
  const size_t length = std::strlen(line);
  if (file >= 0 && write(file, line, length) < 0) { /* a full disk must not stop the program */
  }
  void* target = targets[index].load(std::memory_order_acquire);
  if (target == nullptr) {
    char name[128] = {};
    std::memcpy(name, line, length - 1);
    target = FindTarget(name);
    targets[index].store(target, std::memory_order_release);
  }
  return target;
}
