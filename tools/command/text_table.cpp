#include "command/text_table.h"

#include <cstdio>

namespace ucudnn::command {

void PrintHead(const TextColumns& columns) {
  std::vector<std::string> titles;
  for (const TextColumn& column : columns) titles.push_back(column.title);
  PrintRow(columns, titles);
}

void PrintRow(const TextColumns& columns, const std::vector<std::string>& cells,
              const std::string& behind) {
  for (size_t at = 0; at < cells.size(); ++at) {
    std::printf("%*s%*s", columns[at].gap, "", columns[at].width, cells[at].c_str());
  }
  std::printf("%s\n", behind.c_str());
}

}  // namespace ucudnn::command
