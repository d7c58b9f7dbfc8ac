// Creates this process's one interposer from the options, the real library, the CUDA driver and the
// measurement store.
#pragma once

#include <string>

#include "interposer/interposer.h"
#include "options/options.h"

namespace ucudnn {

// Returns this process's interposer; makes it at the first call, and opens the real library if
// necessary. Returns null, after one warning, if there is no real library or if it lacks a function
// that ucudnn needs. Then Hooks() returns no hooks, or only refusals if calls should be split.
// Thread-safe. The object is never destroyed.
interposer::Interposer* ProcessInterposer();

// Returns the real library's functions without making the interposer; null if they cannot be
// loaded.
const cudnn::Functions* RealFunctions();
// Returns true if the real library has been looked for; the result of that search never changes.
bool RealIsOpen();

// Sets the name of a kernel in the report; also works before the interposer is made. Returns false
// if there are too many names.
bool NameLayer(const ConvolutionProblem& problem, const std::string& name);

// Returns the process's options, and fixes them: they can no longer be changed.
const Options& FixedOptions();
bool OptionsAreFixed();

}  // namespace ucudnn
