// The two libraries that a test compares: the drop-in, as a program linked with cuDNN meets it, and
// the stand-in behind it, whose convolutions are undivided. Both accept all handles and
// descriptors.
#pragma once

#include "cudnn/functions.h"
#include "planning/measurement_store.h"

namespace ucudnn::test {

const cudnn::Functions& DropIn();
const cudnn::Functions& Undivided();

// Returns ucudnn's description of the device on which the tests run.
planning::Platform CurrentPlatform();

// Returns how many convolutions the stand-in was asked for since the last call.
long ConvolutionsRun();

}  // namespace ucudnn::test
