// Whole documents: one file each that fetches nothing, readable on paper, in a light and a dark
// theme, and without its script, which only sorts tables. Pure functions. Thread-compatible.
#pragma once

#include <optional>
#include <string>
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

}  // namespace ucudnn::planner
