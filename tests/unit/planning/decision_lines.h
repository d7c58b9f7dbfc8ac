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

// Returns "RUNS; BYTES; WHY". A promise, when to look again and fallbacks stand behind WHY if there
// are any.
std::string Describe(const World& world, const Decision& decision);

// Returns the name of an enumerator, without its k.
const char* Name(Because because);
const char* Name(Cause cause);

}  // namespace ucudnn::planning
