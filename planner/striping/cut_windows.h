// Windows that slide over one axis that is cut into parts, with padding that may differ at the two
// ends: what each part computes, and which rows it reads for that. CutAxis() says whether a part's
// own call, which knows nothing of the cut, computes it. If it does not, rows that are fetched
// before the call (as ucudnn.spatial.convert does in PyTorch) may help. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/partition.h"

namespace ucudnn::planner {

// `window.pad` is the padding before the first row, `back` the padding behind the last row.
struct PaddedWindow {
  SlidingWindow window;
  int64_t back = 0;
};

struct CutWindows {
  std::vector<int64_t> outputs;  // number of windows of each part
  std::vector<Interval> needed;  // by part: the interval of the whole axis that it reads or owns
  bool is_own_call = true;       // each part's own call computes its windows
  std::string why;               // the reason if is_own_call is false
};

// `axis` is d, h or w, for messages. An error says why no fetched rows make the parts' windows
// those of the whole.
Result<CutWindows> CutWindowsOf(char axis, const PaddedWindow& padded,
                                const std::vector<int64_t>& extents);

// Returns whether CutWindowsOf() can cut the axis into `parts` parts of some extents, with
// `own_calls` such that the parts' own calls compute it.
bool CanBeCut(const PaddedWindow& padded, int parts, bool own_calls);

// Returns each part's rows in the whole, in order.
std::vector<Interval> OwnedRows(const std::vector<int64_t>& extents);

}  // namespace ucudnn::planner
