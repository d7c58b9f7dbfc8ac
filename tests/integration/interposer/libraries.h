// The two libraries that tests compare. DropIn() is the drop-in, with which the program is linked.
// Undivided() is the stand-in to which the drop-in forwards; it never divides. Each accepts handles
// and descriptors of the other.
#pragma once

#include "cudnn/functions.h"
#include "planning/measurement_store.h"

namespace ucudnn::test {

const cudnn::Functions& DropIn();
const cudnn::Functions& Undivided();

// Returns ucudnn's description of the device on which the tests run.
planning::Platform CurrentPlatform();

// Returns how many convolutions the stand-in has run since the last call of this function.
long ConvolutionsRun();

}  // namespace ucudnn::test
