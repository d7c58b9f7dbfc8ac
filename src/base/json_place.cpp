#include "base/json_place.h"

#include <cmath>

namespace ucudnn {
namespace {

constexpr double kMostMs = 1e9;

}  // namespace

JsonPlace JsonPlace::Member(const char* name) const {
  const JsonValue* member = value_ == nullptr ? nullptr : value_->Find(name);
  return {member, path_.empty() ? name : path_ + "." + name, *fault_};
}

bool JsonPlace::Flag() const {
  const bool is_told = !absent() && value_->is(JsonValue::Kind::kBoolean);
  if (!is_told) Refuse("true or false");
  return is_told && value_->boolean;
}

std::string JsonPlace::Text() const {
  if (absent()) return Refuse("text"), "";
  if (!value_->is(JsonValue::Kind::kText)) Refuse("text");
  return value_->text;
}

int64_t JsonPlace::Integer(int64_t least, int64_t most) const {
  if (absent() || !value_->is(JsonValue::Kind::kInteger) || value_->integer < least ||
      value_->integer > most) {
    Refuse("a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return least;
  }
  return value_->integer;
}

void JsonPlace::Version(int64_t expected, const char* again) const {
  const bool whole = !absent() && value_->is(JsonValue::Kind::kInteger);
  if (whole && value_->integer == expected) return;
  const bool older = whole && value_->integer > 0 && value_->integer < expected;
  Refuse(std::to_string(expected) +
         (older ? std::string(": an older ucudnn wrote it; ") + again : ""));
}

std::optional<size_t> JsonPlace::Limit() const {
  if (absent()) return std::nullopt;
  if (value_->is_number() && value_->real > static_cast<double>(kMostJsonBytes)) {
    return std::nullopt;
  }
  return Bytes();
}

std::optional<double> JsonPlace::Time() const {
  if (absent()) return std::nullopt;
  if (!value_->is_number() || !(value_->real >= 0 && value_->real <= kMostMs)) {
    Refuse("milliseconds from 0 to 1e9, or null");
    return std::nullopt;
  }
  return value_->real;
}

std::optional<double> JsonPlace::Quantity() const {
  if (absent()) return std::nullopt;
  if (!value_->is_number() || !(value_->real >= 0 && std::isfinite(value_->real))) {
    Refuse("a number of 0 or more, or null");
    return std::nullopt;
  }
  return value_->real;
}

double JsonPlace::Number() const {
  const std::optional<double> number = Quantity();
  if (!number) Refuse("a number of 0 or more");
  return number.value_or(0);
}

std::vector<JsonPlace> JsonPlace::Items() const {
  std::vector<JsonPlace> items;
  if (absent()) return items;
  if (!value_->is(JsonValue::Kind::kArray)) Refuse("a list");
  for (const JsonValue& item : value_->items) {
    items.push_back({&item, path_ + "[" + std::to_string(items.size()) + "]", *fault_});
  }
  return items;
}

void JsonPlace::Object() const {
  if (value_ == nullptr || !value_->is(JsonValue::Kind::kObject)) Refuse("an object");
}

void JsonPlace::Refuse(const std::string& expected) const {
  Fault((value_ == nullptr ? "is missing" : "is " + Shown(*value_)) + "; expected " + expected);
}

void JsonPlace::Fault(const std::string& what) const {
  if (fault_->ok()) *fault_ = Status::Error(path_.empty() ? what : path_ + " " + what);
}

}  // namespace ucudnn
