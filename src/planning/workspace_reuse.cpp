#include "planning/workspace_reuse.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace ucudnn::planning {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kNoPiece = -1;

// T1 of the paper: position in `measured` of the fastest micro-configuration of each size, or
// kNoPiece.
std::vector<int> FastestOfEachSize(std::span<const MicroConfiguration> measured, int n,
                                   size_t limit_bytes) {
  std::vector<int> fastest(static_cast<size_t>(n) + 1, kNoPiece);
  for (size_t i = 0; i < measured.size(); ++i) {
    const MicroConfiguration& micro = measured[i];
    if (micro.micro_batch < 1 || micro.micro_batch > n) continue;
    if (micro.workspace_bytes > limit_bytes || !(micro.time_ms >= 0)) continue;
    int& best = fastest[micro.micro_batch];
    if (best == kNoPiece || micro.time_ms < measured[best].time_ms) best = static_cast<int>(i);
  }
  return fastest;
}

// The optimum for every whole number of steps: time, number of pieces, and the size (in steps) of
// one of them.
struct Optimum {
  std::vector<double> time_ms;
  std::vector<int> pieces;
  std::vector<int> piece;
};

// T of the paper over multiples of the step. A size whose optimum is a sum of smaller pieces is
// never needed as a piece of a larger optimum, so only irreducible sizes are tried: usually a
// handful.
Optimum SolveSteps(const std::vector<double>& single_ms) {
  const int count = static_cast<int>(single_ms.size());
  Optimum optimum{std::vector<double>(count, kNever), std::vector<int>(count, 0),
                  std::vector<int>(count, kNoPiece)};
  optimum.time_ms[0] = 0;
  std::vector<int> irreducible;
  for (int size = 1; size < count; ++size) {
    double best = kNever;
    int pieces = 0;
    int piece = kNoPiece;
    for (const int part : irreducible) {
      const double time_ms = single_ms[part] + optimum.time_ms[size - part];
      if (time_ms > best || time_ms == kNever) continue;
      if (time_ms == best && optimum.pieces[size - part] + 1 >= pieces) continue;
      best = time_ms;
      pieces = optimum.pieces[size - part] + 1;
      piece = part;
    }
    if (single_ms[size] < kNever && single_ms[size] <= best) {
      best = single_ms[size];
      pieces = 1;
      piece = size;
      irreducible.push_back(size);
    }
    optimum.time_ms[size] = best;
    optimum.pieces[size] = pieces;
    optimum.piece[size] = piece;
  }
  return optimum;
}

}  // namespace

std::optional<Configuration> OptimizeWorkspaceReuse(std::span<const MicroConfiguration> measured,
                                                    int n, int step, size_t limit_bytes) {
  if (n < 1 || step < 1) return std::nullopt;
  const std::vector<int> fastest = FastestOfEachSize(measured, n, limit_bytes);
  std::vector<double> single_ms(static_cast<size_t>(n / step) + 1, kNever);
  for (int size = step; size <= n; size += step) {
    if (fastest[size] != kNoPiece) single_ms[size / step] = measured[fastest[size]].time_ms;
  }
  const Optimum optimum = SolveSteps(single_ms);

  // The last piece takes what is no multiple of the step; without such a rest there is none to
  // choose.
  int last = 0;
  double best = optimum.time_ms[n / step];
  if (const int rest = n % step; rest != 0) {
    best = kNever;
    int pieces_before = 0;
    for (int size = rest; size <= n; size += step) {
      if (fastest[size] == kNoPiece) continue;
      const int before = (n - size) / step;
      const double time_ms = measured[fastest[size]].time_ms + optimum.time_ms[before];
      if (time_ms > best) continue;
      if (time_ms == best && optimum.pieces[before] >= pieces_before) continue;
      best = time_ms;
      pieces_before = optimum.pieces[before];
      last = size;
    }
  }
  if (best == kNever) return std::nullopt;

  std::vector<int> sizes;
  for (int left = (n - last) / step; left > 0; left -= optimum.piece[left]) {
    sizes.push_back(optimum.piece[left] * step);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  if (last != 0) sizes.push_back(last);

  Configuration configuration;
  for (const int size : sizes) {
    if (configuration.runs.empty() || configuration.runs.back().micro.micro_batch != size) {
      configuration.runs.push_back({measured[fastest[size]], 0});
    }
    ++configuration.runs.back().count;
  }
  return configuration;
}

}  // namespace ucudnn::planning
