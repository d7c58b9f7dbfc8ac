// The one interposer of this process, joined from its parts: options, the genuine library, the
// driver and the measurement store.
#pragma once

#include "interposer/interposer.h"

namespace ucudnn {

// Null when the genuine library lacks a function ucudnn needs (one warning says which): then
// nothing is hooked. The genuine library must be open. Thread-safe; the object is never destroyed.
interposer::Interposer* ProcessInterposer();

}  // namespace ucudnn
