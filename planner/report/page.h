// Whole documents: one file each that fetches nothing, readable on paper, in a light and a dark
// theme, and without its script, which only sorts tables. Pure functions. Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/report/markup.h"

namespace ucudnn::planner {

// `content` are the elements of the body, a heading first.
std::string FormatPage(const std::string& title, std::vector<Element> content);

// <section> with a heading; `id` is a literal that links and tests find it by.
Element Section(const char* id, const std::string& heading);

Element Paragraph(const std::string& text);

struct Cell {
  Cell(std::string text) : text(std::move(text)) {}  // NOLINT: implicit by design
  Cell(const char* text) : text(text) {}             // NOLINT: implicit by design
  Cell(std::string text, double value) : text(std::move(text)), value(value) {}

  std::string text;
  std::optional<double> value;  // what it is sorted by; set right where given
};

// Numbers that are sorted by, as people write them: "12.35 ms", "64 MiB", "7".
Cell TimeCell(double ms);
Cell TimeCell(const std::optional<double>& ms);  // "not known" where it is not
Cell BytesCell(int64_t bytes);
Cell CountCell(int64_t count);

struct Column {
  std::string title;
  bool number = false;  // a cell without value is sorted behind all that have one
};

class Table {
 public:
  // A sortable one has a button in each heading.
  Table(const char* id, const std::string& caption, const std::vector<Column>& columns,
        bool sortable);

  // As many cells as columns; the first is the row's heading.
  void AddRow(const std::vector<Cell>& cells);
  Element Take();

 private:
  const std::vector<Column> columns_;
  Element table_;
  Element body_{"tbody"};
};

// A column with what it says of a row.
template <typename Row>
struct ColumnOf {
  std::string title;
  bool number;
  std::function<Cell(const Row&)> cell;
};

// A sortable table of all `rows`.
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

// <dl>: names with what they are, in order.
class Descriptions {
 public:
  explicit Descriptions(const char* id = nullptr) {
    if (id != nullptr) list_.Set("id", id);
  }

  // Nothing where `text` is empty.
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
