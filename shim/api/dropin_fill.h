// Declares the one private function that the drop-in libcudnn.so.9 calls in libucudnn.so.1. The
// first call of any of the drop-in's exports calls ucudnnPrivateFillDropin to get the targets of
// all exports. libucudnn.so.1 itself calls this function, too, for the targets of its own exports
// (answers.h).
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// The return type of an export. It determines the substitute for a function that the real library
// lacks. shim/dropin/forwarders.S repeats the values.
enum UcudnnExportKind {
  kUcudnnReturnsStatus = 0,
  kUcudnnReturnsSize = 1,
  kUcudnnReturnsPointer = 2,
  kUcudnnReturnsVoid = 3,
};

// Stores the target of each of the `count` exports `names` in `slots`: ucudnn's hook if there is
// one, else the real function, else a substitute. `self` is an address inside the calling library,
// which is skipped in the search for the real cuDNN. Thread-safe; may be called repeatedly. Stores
// all targets in any case; returns 1 if no real cuDNN was found or memory ran out, else 0.
int ucudnnPrivateFillDropin(void** slots, const char* const* names, const unsigned char* kinds,
                            unsigned count, const void* self);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
