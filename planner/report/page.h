// Whole documents. Each is one file that fetches nothing, is readable on paper, has a light and a
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

// `content` holds the elements of the body, first a heading.
std::string FormatPage(const std::string& title, std::vector<Element> content);

// Returns a <section> with a heading. `id` is a literal by which links and tests find it.
Element Section(const char* id, const std::string& heading);

Element Paragraph(const std::string& text);

struct Cell {
  Cell(std::string text) : text(std::move(text)) {}  // NOLINT: implicit by design
  Cell(const char* text) : text(text) {}             // NOLINT: implicit by design
  Cell(std::string text, double value) : text(std::move(text)), value(value) {}

  std::string text;
  std::optional<double> value;  // sort key; right-aligned if given
};

// Cells with numbers as people write them, sorted by the number: "12.35 ms", "64 MiB", "7".
Cell TimeCell(double ms);
Cell TimeCell(const std::optional<double>& ms);  // "not known" if it is none
Cell BytesCell(int64_t bytes);
Cell CountCell(int64_t count);

struct Column {
  std::string title;
  bool number = false;  // cells without a value are sorted behind all others
};

class Table {
 public:
  // If `sortable`, each heading has a button.
  Table(const char* id, const std::string& caption, const std::vector<Column>& columns,
        bool sortable);

  // REQUIRES: there are as many cells as columns. The first is the row's heading.
  void AddRow(const std::vector<Cell>& cells);
  Element Take();

 private:
  const std::vector<Column> columns_;
  Element table_;
  Element body_{"tbody"};
};

// A column and the function that makes its cell of a row.
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

// A <dl>: names with their descriptions, in order.
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
