// Names of engines for pages, tables, reasons and messages, and the numeric class that an
// algorithm's name implies. Files hold EngineId::Text instead. Pure functions.
#pragma once

#include <string>

#include "convolution/configuration.h"
#include "convolution/engine_id.h"
#include "convolution/numeric_class.h"

namespace ucudnn {

// For a legacy algorithm, returns its name and its text: "IMPLICIT_PRECOMP_GEMM (legacy:1)". The
// name is the operation's enumerator in cudnn.h (cudnnConvolutionFwdAlgo_t, ...BwdDataAlgo_t,
// ...BwdFilterAlgo_t) without its prefix. For all other engines, returns the text alone.
std::string EngineName(Operation operation, const EngineId& engine);

// Returns the numeric class of the legacy algorithm with this number, as its name implies.
NumericClass LegacyNumericClass(Operation operation, int algorithm);

// Returns the names of a configuration's engines, each once, in the order of the pieces and
// separated by commas.
std::string EngineNames(Operation operation, const Configuration& configuration);

}  // namespace ucudnn
