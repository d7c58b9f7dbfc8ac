// Windows slid over one axis that is cut into parts, with padding that may differ at the two ends:
// what each part computes, and which rows it reads for that. Whether a part's own call, which knows
// nothing of the cut, computes it is CutAxis's answer; where it does not, rows that are fetched
// before (as ucudnn.spatial.convert does in PyTorch) may. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/partition.h"

namespace ucudnn::planner {

// `window.pad` is the padding before the first row, `back` that behind the last one.
struct PaddedWindow {
  SlidingWindow window;
  int64_t back = 0;
};

struct CutWindows {
  std::vector<int64_t> outputs;  // windows by part
  std::vector<Interval> needed;  // by part, of the whole axis: rows that it reads, and its own
  bool is_own_call = true;       // each part's own call computes its windows
  std::string why;               // where it does not: the reason
};

// `axis` is d, h or w, for messages. An error says why no rows that are fetched make the parts'
// windows those of the whole.
Result<CutWindows> CutWindowsOf(char axis, const PaddedWindow& padded,
                                const std::vector<int64_t>& extents);

// Whether there are `parts` parts, of whatever extents, with which CutWindowsOf has an answer; with
// `own_calls`, one of the parts' own calls.
bool CanBeCut(const PaddedWindow& padded, int parts, bool own_calls);

// Each part's rows in the whole, in order.
std::vector<Interval> OwnedRows(const std::vector<int64_t>& extents);

}  // namespace ucudnn::planner
