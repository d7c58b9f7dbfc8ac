// Prints tables to stdout by printf: a head of column titles, and rows with the same columns.
#pragma once

#include <string>
#include <vector>

namespace ucudnn::command {

struct TextColumn {
  std::string title;
  int width = 0;  // printf's field width; negative: aligned to the left
  int gap = 1;    // spaces before the column
};
using TextColumns = std::vector<TextColumn>;

void PrintHead(const TextColumns& columns);
// Prints `cells`, of which there may be fewer than columns, and `behind` after the last cell.
void PrintRow(const TextColumns& columns, const std::vector<std::string>& cells,
              const std::string& behind = "");

}  // namespace ucudnn::command
