// cuDNN handles of our own that are not in use, by context. They are kept for the next use and
// never destroyed: cudnnDestroy waits for the whole device, which breaks every capture under way on
// it, whatever the capture mode of the thread, and nobody can tell whose else a context is. Those
// of a context that is gone are memory of the host alone. Thread-safe; leaked at exit.
#pragma once

#include "base/status.h"
#include "cuda/driver.h"
#include "cudnn/functions.h"

namespace ucudnn::tuning {

// A handle of the current context, with any stream: a spare one or a new one.
Result<cudnnHandle_t> TakeHandle(const cuda::Driver& driver, const cudnn::Functions& functions);

// Gives back what TakeHandle gave, in the same context.
void KeepHandle(const cuda::Driver& driver, const cudnn::Functions& functions,
                cudnnHandle_t handle) noexcept;

}  // namespace ucudnn::tuning
