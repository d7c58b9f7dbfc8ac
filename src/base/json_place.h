// Reads values of a JSON file that other programs may have written, and checks each value. Keeps
// the first fault, with the place of its value ("kernels[3].plan[0].count"). Values that are read
// after a fault mean nothing. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_value.h"
#include "base/status.h"

namespace ucudnn {

constexpr int64_t kMostJsonBytes = int64_t{1} << 62;

// A value of the file, or the place of a value that the file lacks. The caller owns `fault` and the
// value, which outlive this object.
class JsonPlace {
 public:
  JsonPlace(const JsonValue* value, std::string path, Status& fault)
      : value_(value), path_(std::move(path)), fault_(&fault) {}

  JsonPlace Member(const char* name) const;
  bool absent() const { return value_ == nullptr || value_->is(JsonValue::Kind::kNull); }
  const JsonValue* value() const { return value_; }

  bool Flag() const;
  std::string Text() const;
  std::string TextIfThere() const { return absent() ? std::string() : Text(); }

  int64_t Integer(int64_t least, int64_t most) const;
  size_t Bytes() const { return static_cast<size_t>(Integer(0, kMostJsonBytes)); }
  // Refuses any version but `expected`. `again` tells the user how to make a file of that version.
  void Version(int64_t expected, const char* again) const;
  // Returns a number of bytes. Returns none, for "no limit", if the value is null, absent, or
  // larger than any memory.
  std::optional<size_t> Limit() const;
  // Returns milliseconds; none if the value is null or absent.
  std::optional<double> Time() const;
  // Returns a number of 0 or more; none if the value is null or absent.
  std::optional<double> Quantity() const;
  // Returns a number of 0 or more. It is a fault if the value is null or absent.
  double Number() const;
  // Returns the elements of a list; none if it is absent.
  std::vector<JsonPlace> Items() const;
  void Object() const;

  void Refuse(const std::string& expected) const;
  void Fault(const std::string& what) const;
  bool ok() const { return fault_->ok(); }

 private:
  const JsonValue* value_;
  std::string path_;
  Status* fault_;
};

}  // namespace ucudnn
