// Whole documents. Each document is one file that fetches nothing, prints well, has a light and a
// dark theme, and works without its script, which only sorts tables. Pure functions.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/report/markup.h"

namespace ucudnn::planner {

// Returns the document. The first element of `content` is a heading.
std::string FormatPage(const std::string& title, std::vector<Element> content);

// Returns a <section> with a heading. `id` is a literal by which links and tests find it.
Element Section(const char* id, const std::string& heading);

Element Paragraph(const std::string& text);

struct Cell {
  Cell(std::string text) : text(std::move(text)) {}  // NOLINT: implicit by design
  Cell(const char* text) : text(text) {}             // NOLINT: implicit by design
  Cell(std::string text, double value) : text(std::move(text)), value(value) {}

  std::string text;
  // The key by which the column is sorted; a cell with a value is right-aligned.
  std::optional<double> value;
};

// The following functions return cells such as "12.35 ms", "64 MiB" and "7", which are sorted by
// their number.
Cell TimeCell(double ms);
Cell TimeCell(const std::optional<double>& ms);  // "not known" if `ms` is empty
Cell BytesCell(int64_t bytes);
Cell CountCell(int64_t count);

struct Column {
  std::string title;
  bool number = false;  // whether cells are sorted by value; cells without a value come last
};

class Table {
 public:
  // If `sortable`, each heading has a button that sorts the rows.
  Table(const char* id, const std::string& caption, const std::vector<Column>& columns,
        bool sortable);

  // The first cell is the row's heading. REQUIRES: there are as many cells as columns.
  void AddRow(const std::vector<Cell>& cells);
  Element Take();

 private:
  const std::vector<Column> columns_;
  Element table_;
  Element body_{"tbody"};
};

// A column and the function that makes its cell from a row.
template <typename Row>
struct ColumnOf {
  std::string title;
  bool number;
  std::function<Cell(const Row&)> cell;
};

// Returns a sortable table of all `rows`.
template <typename Row, typename Rows>
Element TableOf(const char* id, const std::string& caption,
                const std::vector<ColumnOf<Row>>& columns, const Rows& rows) {
  std::vector<Column> heads;
  for (const auto& column : columns) heads.push_back({column.title, column.number});
  Table table(id, caption, heads, true);
  for (const Row& row : rows) {
    std::vector<Cell> cells;
    for (const auto& column : columns) cells.push_back(column.cell(row));
    table.AddRow(cells);
  }
  return table.Take();
}

// A <dl>: a list of names, each with its description.
class Descriptions {
 public:
  explicit Descriptions(const char* id = nullptr) {
    if (id != nullptr) list_.Set("id", id);
  }

  // Adds nothing if `text` is empty.
  void Add(const std::string& name, const std::string& text) {
    if (!text.empty()) Add(name, Element("dd", text));
  }
  void Add(const std::string& name, Element described) {
    list_.Add(Element("dt", name)).Add(std::move(described));
  }
  Element Take() { return std::move(list_); }

 private:
  Element list_{"dl"};
};

}  // namespace ucudnn::planner
