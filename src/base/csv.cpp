#include "base/csv.h"

#include <algorithm>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr size_t kLongestField = size_t{1} << 20;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Cuts a text into lines of fields. The position in the text never moves back, so every text comes
// to an end.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& file) : text_(text), file_(file) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.substr(0, kByteOrderMark.size()) == kByteOrderMark) at_ = kByteOrderMark.size();
  }

  // Reads the next line with content and sets `line` to its number. At the end of the text,
  // `fields` stays empty.
  Status Next(size_t& line, std::vector<std::string>& fields) {
    fields.clear();
    SkipLinesWithoutContent();
    line = line_;
    if (at_ >= text_.size()) return Status::Ok();
    for (;;) {
      std::string field;
      UCUDNN_RETURN_IF_ERROR(ReadField(fields.size() + 1, field));
      fields.push_back(std::move(field));
      if (at_ >= text_.size()) return Status::Ok();
      const char separator = text_[at_++];
      if (separator == '\n') {
        ++line_;
        return Status::Ok();
      }
    }
  }

 private:
  void SkipLinesWithoutContent() {
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      const size_t end = rest.find('\n');
      const std::string_view whole = rest.substr(0, end);
      if (!Trim(whole).empty() && whole.front() != '#') return;
      at_ = end == std::string_view::npos ? text_.size() : at_ + end + 1;
      if (end != std::string_view::npos) ++line_;
    }
  }

  Status Fault(size_t line, size_t number, const std::string& message) const {
    return Status::Error(file_ + ":" + std::to_string(line) + ": field " + std::to_string(number) +
                         ": " + message);
  }

  // Reads one field. Afterwards at_ is at the comma or line end after the field, or at the end of
  // the text.
  Status ReadField(size_t number, std::string& field) {
    while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
    if (at_ < text_.size() && text_[at_] == '"') return ReadQuotedField(number, field);
    const std::string_view rest = text_.substr(at_);
    const std::string_view raw = rest.substr(0, rest.find_first_of(",\n"));
    at_ += raw.size();
    UCUDNN_RETURN_IF_ERROR(CheckText(line_, number, raw, raw.size()));
    if (raw.find('"') != std::string_view::npos) {
      return Fault(line_, number,
                   "a quote inside " + Quoted(raw) +
                       "; expected the whole field in quotes and each quote in it doubled");
    }
    field = Trim(raw);
    return Status::Ok();
  }

  Status ReadQuotedField(size_t number, std::string& field) {
    const size_t first_line = line_;
    for (++at_;;) {
      const std::string_view rest = text_.substr(at_);
      const size_t quote = rest.find('"');
      const std::string_view part = rest.substr(0, quote);
      if (quote == std::string_view::npos) {
        return Fault(first_line, number,
                     "a quoted field that never ends; expected a closing quote");
      }
      line_ += static_cast<size_t>(std::count(part.begin(), part.end(), '\n'));
      field += part;
      UCUDNN_RETURN_IF_ERROR(CheckText(first_line, number, part, field.size()));
      at_ += quote + 1;
      if (at_ >= text_.size() || text_[at_] != '"') break;
      field += '"';
      ++at_;
    }
    while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
    if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n') {
      return Fault(line_, number, "text after a closing quote; expected a comma or the line's end");
    }
    return Status::Ok();
  }

  Status CheckText(size_t line, size_t number, std::string_view part, size_t field_bytes) const {
    if (field_bytes > kLongestField) {
      return Fault(line, number, "longer than 1 MiB; expected CSV text");
    }
    if (part.find('\0') != std::string_view::npos) {
      return Fault(line, number, "a NUL byte; expected CSV text, not a binary file");
    }
    return Status::Ok();
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
  size_t line_ = 1;
};

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status CheckHeader(const std::vector<std::string>& header, const CsvColumns& columns) {
  std::vector<std::string> known = columns.required;
  known.insert(known.end(), columns.optional.begin(), columns.optional.end());
  for (size_t i = 0; i < header.size(); ++i) {
    if (!Contains(known, header[i])) {
      const std::string nearest = NearestName(header[i], known);
      return Status::Error(
          "unknown column " + Quoted(header[i]) +
          (nearest.empty() ? "; expected columns are " + Join(known, ",")
                           : "; expected one of " + Join(known, ",") + "; nearest: " + nearest));
    }
    if (std::find(header.begin(), header.begin() + static_cast<ptrdiff_t>(i), header[i]) !=
        header.begin() + static_cast<ptrdiff_t>(i)) {
      return Status::Error("column " + Quoted(header[i]) + " occurs twice; expected once");
    }
  }
  for (const std::string& name : columns.required) {
    if (!Contains(header, name)) {
      return Status::Error("the header lacks column '" + name + "'; expected at least " +
                           Join(columns.required, ","));
    }
  }
  return Status::Ok();
}

std::string At(const std::string& file, size_t line, const std::string& message) {
  return file + ":" + std::to_string(line) + ": " + message;
}

}  // namespace

const std::string* CsvTable::Field(size_t row, const std::string& column) const {
  const auto found = std::find(header_.begin(), header_.end(), column);
  if (found == header_.end()) return nullptr;
  const std::string& field = rows_[row].fields[static_cast<size_t>(found - header_.begin())];
  return field.empty() ? nullptr : &field;
}

Status CsvTable::Error(size_t row, const std::string& message) const {
  return Status::Error(At(file_, rows_[row].line, message));
}

Result<CsvTable> ParseCsv(std::string_view text, const std::string& file,
                          const CsvColumns& columns) {
  CsvTable table;
  table.file_ = file;
  Scanner scanner(text, file);
  size_t line = 0;
  UCUDNN_RETURN_IF_ERROR(scanner.Next(line, table.header_));
  if (table.header_.empty()) {
    return Status::Error(
        At(file, line, "no header; expected the columns " + Join(columns.required, ",")));
  }
  if (Status status = CheckHeader(table.header_, columns); !status.ok()) {
    return Status::Error(At(file, line, status.message()));
  }
  for (;;) {
    CsvTable::Row row;
    UCUDNN_RETURN_IF_ERROR(scanner.Next(row.line, row.fields));
    if (row.fields.empty()) return table;
    if (row.fields.size() != table.header_.size()) {
      return Status::Error(At(file, row.line,
                              std::to_string(row.fields.size()) + " fields; expected " +
                                  std::to_string(table.header_.size()) + ", as in the header"));
    }
    table.rows_.push_back(std::move(row));
  }
}

std::string CsvLine(const std::vector<std::string>& fields) {
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string& field = fields[i];
    if (i > 0) line += ',';
    // A field gets no quotes if it reads back the same without quotes. The only field of a row is
    // quoted if it is empty, because the row would read back as a blank line.
    const bool plain = field.find_first_of(",\"\n\r") == std::string::npos &&
                       Trim(field).size() == field.size() && (i > 0 || field[0] != '#') &&
                       (fields.size() > 1 || !field.empty());
    if (plain) {
      line += field;
      continue;
    }
    line += '"';
    for (const char c : field) {
      if (c == '"') line += '"';
      line += c;
    }
    line += '"';
  }
  return line + "\n";
}

}  // namespace ucudnn
