// Values of one message of a Caffe network. The caller gives the default of a value that the
// message may lack. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/graph/formats/text_format.h"

namespace ucudnn::planner {

// Parses a scalar of protocol buffers' text format; returns none if the text is no such scalar.
// Whole numbers have 32 bits; they are hexadecimal after 0x and octal after 0.
std::optional<int32_t> WholeOf(std::string_view text);
std::optional<double> RealOf(std::string_view text);
std::optional<bool> FlagOf(std::string_view text);

// Gives the fields of one message, which must outlive this object. A null message has no fields. If
// CheckCaffeMessage() would refuse a text as a number or a flag, the text counts as the default,
// and in a list as 0.
class CaffeFields {
 public:
  explicit CaffeFields(const TextField* message) : message_(message) {}

  bool Has(const char* name) const { return Find(name) != nullptr; }
  int32_t Number(const char* name, int32_t standard) const;
  std::vector<int32_t> Numbers(const char* name) const;
  double Real(const char* name, double standard) const;
  bool Flag(const char* name, bool standard) const;
  // Returns the value of a string field, or the word of an enumeration.
  std::string Word(const char* name, const char* standard) const;
  std::vector<std::string> Words(const char* name) const;
  CaffeFields Message(const char* name) const { return CaffeFields(Find(name)); }
  std::vector<CaffeFields> Messages(const char* name) const;

 private:
  const TextField* Find(const char* name) const;

  const TextField* message_;
};

}  // namespace ucudnn::planner
