// ucudnn's own cuDNN handles that are not in use, by context. They are kept for the next use and
// never destroyed, because cudnnDestroy waits for the whole device. Such a wait breaks every
// capture on the device, whatever the capture mode of the calling thread, and other parts of the
// process may be capturing there. Handles of a context that no longer exists cost only host memory.
// Thread-safe; leaked at exit.
#pragma once

#include "base/status.h"
#include "cuda/driver.h"
#include "cudnn/functions.h"

namespace ucudnn::tuning {

// Returns a handle of the current context: a spare one if there is one, otherwise a new one. The
// handle may be set to any stream.
Result<cudnnHandle_t> TakeHandle(const cuda::Driver& driver, const cudnn::Functions& functions);

// Adds `handle`, which TakeHandle has returned, to the spare ones again. The current context must
// be the context in which the handle was taken.
void KeepHandle(const cuda::Driver& driver, const cudnn::Functions& functions,
                cudnnHandle_t handle) noexcept;

}  // namespace ucudnn::tuning
