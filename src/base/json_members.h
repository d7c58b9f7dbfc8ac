// Members of JSON objects, listed once for writing and reading. A struct lists its members in the
// order of the text:
//
//   void Call::Members(json::Object& member) {
//     member("kernel", kernel);
//     member("times", times, json::kNullIfEmpty);
//   }
//
// Write formats the struct by this list; Read reads and checks it. Values are numbers, booleans,
// texts, lists, optional values (null if there is none; an optional size_t is read as a limit,
// JsonPlace::Limit), other structs with members, and adapters, which have their own Write and Read.
//
// The destructors of nlohmann's arrays and objects allocate, which would end the application's
// process when memory is out. So the text is assembled by hand, and only nlohmann's single values
// are used. The functions keep no state; Read fills the values that it is given.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json_place.h"

namespace ucudnn::json {

// How a member is written and read, if not by default. By default a member is always written, and
// readers require it. Readers never require a list or an optional value, but read an absent one as
// empty.
struct Use {
  bool may_lack = false;           // readers also accept null, and objects without the member
  bool null_if_empty = false;      // an empty value is written as null
  bool left_out_if_empty = false;  // an empty value is not written
  bool unread = false;             // readers ignore it
  bool left_out = false;           // the member is not written
  bool on_one_line = false;        // the object, or each item of the list, is written on one line
  int64_t least = 0, most = kMostJsonBytes;  // bounds of whole numbers
  size_t most_items = std::numeric_limits<size_t>::max();
};
constexpr Use kMayLack = {.may_lack = true};
constexpr Use kNullIfEmpty = {.may_lack = true, .null_if_empty = true};
constexpr Use kLeftOutIfEmpty = {.may_lack = true, .left_out_if_empty = true};
constexpr Use kUnread = {.unread = true};

// The depth of a value that is written on one line. At any other depth each member and each item
// has its own line, which is indented by the depth.
constexpr int kOneLine = -1;
constexpr int Inside(int depth) { return depth == kOneLine ? kOneLine : depth + 1; }

// Members as pairs of a name and a value that is already JSON text.
using Fields = std::vector<std::pair<std::string, std::string>>;
std::string FormatObject(const Fields& fields, int depth);
std::string FormatList(const std::vector<std::string>& values, int depth);
std::string FormatText(std::string_view text);
std::string FormatNumber(double number);

// Formats a value at `depth`. `context` is passed to the value's Members.
template <typename Value, typename... Context>
std::string Write(Value&& value, int depth, const Use& use = {}, const Context&... context);
// Reads a value. If it is not as expected, `place` keeps the fault.
template <typename Value, typename... Context>
void Read(const JsonPlace& place, Value&& value, const Use& use = {}, const Context&... context);

template <typename Value>
concept IsOptional = requires(Value& value) {
  value.has_value();
};
template <typename Value>
concept IsList = requires(Value& value) {
  value.emplace_back();
};

// An object that is either written or read. Each call with a member's name writes the next member,
// or reads the member of this name, wherever that member stands in the file.
class Object {
 public:
  explicit Object(int depth) : depth_(depth), place_(nullptr, "", unread_) {}
  explicit Object(const JsonPlace& place) : is_read_(true), place_(place) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  template <typename Value, typename... Context>
  void operator()(const char* name, Value&& value, const Use& use = {}, const Context&... context) {
    if (is_read_) {
      if (use.unread || !place_.ok()) return;
      const JsonPlace member = place_.Member(name);
      if (!use.may_lack || !member.absent()) Read(member, value, use, context...);
      return;
    }
    bool is_empty = false;
    if constexpr (requires { value.empty(); }) is_empty = value.empty();
    if constexpr (IsOptional<Value>) is_empty = !value;
    if constexpr (std::integral<std::remove_cvref_t<Value>>) is_empty = value == 0;
    if (use.left_out || (is_empty && use.left_out_if_empty)) return;
    const bool is_null = is_empty && use.null_if_empty;
    fields_.emplace_back(name, is_null ? "null" : Write(value, Inside(depth_), use, context...));
  }

  // Returns whether the object has this member. If the object is read, it has the member if the
  // file does. If the object is written, it has the member if `is_to` is true.
  bool Has(const char* name, bool is_to) const {
    return is_read_ ? !place_.Member(name).absent() : is_to;
  }
  // If the object is read, returns its place. If the object is written, returns a place whose
  // faults nobody reads.
  const JsonPlace& place() const { return place_; }
  const Fields& fields() const { return fields_; }  // of an object that is written

 private:
  const int depth_ = 0;
  const bool is_read_ = false;
  Status unread_;
  const JsonPlace place_;
  Fields fields_;
};

template <typename Value, typename... Context>
concept HasMembers = requires(Value& value, Object& object, const Context&... context) {
  value.Members(object, context...);
};

template <typename Value, typename... Context>
std::string Write(Value&& value, int depth, const Use& use, const Context&... context) {
  using Plain = std::remove_cvref_t<Value>;
  if constexpr (requires { value.Write(depth); }) {
    return value.Write(depth);
  } else if constexpr (HasMembers<Value, Context...>) {
    Object object(use.on_one_line ? kOneLine : depth);
    value.Members(object, context...);
    return FormatObject(object.fields(), use.on_one_line ? kOneLine : depth);
  } else if constexpr (IsOptional<Value>) {
    return value ? json::Write(*value, depth, use, context...) : "null";
  } else if constexpr (IsList<Value>) {
    std::vector<std::string> items;
    for (auto& item : value) items.push_back(json::Write(item, Inside(depth), use, context...));
    return FormatList(items, depth);
  } else if constexpr (std::same_as<bool, Plain>) {
    return value ? "true" : "false";
  } else if constexpr (std::integral<Plain>) {
    return std::to_string(value);
  } else if constexpr (std::floating_point<Plain>) {
    return FormatNumber(value);
  } else if constexpr (requires { value.Text(); }) {
    return FormatText(value.Text());
  } else {
    return FormatText(value);
  }
}

template <typename Value, typename... Context>
void Read(const JsonPlace& place, Value&& value, const Use& use, const Context&... context) {
  using Plain = std::remove_cvref_t<Value>;
  if constexpr (requires { value.Read(place); }) {
    value.Read(place);
  } else if constexpr (HasMembers<Value, Context...>) {
    place.Object();
    Object object(place);
    value.Members(object, context...);
  } else if constexpr (std::same_as<std::optional<double>, Plain>) {
    value = place.Quantity();
  } else if constexpr (std::same_as<std::optional<size_t>, Plain>) {
    value = place.Limit();
  } else if constexpr (IsOptional<Value>) {
    if (!place.absent()) json::Read(place, value.emplace(), use, context...);
  } else if constexpr (IsList<Value>) {
    const std::vector<JsonPlace> items = place.Items();
    if (items.size() > use.most_items) place.Refuse("at most " + std::to_string(use.most_items));
    for (const JsonPlace& item : items) {
      if (!item.ok()) return;
      json::Read(item, value.emplace_back(), use, context...);
    }
  } else if constexpr (std::same_as<bool, Plain>) {
    value = place.Flag();
  } else if constexpr (std::integral<Plain>) {
    const int64_t most =
        sizeof(Plain) > sizeof(int32_t) ? kMostJsonBytes : std::numeric_limits<int32_t>::max();
    value = static_cast<Plain>(place.Integer(use.least, std::min(use.most, most)));
  } else if constexpr (std::floating_point<Plain>) {
    value = place.Number();
  } else if constexpr (std::assignable_from<Value, std::string>) {
    value = place.Text();
  }
}

// Parses a document with members. The error says why the text is no JSON, or names the place of the
// first wrong value, such as "stages[0].cycles", and what was expected.
template <typename Document>
Result<Document> Parse(std::string_view text) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue value, ParseJson(text));
  Status fault;
  Document document;
  json::Read(JsonPlace(&value, "", fault), document);
  UCUDNN_RETURN_IF_ERROR(fault);
  return document;
}

// A time; null if it is unknown.
struct Milliseconds {
  std::optional<double>& ms;

  std::string Write(int depth) { return json::Write(ms, depth); }
  void Read(const JsonPlace& place) { ms = place.Time(); }
};

// A time in milliseconds. It is written with three decimals, because CUDA events resolve about 0.5
// microseconds.
struct Thousandths {
  double& ms;

  std::string Write(int depth) const;
  void Read(const JsonPlace& place) const;
};

// The version of a format. `again` tells the user how to make a file of the current version.
struct Version {
  int64_t number;
  const char* again;

  std::string Write(int) const { return std::to_string(number); }
  void Read(const JsonPlace& place) const { place.Version(number, again); }
};

}  // namespace ucudnn::json
