// The one interposer of this process, joined from its parts: options, the real library, the
// driver and the measurement store.
#pragma once

#include <string>

#include "interposer/interposer.h"
#include "options/options.h"

namespace ucudnn {

// Returns null if the real library lacks a function that ucudnn needs (one warning says which);
// nothing is hooked then. Opens the real library if it is not open yet. Thread-safe; the object is
// never destroyed.
interposer::Interposer* ProcessInterposer();

// Returns the real library's functions, without making the interposer; null if there are none.
const cudnn::Functions* RealFunctions();
// Returns whether the library has been looked for; it does not change afterwards.
bool RealIsOpen();

// Names kernels in the report, which may be made later. Returns false if there are too many names.
bool NameLayer(const ConvolutionProblem& problem, const std::string& name);

// Returns the process's options, for code that acts on them: later changes have no effect.
const Options& FixedOptions();
bool OptionsAreFixed();

}  // namespace ucudnn
