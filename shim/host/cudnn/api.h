// Declares cuDNN's functions with default visibility, so that the stand-in exports them. Other
// symbols of the library, except for the stubs, are hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cudnn.h>
#pragma GCC visibility pop
