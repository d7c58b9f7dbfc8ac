// JSON as plain values whose destruction allocates nothing. nlohmann's own tree allocates in its
// destructor, which would end the application's process when memory is out. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ucudnn {

struct JsonMember;

struct JsonValue {
  enum class Kind { kNull, kBoolean, kInteger, kReal, kText, kArray, kObject };
  Kind kind = Kind::kNull;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;  // also set for integers
  std::string text;
  std::vector<JsonValue> items;
  std::vector<JsonMember> members;  // in the order of the text

  bool is(Kind other) const { return kind == other; }
  bool is_number() const { return kind == Kind::kInteger || kind == Kind::kReal; }
  // Returns null if this value is not an object or has no such member.
  const JsonValue* Find(std::string_view name) const;
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

// Fails for a text that is not JSON, that nests deeper than 32 levels, or in which an object has a
// name twice.
Result<JsonValue> ParseJson(std::string_view text);

// Formats a value for a message: numbers, quoted text, "an array of 3", "an object".
std::string Shown(const JsonValue& value);

}  // namespace ucudnn
