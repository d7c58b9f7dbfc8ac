// Lines of text that describe a kernel with its world, and what was decided, so that a table of
// them is a specification. decision_table_test.cpp explains the words.
#pragma once

#include <string>
#include <string_view>

#include "decision_world.h"

namespace ucudnn::planning {

// Reads the world from "KERNEL | ROWS | ELSE". Throws std::invalid_argument, which names the word
// that cannot be read.
World ReadWorld(std::string_view line);

// Returns "RUNS; BYTES; WHY", followed by whatever is unusual.
std::string Describe(const World& world, const Decision& decision);

// Returns the name of an enumerator, without its k.
const char* Name(Because because);
const char* Name(Cause cause);

}  // namespace ucudnn::planning
