// The one private entry between the drop-in libcudnn.so.9 and libucudnn.so.1: the drop-in keeps no
// state but its jump slots, and fetches their targets here at the first call of any export.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// What an export returns; decides what stands in for a function the real library lacks. The
// values are repeated in shim/dropin/forwarders.S.
enum UcudnnExportKind {
  kUcudnnReturnsStatus = 0,
  kUcudnnReturnsSize = 1,
  kUcudnnReturnsPointer = 2,
  kUcudnnReturnsVoid = 3,
};

// Writes the target of each of `count` exports into `slots`: ours where there is a hook, else the
// real function, else one that answers in its place. `self` is an address inside the drop-in.
// Thread-safe, idempotent; every slot is written whatever happens. Returns 0, or 1 when no real
// cuDNN was found.
int ucudnnPrivateFillDropin(void** slots, const char* const* names, const unsigned char* kinds,
                            unsigned count, const void* self);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
