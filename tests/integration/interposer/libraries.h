// The two libraries a test compares: the drop-in, as a program linked with cuDNN meets it, and the
// stand-in behind it, whose convolutions are undivided. Handles and descriptors belong to both.
#pragma once

#include "cudnn/functions.h"
#include "planning/measurement_store.h"

namespace ucudnn::test {

const cudnn::Functions& DropIn();
const cudnn::Functions& Undivided();

// As ucudnn describes the device the tests run on.
planning::Platform CurrentPlatform();

// Convolutions the stand-in was asked for since the last call.
long ConvolutionsRun();

}  // namespace ucudnn::test
