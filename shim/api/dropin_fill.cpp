#include "api/dropin_fill.h"

#include <cudnn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "api/hooks.h"
#include "base/log.h"
#include "cudnn/real_library.h"
#include "options/options.h"

namespace {

using ucudnn::cudnn::RealLibrary;

// Substitutes for functions that the real library lacks. All functions with the same return type
// share one substitute. It ignores its arguments; by the x86-64 ABI the caller removes them from
// the stack.
cudnnStatus_t NotSupported() { return CUDNN_STATUS_NOT_SUPPORTED; }
cudnnStatus_t NotInitialized() { return CUDNN_STATUS_NOT_INITIALIZED; }
size_t ZeroSize() { return 0; }
const void* NullPointer() { return nullptr; }
void Nothing() {}

// Programs print the returned text without a check for null, so there is a text even without cuDNN.
const char* ErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    default:
      return "CUDNN_STATUS_UNKNOWN (no real cuDNN was found)";
  }
}

void LastErrorString(char* message, size_t bytes) {
  if (message != nullptr && bytes > 0) {
    std::snprintf(message, bytes, "no real cuDNN 9 was found (set UCUDNN_REAL_CUDNN)");
  }
}

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

void* MissingFunction(unsigned char kind) {
  switch (kind) {
    case kUcudnnReturnsSize:
      return Address(ZeroSize);
    case kUcudnnReturnsPointer:
      return Address(NullPointer);
    case kUcudnnReturnsVoid:
      return Address(Nothing);
    default:
      return Address(NotSupported);
  }
}

// For a process without a real library: returns the substitute for the function `name`.
void* FunctionOfNoCudnn(const char* name, unsigned char kind) {
  if (std::strcmp(name, "cudnnGetErrorString") == 0) return Address(ErrorString);
  if (std::strcmp(name, "cudnnGetLastErrorString") == 0) return Address(LastErrorString);
  return kind == kUcudnnReturnsStatus ? Address(NotInitialized) : MissingFunction(kind);
}

void* TargetOf(const char* name, unsigned char kind, const RealLibrary& real) {
  if (!real.library) return FunctionOfNoCudnn(name, kind);
  void* const function = real.library->Symbol(name);
  if (function == nullptr) {
    if (ucudnn::LogEnabled(ucudnn::LogLevel::kDebug)) {
      ucudnn::Log(ucudnn::LogLevel::kDebug, real.search.path + " has no " + name);
    }
    return MissingFunction(kind);
  }
  const auto hooks = ucudnn::Hooks();
  const auto hook = std::find_if(hooks.begin(), hooks.end(), [&](const ucudnn::Hook& candidate) {
    return std::strcmp(candidate.name, name) == 0;
  });
  if (hook == hooks.end()) return function;
  if (hook->real != nullptr) hook->real->store(function, std::memory_order_release);
  return hook->function;
}

// Other threads may jump through a slot while it is written, so the store is atomic: they jump to
// the old or the new target.
void Publish(void** slot, void* target) { __atomic_store_n(slot, target, __ATOMIC_RELEASE); }

}  // namespace

extern "C" int ucudnnPrivateFillDropin(void** slots, const char* const* names,
                                       const unsigned char* kinds, unsigned count,
                                       const void* self) {
  try {
    const std::string& configured = ucudnn::ProcessOptions().real_cudnn;
    const RealLibrary& real = ucudnn::cudnn::OpenReal(configured.c_str(), self);
    for (unsigned i = 0; i < count; ++i) Publish(&slots[i], TargetOf(names[i], kinds[i], real));
    return real.library ? 0 : 1;
  } catch (...) {
    // Memory ran out. A slot that still held its stub would call this function for ever.
    for (unsigned i = 0; i < count; ++i) Publish(&slots[i], FunctionOfNoCudnn(names[i], kinds[i]));
    return 1;
  }
}
