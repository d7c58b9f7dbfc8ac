// Reads lines of text that describe a kernel and its world, and writes such lines about decisions,
// so that tests can be tables of such lines. decision_table_test.cpp explains the words.
#pragma once

#include <string>
#include <string_view>

#include "decision_world.h"

namespace ucudnn::planning {

// Reads the world from "KERNEL | ROWS | ELSE". Throws std::invalid_argument, which names the word
// that cannot be read.
World ReadWorld(std::string_view line);

// Returns "RUNS; BYTES; WHY", followed by the promise, the call at which the kernel is decided
// anew, and the fallbacks, each only if there is one.
std::string Describe(const World& world, const Decision& decision);

// Returns the name of an enumerator, without its leading k.
const char* Name(ReasonKind kind);
const char* Name(FallbackCause cause);

}  // namespace ucudnn::planning
