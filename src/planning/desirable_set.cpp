#include "planning/desirable_set.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

#include "planning/compositions.h"

namespace ucudnn::planning {
namespace {

using Usables = std::vector<const MicroConfiguration*>;

// Returns the rows that may be used, by ascending workspace. If rows are admitted to compositions
// in this order, no composition with a new row needs more workspace than that row.
Usables Usable(std::span<const MicroConfiguration> measured, int n, size_t limit_bytes) {
  Usables rows;
  for (const MicroConfiguration& micro : measured) {
    if (micro.micro_batch < 1 || micro.micro_batch > n) continue;
    if (micro.workspace_bytes > limit_bytes) continue;
    if (micro.time_ms >= 0 && micro.time_ms < kNoTime) rows.push_back(&micro);
  }
  std::sort(rows.begin(), rows.end(), [](const MicroConfiguration* a, const MicroConfiguration* b) {
    return std::tie(a->workspace_bytes, a->time_ms, a->micro_batch, a->engine) <
           std::tie(b->workspace_bytes, b->time_ms, b->micro_batch, b->engine);
  });
  return rows;
}

}  // namespace

std::vector<Configuration> DesirableSet(std::span<const MicroConfiguration> measured, int n,
                                        int step, size_t limit_bytes) {
  std::vector<Configuration> front;
  if (n < 1 || step < 1) return front;
  const Usables rows = Usable(measured, n, limit_bytes);
  Compositions compositions(n, step);
  double fastest_ms = kNoTime;
  for (size_t at = 0; at < rows.size();) {
    const size_t workspace_bytes = rows[at]->workspace_bytes;
    bool faster = false;
    for (; at < rows.size() && rows[at]->workspace_bytes == workspace_bytes; ++at) {
      faster |= compositions.Admit(*rows[at]);
    }
    if (!faster || compositions.Of(n).first >= fastest_ms) continue;
    Configuration configuration = compositions.Divide(n);
    // Two sums of the same times in different orders may differ in the last bit. So the exact time
    // of the configuration is compared again.
    if (configuration.TimeMs() >= fastest_ms) continue;
    fastest_ms = configuration.TimeMs();
    assert(configuration.WorkspaceBytes() == workspace_bytes);
    front.push_back(std::move(configuration));
  }
  return front;
}

}  // namespace ucudnn::planning
