#include "planner/graph/formats/text_format.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

constexpr int kMaxDepth = 32;

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '+' ||
         c == '-';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  // Parses fields up to and including the character `end`, or up to the end of the text if `end` is
  // '\0'.
  Status ParseFields(char end, int depth, std::vector<TextField>& fields) {
    for (;;) {
      SkipSpace();
      if (AtEnd() && end == '\0') return Status::Ok();
      if (AtEnd()) return Refuse("the text ends inside a message; expected '" + Text(end) + "'");
      if (end != '\0' && Take(end)) return Status::Ok();
      UCUDNN_RETURN_IF_ERROR(ParseField(depth, fields));
    }
  }

 private:
  static std::string Text(char c) { return {c}; }
  bool AtEnd() const { return position_ >= text_.size(); }
  Status Refuse(const std::string& what) const {
    return Status::Error("line " + std::to_string(line_) + ": " + what);
  }
  std::string Here() const {
    return AtEnd() ? "the end of the text" : Quoted(text_.substr(position_, 1));
  }

  // Skips white space, comments, and the separators "," and ";" between fields.
  void SkipSpace() {
    for (; !AtEnd(); ++position_) {
      const char c = text_[position_];
      if (c == '#') {
        position_ = std::min(text_.find('\n', position_), text_.size());
        if (AtEnd()) return;
      }
      if (text_[position_] == '\n') ++line_;
      if (c != '#' && c != ',' && c != ';' && std::isspace(static_cast<unsigned char>(c)) == 0) {
        return;
      }
    }
  }
  bool Take(char c) {
    SkipSpace();
    if (AtEnd() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  std::string TakeWord() {
    const size_t begin = position_;
    while (!AtEnd() && IsWordCharacter(text_[position_])) ++position_;
    return std::string(text_.substr(begin, position_ - begin));
  }

  Status ParseField(int depth, std::vector<TextField>& fields) {
    TextField field;
    field.line = line_;
    field.name = TakeWord();
    if (field.name.empty()) return Refuse(Here() + "; expected the name of a field");
    const bool colon = Take(':');
    SkipSpace();
    if (colon && Take('[')) return ParseList(field, depth, fields);
    if (!AtEnd() && (text_[position_] == '{' || text_[position_] == '<')) {
      UCUDNN_RETURN_IF_ERROR(ParseMessage(depth, field));
    } else if (colon) {
      UCUDNN_RETURN_IF_ERROR(ParseScalar(field));
    } else {
      return Refuse(Here() + " behind " + Quoted(field.name) + "; expected ':' or '{'");
    }
    fields.push_back(std::move(field));
    return Status::Ok();
  }
  Status ParseMessage(int depth, TextField& field) {
    if (depth >= kMaxDepth) return Refuse("messages nested deeper than 32");
    const char end = text_[position_++] == '{' ? '}' : '>';
    field.is_message = true;
    return ParseFields(end, depth + 1, field.fields);
  }
  Status ParseScalar(TextField& field) {
    SkipSpace();
    if (!AtEnd() && (text_[position_] == '"' || text_[position_] == '\'')) {
      // Adjacent strings are concatenated.
      while (!AtEnd() && (text_[position_] == '"' || text_[position_] == '\'')) {
        UCUDNN_RETURN_IF_ERROR(ParseString(field.value));
        SkipSpace();
      }
      return Status::Ok();
    }
    field.value = TakeWord();
    if (field.value.empty()) {
      return Refuse(Here() + "; expected a value of " + Quoted(field.name));
    }
    return Status::Ok();
  }
  Status ParseString(std::string& value) {
    const char quote = text_[position_++];
    for (; !AtEnd() && text_[position_] != quote && text_[position_] != '\n'; ++position_) {
      if (text_[position_] == '\\' && position_ + 1 < text_.size()) ++position_;
      value += text_[position_];
    }
    if (AtEnd() || text_[position_] != quote) return Refuse("a string without its end");
    ++position_;
    return Status::Ok();
  }
  // name: [a, b] means the same as name: a name: b.
  Status ParseList(const TextField& field, int depth, std::vector<TextField>& fields) {
    while (!Take(']')) {
      if (AtEnd()) return Refuse("the text ends inside a list; expected ']'");
      TextField item = field;
      if (text_[position_] == '{' || text_[position_] == '<') {
        UCUDNN_RETURN_IF_ERROR(ParseMessage(depth, item));
      } else {
        UCUDNN_RETURN_IF_ERROR(ParseScalar(item));
      }
      fields.push_back(std::move(item));
    }
    return Status::Ok();
  }

  const std::string_view text_;
  size_t position_ = 0;
  int line_ = 1;
};

}  // namespace

const TextField* TextField::Find(std::string_view wanted) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const TextField& field) { return field.name == wanted; });
  return found == fields.end() ? nullptr : &*found;
}

std::vector<const TextField*> TextField::FindAll(std::string_view wanted) const {
  std::vector<const TextField*> found;
  for (const TextField& field : fields) {
    if (field.name == wanted) found.push_back(&field);
  }
  return found;
}

Result<TextField> ParseTextFormat(std::string_view text) {
  TextField root;
  root.is_message = true;
  UCUDNN_RETURN_IF_ERROR(Parser(text).ParseFields('\0', 0, root.fields));
  return root;
}

}  // namespace ucudnn::planner
