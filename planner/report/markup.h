// HTML and SVG as trees of elements. Texts and attribute values are escaped, so that no byte of a
// name or a message becomes markup. Thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ucudnn::planner {

class Element {
 public:
  // REQUIRES: `tag` and names of attributes are literals. Texts and values of attributes may have
  // any bytes.
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
  const char* tag_;  // null: only content_ is written
  std::string attributes_;
  std::string content_;
  std::vector<Element> children_;
};

// Escapes the bytes for a document's text and for its attributes. Control characters and bytes that
// are no UTF-8 become U+FFFD.
std::string Escaped(std::string_view text);

// Formats a number with at most two decimals. A number that is not finite becomes 0, and a
// magnitude above 1e9 becomes 1e9.
std::string Coordinate(double value);

}  // namespace ucudnn::planner
