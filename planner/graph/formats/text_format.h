// Reads protocol buffers' text format without a schema. Networks of Caffe are written in this
// format. Thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ucudnn::planner {

// A field. A message lists its own fields in the order of the file, each as often as it occurs. The
// destructor recurses to the depth of the tree, which ParseTextFormat() limits.
struct TextField {
  std::string name;
  int line = 0;
  bool is_message = false;
  std::string value;              // of a scalar: the text of a number, a word or a string
  std::vector<TextField> fields;  // of a message

  // Returns the first field called `wanted`, or null.
  const TextField* Find(std::string_view wanted) const;
  std::vector<const TextField*> FindAll(std::string_view wanted) const;
};

// Parses the whole text as the fields of one message. The error gives the line.
Result<TextField> ParseTextFormat(std::string_view text);

}  // namespace ucudnn::planner
