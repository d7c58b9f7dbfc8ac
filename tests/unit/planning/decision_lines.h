// Lines of text that tell of a kernel and its world, and of what was decided, so that a table of
// them is a specification. decision_table_test.cpp explains the words.
#pragma once

#include <string>
#include <string_view>

#include "decision_world.h"

namespace ucudnn::planning {

// The world of "KERNEL | ROWS | ELSE"; throws std::invalid_argument, which names the word that
// cannot be read.
World ReadWorld(std::string_view line);

// "RUNS; BYTES; WHY", and behind these what is not as it mostly is.
std::string Describe(const World& world, const Decision& decision);

// The name of an enumerator, without its k.
const char* Name(Because because);
const char* Name(Cause cause);

}  // namespace ucudnn::planning
