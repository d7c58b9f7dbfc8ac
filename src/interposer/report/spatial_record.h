// What splitting over ranks did so far, as the report tells it: the object `spatial`. Plain values
// and a pure function.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "spatial/kernel_figures.h"

namespace ucudnn::interposer {

// One rank of this process.
struct RankRecord {
  int rank = 0;
  std::string transport;  // empty: no exchange was opened yet
  std::string library;    // that it is of, with its version; empty: none
  uint64_t calls = 0;     // split, refused and replicated ones
  size_t owned_bytes = 0;
  spatial::RankFigures figures;
};

struct SpatialRecord {
  std::string grid;
  int rank = 0, ranks = 1;       // rank -1: the ranks are threads of this process, all together
  uint64_t calls = 0;            // split, refused and replicated ones
  uint64_t exchanged_bytes = 0;  // that this rank received and sent, without sums of gradients
  size_t owned_bytes = 0;        // device memory of ucudnn's for exchanges
  std::vector<RankRecord> tracks;
  // Calls that were refused by name, without a kernel, and how often.
  std::vector<std::pair<std::string, uint64_t>> refused;
};

// As JSON, at nesting depth 1.
std::string SpatialText(const SpatialRecord& record);

}  // namespace ucudnn::interposer
