// The CPU stand-ins in this process, in place of the driver and cuDNN.
#pragma once

#include "base/status.h"

namespace ucudnn::command {

// Before anything else of this process asks for a driver or for cuDNN. Opened by path first, a
// library serves whoever asks for its soname later in this process.
Status UseStandIns();

}  // namespace ucudnn::command
