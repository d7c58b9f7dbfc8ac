#include "planner/graph/formats/caffe_fields.h"

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace ucudnn::planner {

int32_t CaffeFields::Number(const char* name, int32_t standard) {
  const std::vector<int32_t> numbers = Numbers(name);
  return numbers.empty() ? standard : numbers.back();
}

std::vector<int32_t> CaffeFields::Numbers(const char* name) {
  std::vector<int32_t> numbers;
  for (const TextField* field : All(name)) {
    const char* end = field->value.data() + field->value.size();
    int32_t number = 0;
    const auto parsed = std::from_chars(field->value.data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end) Refuse(*field, "a whole number");
    numbers.push_back(number);
  }
  return numbers;
}

double CaffeFields::Real(const char* name, double standard) {
  const TextField* field = Last(name);
  if (field == nullptr) return standard;
  double number = 0;
  const char* end = field->value.data() + field->value.size();
  const auto parsed = std::from_chars(field->value.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(number)) {
    Refuse(*field, "a number");
  }
  return number;
}

bool CaffeFields::Flag(const char* name, bool standard) {
  const TextField* field = Last(name);
  if (field == nullptr) return standard;
  const bool yes = field->value == "true" || field->value == "1";
  if (!yes && field->value != "false" && field->value != "0") Refuse(*field, "true or false");
  return yes;
}

int CaffeFields::Choice(const char* name, int standard, const std::vector<std::string>& words) {
  const TextField* field = Last(name);
  if (field == nullptr) return standard;
  for (size_t i = 0; i < words.size(); ++i) {
    if (field->value == words[i] || field->value == std::to_string(i)) return static_cast<int>(i);
  }
  Refuse(*field, "one of " + Join(words, ", "));
  return standard;
}

std::vector<const TextField*> CaffeFields::All(const char* name) const {
  return message_ == nullptr ? std::vector<const TextField*>() : message_->FindAll(name);
}

const TextField* CaffeFields::Last(const char* name) const {
  const std::vector<const TextField*> all = All(name);
  return all.empty() ? nullptr : all.back();
}

void CaffeFields::Refuse(const TextField& field, const std::string& expected) {
  if (fault_.ok()) {
    fault_ = Status::Error("line " + std::to_string(field.line) + ": " + field.name + ": " +
                           (field.is_message ? "a message" : Quoted(field.value)) + "; expected " +
                           expected);
  }
}

}  // namespace ucudnn::planner
