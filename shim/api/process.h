// The one interposer of this process, joined from its parts: options, the genuine library, the
// driver and the measurement store.
#pragma once

#include <string>

#include "base/options.h"
#include "interposer/interposer.h"

namespace ucudnn {

// Null when the genuine library lacks a function ucudnn needs (one warning says which): then
// nothing is hooked. Opens the genuine library where it is not open yet. Thread-safe; the object is
// never destroyed.
interposer::Interposer* ProcessInterposer();

// The genuine library's functions, without joining; null where there is none.
const cudnn::Functions* GenuineFunctions();
// Whether a library was looked for: it stays the one.
bool GenuineIsOpen();

// Names kernels in the report, which may be made later. False when there are too many names.
bool NameLayer(const ConvolutionProblem& problem, const std::string& name);

// The process's options, for who acts on them: those set later are too late from then on.
const Options& FixedOptions();
bool OptionsAreFixed();

}  // namespace ucudnn
