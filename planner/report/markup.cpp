#include "planner/report/markup.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>

namespace ucudnn::planner {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

// Returns the number of bytes of the first character of `text`; 0 if its first byte begins no
// character that HTML permits.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t first = byte(0);
  if (first < 0x80) {
    const bool control = (first < 0x20 && first != '\t' && first != '\n') || first == 0x7F;
    return control ? 0 : 1;
  }
  const size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return 0;
  uint32_t code = first & (0xFFu >> (bytes + 1));
  for (size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(at) & 0x3Fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  const bool control = code < 0xA0;
  return code < kLeast[bytes] || code > 0x10FFFF || surrogate || control ? 0 : bytes;
}

const char* Entity(char character) {
  switch (character) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return nullptr;
  }
}

// Returns whether elements with this tag have no end tag in HTML.
bool IsVoid(std::string_view tag) {
  constexpr std::string_view kVoid[] = {"br", "col", "hr", "meta", "wbr"};
  return std::find(std::begin(kVoid), std::end(kVoid), tag) != std::end(kVoid);
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) {
      escaped += kReplacement;
    } else if (const char* entity = Entity(text.front())) {
      escaped += entity;
    } else {
      escaped += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return escaped;
}

std::string Coordinate(double value) {
  if (!std::isfinite(value)) return "0";
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", std::clamp(value, -1e9, 1e9));
  std::string trimmed = text;
  trimmed.erase(trimmed.find_last_not_of('0') + 1);
  if (trimmed.back() == '.') trimmed.pop_back();
  return trimmed == "-0" ? "0" : trimmed;
}

Element Element::Literal(const char* markup) {
  Element element(nullptr);
  element.content_ = markup;
  return element;
}

Element& Element::Set(const char* attribute, std::string_view value) & {
  attributes_ += std::string(" ") + attribute + "=\"" + Escaped(value) + "\"";
  return *this;
}

Element& Element::Set(const char* attribute, double value) & {
  return Set(attribute, Coordinate(value));
}

Element& Element::Text(std::string_view text) & {
  Element child(nullptr);
  child.content_ = Escaped(text);
  return Add(std::move(child));
}

Element& Element::Add(Element child) & {
  children_.push_back(std::move(child));
  return *this;
}

void Element::AppendTo(std::string& markup) const {
  if (tag_ == nullptr) {
    markup += content_;
    return;
  }
  markup += std::string("<") + tag_ + attributes_ + ">";
  if (IsVoid(tag_)) return;
  for (const Element& child : children_) child.AppendTo(markup);
  markup += std::string("</") + tag_ + ">";
}

}  // namespace ucudnn::planner
