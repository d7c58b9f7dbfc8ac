// cuDNN's declarations as the stand-in exports them: everything else in the library is hidden.
#pragma once

#pragma GCC visibility push(default)
#include <cudnn.h>
#pragma GCC visibility pop
