// Protocol buffers' text format, as Caffe's networks are written in, read without a schema.
// Thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ucudnn::planner {

// A message: fields in file order, repeated ones as often as they are there. The destructor of a
// tree is as deep as the tree, which ParseTextFormat() bounds.
struct TextField {
  std::string name;
  int line = 0;
  bool is_message = false;
  std::string value;              // of a scalar: the text of a number, a word or a string
  std::vector<TextField> fields;  // of a message

  // The first field called `wanted`, or null.
  const TextField* Find(std::string_view wanted) const;
  std::vector<const TextField*> FindAll(std::string_view wanted) const;
};

// The whole text as one message. The error says the line.
Result<TextField> ParseTextFormat(std::string_view text);

}  // namespace ucudnn::planner
