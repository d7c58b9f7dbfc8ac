// A libcudnn.so.9 for LD_PRELOAD. It appends the name of every cuDNN function that a program calls
// to the file that UCUDNN_TRACE names, one name on each line, and forwards the call to the real
// library, which it finds in the way the drop-in does. Any thread may call.
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

int Missing() { return 1001; }  // this is CUDNN_STATUS_NOT_INITIALIZED

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

// Writes the name of the export, and returns the address of the real function. forwarders.S calls
// this function. Each name is written by one call of write, so lines of several threads do not mix,
// and no line is lost when a signal ends the program.
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
