#include "planning/workspace_reuse.h"

#include <cassert>
#include <cmath>
#include <vector>

#include "planning/compositions.h"

namespace ucudnn::planning {
namespace {

// The fastest micro-configuration of each size up to `n` (T1 in mu-cuDNN, section III-B); null for
// a size that has none.
class FastestOfEachSize {
 public:
  explicit FastestOfEachSize(int n) : of_(static_cast<size_t>(n) + 1, nullptr) {}

  void Add(const MicroConfiguration& micro) {
    if (micro.micro_batch < 1 || static_cast<size_t>(micro.micro_batch) >= of_.size()) return;
    if (!std::isfinite(micro.time_ms) || micro.time_ms < 0) return;
    const MicroConfiguration*& best = of_[micro.micro_batch];
    if (best == nullptr || micro.time_ms < best->time_ms) best = &micro;
  }

  const MicroConfiguration* operator[](int size) const { return of_[size]; }

 private:
  std::vector<const MicroConfiguration*> of_;
};

// Returns whether a division of `n` images may have a piece of `size`.
bool IsLegal(int size, int n, int step) { return size % step == 0 || (n - size) % step == 0; }

void AdmitUpTo(int size, int n, int step, const FastestOfEachSize& fastest, Compositions& to) {
  for (int piece = 1; piece <= size; ++piece) {
    if (fastest[piece] != nullptr && IsLegal(piece, n, step)) to.Admit(*fastest[piece]);
  }
}

}  // namespace

std::optional<Configuration> OptimizeWorkspaceReuse(std::span<const MicroConfiguration> measured,
                                                    int n, int step, size_t limit_bytes) {
  if (n < 1 || step < 1) return std::nullopt;
  FastestOfEachSize fastest(n);
  for (const MicroConfiguration& micro : measured) {
    if (micro.workspace_bytes <= limit_bytes) fastest.Add(micro);
  }
  // AdmitUpTo admits sizes in ascending order. So a row is dropped if smaller pieces together are
  // as fast, before larger compositions are built from the row.
  Compositions compositions(n, step);
  AdmitUpTo(n, n, step, fastest, compositions);
  if (!std::isfinite(compositions.Of(n).first)) return std::nullopt;
  return compositions.Divide(n);
}

std::optional<Configuration> OptimizeWorkspaceReuseByLargest(std::span<const Piece> pieces, int n,
                                                             int step, double below_ms) {
  if (n < 1 || step < 1) return std::nullopt;
  FastestOfEachSize fastest(n), largest_of_size(n);
  for (const Piece& piece : pieces) {
    assert(piece.micro != nullptr);
    fastest.Add(*piece.micro);
    if (piece.may_be_largest) largest_of_size.Add(*piece.micro);
  }
  // After the call of Admit in the loop, `admitted` has all pieces of at most `size` images. These
  // are the pieces that may follow a largest piece of `size` images.
  Compositions admitted(n, step);
  const MicroConfiguration* largest = nullptr;
  Cost best = {below_ms, 0};
  for (int size = 1; size <= n; ++size) {
    if (!IsLegal(size, n, step)) continue;
    if (fastest[size] != nullptr) admitted.Admit(*fastest[size]);
    if (largest_of_size[size] == nullptr) continue;
    const Cost with = Sum({largest_of_size[size]->time_ms, 1}, admitted.Of(n - size));
    if (with >= best) continue;
    best = with;
    largest = largest_of_size[size];
  }
  if (largest == nullptr) return std::nullopt;

  const int size = largest->micro_batch;
  Compositions others(n, step);
  AdmitUpTo(size - 1, n, step, fastest, others);
  // If the largest piece is as fast as the fastest engine of its size, other pieces of this size
  // also run the engine of the largest piece, so that the division needs no further engine.
  others.Admit(largest->time_ms <= fastest[size]->time_ms ? *largest : *fastest[size]);
  Configuration configuration = others.Divide(n - size);
  std::vector<Run>& runs = configuration.runs;
  if (size % step != 0) {
    runs.push_back({*largest, 1});
  } else if (!runs.empty() && runs.front().micro == *largest) {
    ++runs.front().count;
  } else {
    runs.insert(runs.begin(), {*largest, 1});
  }
  assert(configuration.Covers(n));
  return configuration;
}

}  // namespace ucudnn::planning
