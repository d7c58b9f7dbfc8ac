#include "planner/graph/formats/caffe_fields.h"

#include <cmath>

#include "base/text.h"

namespace ucudnn::planner {

std::optional<int32_t> WholeOf(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.starts_with('0')) {
    base = 8;
  }
  int32_t number = 0;
  if (!ReadNumber(text, number, base) || number < 0) return std::nullopt;
  return negative ? -number : number;
}

std::optional<double> RealOf(std::string_view text) {
  if (text.ends_with('f') || text.ends_with('F')) text.remove_suffix(1);
  double number = 0;
  if (!ReadNumber(text, number) || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<bool> FlagOf(std::string_view text) {
  for (const char* const word : {"true", "True", "t", "1"}) {
    if (text == word) return true;
  }
  for (const char* const word : {"false", "False", "f", "0"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

int32_t CaffeFields::Number(const char* name, int32_t standard) const {
  const TextField* const field = Find(name);
  return field == nullptr ? standard : WholeOf(field->value).value_or(standard);
}

std::vector<int32_t> CaffeFields::Numbers(const char* name) const {
  std::vector<int32_t> numbers;
  for (const std::string& word : Words(name)) numbers.push_back(WholeOf(word).value_or(0));
  return numbers;
}

double CaffeFields::Real(const char* name, double standard) const {
  const TextField* const field = Find(name);
  return field == nullptr ? standard : RealOf(field->value).value_or(standard);
}

bool CaffeFields::Flag(const char* name, bool standard) const {
  const TextField* const field = Find(name);
  return field == nullptr ? standard : FlagOf(field->value).value_or(standard);
}

std::string CaffeFields::Word(const char* name, const char* standard) const {
  const TextField* const field = Find(name);
  return field == nullptr ? standard : field->value;
}

std::vector<std::string> CaffeFields::Words(const char* name) const {
  std::vector<std::string> words;
  if (message_ == nullptr) return words;
  for (const TextField* field : message_->FindAll(name)) words.push_back(field->value);
  return words;
}

std::vector<CaffeFields> CaffeFields::Messages(const char* name) const {
  std::vector<CaffeFields> messages;
  if (message_ == nullptr) return messages;
  for (const TextField* field : message_->FindAll(name)) messages.emplace_back(field);
  return messages;
}

const TextField* CaffeFields::Find(const char* name) const {
  return message_ == nullptr ? nullptr : message_->Find(name);
}

}  // namespace ucudnn::planner
