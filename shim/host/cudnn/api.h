// Declares cuDNN's functions with default visibility, so that the stand-in exports them. All other
// symbols of the library are hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cudnn.h>
#pragma GCC visibility pop
