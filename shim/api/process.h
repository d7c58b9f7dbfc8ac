// The one interposer of this process, joined from its parts: options, the real library, the
// driver and the measurement store.
#pragma once

#include <string>

#include "base/options.h"
#include "interposer/interposer.h"

namespace ucudnn {

// Null when the real library lacks a function ucudnn needs (one warning says which): then
// nothing is hooked. Opens the real library where it is not open yet. Thread-safe; the object is
// never destroyed.
interposer::Interposer* ProcessInterposer();

// The real library's functions, without joining; null where there is none.
const cudnn::Functions* RealFunctions();
// Whether a library was looked for: it stays the one.
bool RealIsOpen();

// Names kernels in the report, which may be made later. False when there are too many names.
bool NameLayer(const ConvolutionProblem& problem, const std::string& name);

// The process's options, for who acts on them: those set later are too late from then on.
const Options& FixedOptions();
bool OptionsAreFixed();

}  // namespace ucudnn
