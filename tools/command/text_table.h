// Tables on the terminal whose heads and rows have the same columns. Written to stdout by printf.
#pragma once

#include <string>
#include <vector>

namespace ucudnn::command {

struct TextColumn {
  std::string title;
  int width = 0;  // as printf has it: below 0 to the left
  int gap = 1;    // spaces before it
};
using TextColumns = std::vector<TextColumn>;

void PrintHead(const TextColumns& columns);
// As many cells as there are, in the first columns, and what stands behind them.
void PrintRow(const TextColumns& columns, const std::vector<std::string>& cells,
              const std::string& behind = "");

}  // namespace ucudnn::command
