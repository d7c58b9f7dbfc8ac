// Windows that slide over one axis that is cut into parts, with padding that may differ at the two
// ends: the windows that each part computes, and the rows that the part reads for them. CutAxis()
// says whether a part's own call, which is not aware of the cut, computes exactly these windows. If
// it does not, the part may still compute them if it fetches rows before the call, as
// ucudnn.spatial.convert does in PyTorch. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "convolution/partition.h"

namespace ucudnn::planner {

// Windows with `window.pad` rows of padding before the first row and `back` rows after the last
// row.
struct PaddedWindow {
  SlidingWindow window;
  int64_t back = 0;
};

struct CutWindows {
  std::vector<int64_t> outputs;  // number of windows of each part
  std::vector<Interval> needed;  // by part: the rows of the whole axis that the part reads or owns
  bool is_own_call = true;       // whether each part's own call computes its windows
  std::string why;               // the reason if is_own_call is false
};

// Cuts an axis, which messages call `axis` (d, h or w). Fails if even fetched rows cannot give the
// parts the windows of the whole axis; the error says why.
Result<CutWindows> CutWindowsOf(char axis, const PaddedWindow& padded,
                                const std::vector<int64_t>& extents);

// Returns whether there are extents for which CutWindowsOf() can cut the axis into `parts` parts.
// With `own_calls`, the parts' own calls must compute the windows.
bool CanBeCut(const PaddedWindow& padded, int parts, bool own_calls);

// Returns the interval of the whole axis that each part owns.
std::vector<Interval> OwnedRows(const std::vector<int64_t>& extents);

}  // namespace ucudnn::planner
