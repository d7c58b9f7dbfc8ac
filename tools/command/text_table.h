// Tables on the terminal whose heads and rows have the same columns. printf writes them to stdout.
#pragma once

#include <string>
#include <vector>

namespace ucudnn::command {

struct TextColumn {
  std::string title;
  int width = 0;  // as in printf; a negative width aligns to the left
  int gap = 1;    // spaces before the column
};
using TextColumns = std::vector<TextColumn>;

void PrintHead(const TextColumns& columns);
// Prints the cells in the first columns, and `behind` after the last cell.
void PrintRow(const TextColumns& columns, const std::vector<std::string>& cells,
              const std::string& behind = "");

}  // namespace ucudnn::command
