// The parameters in a message of a Caffe network, each with the default of Caffe's schema.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/graph/formats/text_format.h"

namespace ucudnn::planner {

// The first fault is kept; what is read after it, or of no message, has its default.
class CaffeFields {
 public:
  // `message` may be null.
  explicit CaffeFields(const TextField* message) : message_(message) {}

  int32_t Number(const char* name, int32_t standard);
  std::vector<int32_t> Numbers(const char* name);
  double Real(const char* name, double standard);
  bool Flag(const char* name, bool standard);
  // The position in `words` of a field's word, or of its number.
  int Choice(const char* name, int standard, const std::vector<std::string>& words);
  // Names the line, the field, its value and what was expected.
  const Status& fault() const { return fault_; }

 private:
  std::vector<const TextField*> All(const char* name) const;
  const TextField* Last(const char* name) const;
  void Refuse(const TextField& field, const std::string& expected);

  const TextField* const message_;
  Status fault_;
};

}  // namespace ucudnn::planner
