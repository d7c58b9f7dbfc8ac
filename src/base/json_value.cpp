#include "base/json_value.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr size_t kMaxDepth = 32;

// Receives nlohmann's events. A function that returns false ends the parsing.
class Builder {
 public:
  JsonValue root;
  std::string error;

  bool null() {
    Place();
    return true;
  }
  bool boolean(bool value) {
    Of(JsonValue::Kind::kBoolean).boolean = value;
    return true;
  }
  bool number_integer(int64_t value) { return Number(JsonValue::Kind::kInteger, value, value); }
  bool number_unsigned(uint64_t value) {
    const bool fits = value <= uint64_t{std::numeric_limits<int64_t>::max()};
    return fits ? Number(JsonValue::Kind::kInteger, static_cast<int64_t>(value), value)
                : Number(JsonValue::Kind::kReal, 0, value);
  }
  bool number_float(double value, const std::string&) {
    return Number(JsonValue::Kind::kReal, 0, value);
  }
  bool string(std::string& value) {
    Of(JsonValue::Kind::kText).text = std::move(value);
    return true;
  }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(JsonValue::Kind::kObject); }
  bool start_array(size_t) { return Open(JsonValue::Kind::kArray); }
  bool end_object() {
    names_.clear();
    for (const JsonMember& member : open_.back()->members) names_.push_back(member.name);
    std::sort(names_.begin(), names_.end());
    const auto twice = std::adjacent_find(names_.begin(), names_.end());
    if (twice == names_.end()) return Close();
    error = Quoted(*twice) + " is there twice";
    return false;
  }
  bool end_array() { return Close(); }
  bool key(std::string& name) {
    std::vector<JsonMember>& members = open_.back()->members;
    if (members.empty()) members.reserve(4);
    members.emplace_back().name = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    error = "no JSON at byte " + std::to_string(position);
    return false;
  }

 private:
  bool Number(JsonValue::Kind kind, int64_t integer, double real) {
    JsonValue& added = Of(kind);
    added.integer = integer;
    added.real = real;
    return true;
  }
  // Returns where the next value is stored. The pointers in open_ stay valid, because a value does
  // not move while it is in open_: new values are added only to the value that was opened last.
  JsonValue& Place() {
    if (open_.empty()) return root;
    JsonValue& parent = *open_.back();
    if (parent.is(JsonValue::Kind::kObject)) return parent.members.back().value;
    return parent.items.emplace_back();
  }
  JsonValue& Of(JsonValue::Kind kind) {
    JsonValue& place = Place();
    place.kind = kind;
    return place;
  }
  bool Open(JsonValue::Kind kind) {
    if (open_.size() >= kMaxDepth) {
      error = "nested too deeply";
      return false;
    }
    open_.push_back(&Of(kind));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  std::vector<JsonValue*> open_;
  std::vector<std::string_view> names_;  // scratch of end_object
};

}  // namespace

const JsonValue* JsonValue::Find(std::string_view name) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const JsonMember& member) { return member.name == name; });
  return found == members.end() ? nullptr : &found->value;
}

std::string Shown(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kInteger:
      return std::to_string(value.integer);
    case JsonValue::Kind::kReal:
      return nlohmann::json(value.real).dump();
    case JsonValue::Kind::kText:
      return Quoted(value.text);
    case JsonValue::Kind::kBoolean:
      return value.boolean ? "true" : "false";
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kArray:
      return "an array of " + std::to_string(value.items.size());
    case JsonValue::Kind::kObject:
      break;
  }
  return "an object";
}

Result<JsonValue> ParseJson(std::string_view text) {
  Builder builder;
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::move(builder.root);
  return Status::Error(builder.error.empty() ? "no JSON" : builder.error);
}

}  // namespace ucudnn
