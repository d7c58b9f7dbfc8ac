// cuDNN's declarations as the stand-in exports them; all other symbols of the library are hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cudnn.h>
#pragma GCC visibility pop
