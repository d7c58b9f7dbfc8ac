// cuDNN handles of our own that are not in use, by context. They are kept for the next use and, in
// a context of the application's, never destroyed: cudnnDestroy waits for the whole device, which
// breaks every capture under way on it, whatever the capture mode of the thread. Thread-safe;
// leaked at exit.
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

// Destroys the spare handles of the current context, which waits for the whole device: for a
// context that nobody but us uses.
void DestroySpareHandles(const cuda::Driver& driver, const cudnn::Functions& functions) noexcept;

}  // namespace ucudnn::tuning
