// Reads and writes CSV files with a header. Fields are quoted as in RFC 4180, and lines end in LF
// or CRLF. A byte order mark, blank lines, lines that start with #, and spaces around unquoted
// fields are skipped. Any bytes give either a table or an error that names file and line, and what
// was expected there. Pure functions; thread-compatible.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ucudnn {

// The columns that a kind of file may have. A file with any other column is refused.
struct CsvColumns {
  std::vector<std::string> required;
  std::vector<std::string> optional;
};

class CsvTable {
 public:
  size_t rows() const { return rows_.size(); }

  // Returns the field of `column` in `row`; null when the file has no such column or the field is
  // empty.
  const std::string* Field(size_t row, const std::string& column) const;

  // Returns an error "FILE:LINE: message" for a row.
  Status Error(size_t row, const std::string& message) const;

 private:
  friend Result<CsvTable> ParseCsv(std::string_view, const std::string&, const CsvColumns&);

  struct Row {
    size_t line = 0;  // line of its first character, counted from 1
    std::vector<std::string> fields;
  };

  std::string file_;
  std::vector<std::string> header_;
  std::vector<Row> rows_;
};

// Parses `text`, the content of a CSV file. Errors name the file `file`.
Result<CsvTable> ParseCsv(std::string_view text, const std::string& file,
                          const CsvColumns& columns);

// Returns one line with its line end. A field is quoted only if it would read back differently
// without quotes.
std::string CsvLine(const std::vector<std::string>& fields);

}  // namespace ucudnn
