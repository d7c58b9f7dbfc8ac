// The two APIs of cuDNN through which a program runs convolutions.
#pragma once

namespace ucudnn {

enum class Api {
  kLegacy,  // cudnnConvolution*
  kGraph,   // cudnnBackend*
};

}  // namespace ucudnn
