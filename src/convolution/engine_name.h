// The names of engines in pages, tables, reasons and messages, and what they say of arithmetic.
// Files hold EngineId::Text. Pure functions.
#pragma once

#include <string>

#include "convolution/configuration.h"
#include "convolution/engine_id.h"
#include "convolution/numeric_class.h"

namespace ucudnn {

// "IMPLICIT_PRECOMP_GEMM (legacy:1)": a legacy algorithm as cudnn.h names it for this operation
// (cudnnConvolutionFwdAlgo_t, ...BwdDataAlgo_t, ...BwdFilterAlgo_t, without their prefix), and its
// text. Other engines have no name but their text.
std::string EngineName(Operation operation, const EngineId& engine);

// Returns the kind of arithmetic of one of cuDNN's algorithm numbers: its name says it.
NumericClass LegacyNumericClass(Operation operation, int algorithm);

// Returns the names of a configuration's engines, each once, in the order of the pieces and
// separated by commas.
std::string EngineNames(Operation operation, const Configuration& configuration);

}  // namespace ucudnn
