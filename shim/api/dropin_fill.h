// The one private entry between the drop-in libcudnn.so.9 and libucudnn.so.1. The drop-in keeps no
// state but its jump slots, and fetches their targets here at the first call of any export.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// The result of an export, which decides the substitute for a function that the real library lacks.
// The values are repeated in shim/dropin/forwarders.S.
enum UcudnnExportKind {
  kUcudnnReturnsStatus = 0,
  kUcudnnReturnsSize = 1,
  kUcudnnReturnsPointer = 2,
  kUcudnnReturnsVoid = 3,
};

// Writes the target of each of `count` exports into `slots`: ucudnn's if there is a hook, else the
// real function, else a substitute. `self` is an address inside the drop-in. Thread-safe,
// idempotent; every slot is written in any case. Returns 0, or 1 if no real cuDNN was found.
int ucudnnPrivateFillDropin(void** slots, const char* const* names, const unsigned char* kinds,
                            unsigned count, const void* self);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
