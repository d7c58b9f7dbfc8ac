// HTML and SVG as trees of elements: whatever bytes a name or a message holds, they are shown as
// text and never become markup. Thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ucudnn::planner {

class Element {
 public:
  // `tag` and names of attributes are literals of ours; texts and values may be anybody's.
  explicit Element(const char* tag) : tag_(tag) {}
  Element(const char* tag, std::string_view text) : tag_(tag) { Text(text); }

  // Markup of ours that is written as it is.
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
  const char* tag_;  // null: `content_` alone
  std::string attributes_;
  std::string content_;
  std::vector<Element> children_;
};

// The bytes as text of a document and of its attributes: markup escaped, and what is no character
// of HTML (control characters, bytes that are no UTF-8) shown as U+FFFD.
std::string Escaped(std::string_view text);

// At most two decimals; what is not finite is 0.
std::string Coordinate(double value);

}  // namespace ucudnn::planner
