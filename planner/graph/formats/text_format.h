// Reads protocol buffers' text format, in which Caffe's networks are written, without a schema.
// Thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ucudnn::planner {

// A message: its fields in file order, each as often as it occurs. The destructor recurses to the
// depth of the tree, which ParseTextFormat() bounds.
struct TextField {
  std::string name;
  int line = 0;
  bool is_message = false;
  std::string value;              // for a scalar: the text of a number, a word or a string
  std::vector<TextField> fields;  // for a message

  // Returns the first field called `wanted`, or null.
  const TextField* Find(std::string_view wanted) const;
  std::vector<const TextField*> FindAll(std::string_view wanted) const;
};

// Parses the whole text as one message. The error says the line.
Result<TextField> ParseTextFormat(std::string_view text);

}  // namespace ucudnn::planner
