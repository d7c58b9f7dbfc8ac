// HTML and SVG as trees of elements. Any bytes of a name or a message are shown as text and never
// become markup. Thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ucudnn::planner {

class Element {
 public:
  // REQUIRES: `tag` and names of attributes are literals. Texts and values may come from outside.
  explicit Element(const char* tag) : tag_(tag) {}
  Element(const char* tag, std::string_view text) : tag_(tag) { Text(text); }

  // Returns markup that is written unchanged. REQUIRES: `markup` is a literal.
  static Element Literal(const char* markup);

  Element& Set(const char* attribute, std::string_view value) &;
  Element& Set(const char* attribute, double value) &;
  Element& Text(std::string_view text) &;
  Element& Add(Element child) &;
  Element&& Set(const char* attribute, std::string_view value) && {
    return std::move(Set(attribute, value));
  }
  Element&& Set(const char* attribute, double value) && { return std::move(Set(attribute, value)); }
  Element&& Text(std::string_view text) && { return std::move(Text(text)); }
  Element&& Add(Element child) && { return std::move(Add(std::move(child))); }

  void AppendTo(std::string& markup) const;

 private:
  const char* tag_;  // null: only `content_`
  std::string attributes_;
  std::string content_;
  std::vector<Element> children_;
};

// Escapes the bytes for text of a document and for its attributes. What is no character of HTML
// (control characters, bytes that are no UTF-8) becomes U+FFFD.
std::string Escaped(std::string_view text);

// Formats at most two decimals; a number that is not finite becomes 0.
std::string Coordinate(double value);

}  // namespace ucudnn::planner
