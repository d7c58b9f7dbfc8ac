// The figures of splitting over ranks so far, as the report shows them in the object `spatial`.
// Plain values and a pure function.
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
  std::string library;    // the transport's library and its version; empty if it has none
  uint64_t calls = 0;     // split, refused and replicated calls
  size_t owned_bytes = 0;
  spatial::RankFigures figures;
};

struct SpatialRecord {
  std::string grid;
  int rank = 0, ranks = 1;       // rank -1: the ranks are threads of this process, all together
  uint64_t calls = 0;            // split, refused and replicated calls
  uint64_t exchanged_bytes = 0;  // received and sent by this rank, without sums of gradients
  size_t owned_bytes = 0;        // ucudnn's device memory for exchanges
  std::vector<RankRecord> tracks;
  // Calls that were refused by name, without a kernel, and their numbers.
  std::vector<std::pair<std::string, uint64_t>> refused;
};

// Formats the object, at nesting depth 1.
std::string SpatialText(const SpatialRecord& record);

}  // namespace ucudnn::interposer
