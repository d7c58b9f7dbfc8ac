#include "planning/auto_policy.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "planning/micro_batch_sizes.h"

namespace ucudnn::planning {
namespace {

// While refining, Rows raises expected times by this fraction, because a smaller gain is not worth
// a measurement.
constexpr double kDoubt = 0.005;
// While exploring, Rows lowers the expected time of a size by kHope * Gap(size): by 5 % if the
// nearest measured size differs by a factor of 2 or more, and by less if it is nearer. The true
// curve may have a valley below the line between measured sizes.
constexpr double kHope = 0.05;
// Rows raises the expected times of sizes that are not those of equal parts by this fraction,
// because equal parts need fewer measurements.
constexpr double kUnequal = 0.001;
// LegalSizes divides a mini-batch into at most this many equal parts. If the mini-batch has more
// steps than this, LegalSizes offers other sizes only up to the size of the smallest equal part.
constexpr int kEveryPart = 256;
// Interpolated workspaces are cut to this bound, which no real workspace exceeds. Other programs
// may have written the rows of a store, so a row may state any number of bytes.
constexpr double kMostModelBytes = 0x1p62;

using Sizes = std::set<int>;

// Returns the sizes that a piece may have: multiples of the step and, for the last piece, multiples
// plus the rest of n. The value of a size is true if pieces of about this size divide n as equally
// as possible.
std::map<int, bool> LegalSizes(int n, int step) {
  const int steps = n / step, rest = n % step;
  std::map<int, bool> sizes = {{n, true}};
  if (rest != 0) sizes.emplace(rest, true);
  const auto add = [&](int part, bool equal) {
    sizes.emplace(part * step, equal);
    sizes.emplace(part * step + rest, equal);
  };
  for (int k = 1; k <= std::min(steps, kEveryPart); ++k) {
    add(steps / k, true);
    add((steps + k - 1) / k, true);
    if (steps <= kEveryPart || k <= steps / kEveryPart) add(k, false);
  }
  return sizes;
}

// Returns n, a quarter of n and a sixteenth of n, the parts rounded down to multiples of the step.
// The first two sizes give a line, and the third one shows whether the curve is straight.
Sizes FirstSizes(int n, int step) {
  Sizes sizes = {n};
  for (const int parts : {4, 16}) sizes.insert(std::max(n / parts / step, 1) * step);
  return sizes;
}

struct Point {
  double time_ms = 0;
  double workspace_bytes = 0;
};

// One engine: its measured sizes, and the time and workspace that it is expected to need at other
// sizes.
class Engine {
 public:
  explicit Engine(const Candidate& sample) : sample_(sample) {}

  void Add(const MicroConfiguration& micro) {
    points_.try_emplace(micro.micro_batch,
                        Point{micro.time_ms, static_cast<double>(micro.workspace_bytes)});
  }

  // Interpolates time and workspace at `size`. `measured` holds the sizes at which some engine is
  // known to run; `size` is not among them. Returns none if this engine runs at neither of the two
  // neighbours of `size` in `measured`.
  std::optional<Candidate> Expect(int size, const Sizes& measured) const {
    const auto above = measured.upper_bound(size);
    const Position high = above != measured.end() ? points_.find(*above) : points_.end();
    const Position low =
        above != measured.begin() ? points_.find(*std::prev(above)) : points_.end();
    Point point;
    if (low != points_.end() && high != points_.end()) {
      point = OnLine(low, high, size);
    } else if (high != points_.end()) {
      // An engine is not expected to take less time per image for smaller pieces.
      point = Proportional(high, size);
      if (std::next(high) != points_.end()) {
        const Point line = OnLine(high, std::next(high), size);
        point = {std::max(point.time_ms, line.time_ms), std::max(line.workspace_bytes, 0.0)};
      }
    } else if (low != points_.end()) {
      point = Proportional(low, size);
      if (low != points_.begin()) point = OnLine(std::prev(low), low, size);
      point = {std::max(point.time_ms, low->second.time_ms),
               std::max(point.workspace_bytes, low->second.workspace_bytes)};
    } else {
      return std::nullopt;
    }
    Candidate expected = sample_;
    expected.micro.micro_batch = size;
    expected.micro.time_ms = point.time_ms;
    expected.micro.workspace_bytes =
        static_cast<size_t>(std::min(point.workspace_bytes, kMostModelBytes));
    return expected;
  }

 private:
  using Position = std::map<int, Point>::const_iterator;

  static Point OnLine(Position a, Position b, int size) {
    const double share = static_cast<double>(size - a->first) / (b->first - a->first);
    return {std::lerp(a->second.time_ms, b->second.time_ms, share),
            std::lerp(a->second.workspace_bytes, b->second.workspace_bytes, share)};
  }
  static Point Proportional(Position at, int size) {
    const double share = static_cast<double>(size) / at->first;
    return {at->second.time_ms * share, at->second.workspace_bytes * share};
  }

  Candidate sample_;
  std::map<int, Point> points_;
};

// The measurements so far, and the values that are expected at other sizes.
class Knowledge {
 public:
  Knowledge(std::span<const Candidate> measured, const Sizes& asked) {
    for (const Candidate& candidate : measured) {
      const MicroConfiguration& micro = candidate.micro;
      if (!asked.contains(micro.micro_batch)) continue;
      if (!std::isfinite(micro.time_ms) || micro.time_ms < 0) continue;
      rows_.push_back(candidate);
    }
    // Of rows with equal times the first one is used. So the order of the rows must not depend on
    // which process measured first.
    std::sort(rows_.begin(), rows_.end(), [](const Candidate& a, const Candidate& b) {
      const auto key = [](const Candidate& row) {
        const MicroConfiguration& micro = row.micro;
        return std::tie(micro.micro_batch, micro.engine, micro.time_ms, micro.workspace_bytes,
                        micro.deterministic, row.numeric);
      };
      return key(a) < key(b);
    });
    for (const Candidate& row : rows_) {
      measured_.insert(row.micro.micro_batch);
      engines_.try_emplace(row.micro.engine, row).first->second.Add(row.micro);
    }
  }

  enum class Mood { kDoubtful, kHopeful };
  // Returns the measured rows, and expected rows at the sizes of `legal` that are not in `asked`.
  // With kDoubtful, expected times are raised by kDoubt; with kHopeful, they are lowered by up to
  // kHope.
  std::vector<Candidate> Rows(const std::map<int, bool>& legal, const Sizes& asked,
                              Mood mood) const {
    std::vector<Candidate> rows = rows_;
    for (const auto& [size, equal] : legal) {
      if (asked.contains(size)) continue;
      const double factor =
          1 + (equal ? 0 : kUnequal) + (mood == Mood::kDoubtful ? kDoubt : -kHope * Gap(size));
      for (const auto& [name, engine] : engines_) {
        std::optional<Candidate> expected = engine.Expect(size, measured_);
        if (!expected) continue;
        expected->micro.time_ms *= factor;
        rows.push_back(std::move(*expected));
      }
    }
    return rows;
  }

 private:
  // Returns the binary logarithm of the factor between `size` and the nearest measured size, but at
  // most 1.
  double Gap(int size) const {
    double gap = 1;
    const auto above = measured_.upper_bound(size);
    if (above != measured_.end()) gap = std::min(gap, std::log2(1.0 * *above / size));
    if (above != measured_.begin()) gap = std::min(gap, std::log2(1.0 * size / *std::prev(above)));
    return gap;
  }

  std::vector<Candidate> rows_;
  std::map<EngineId, Engine> engines_;
  Sizes measured_;
};

// Finds the fewest equal parts of n whose workspace with `engine` fits the L2 cache, and the fewest
// whose workspace fits half of the cache. Adds the sizes of these parts to `sizes`. Adds nothing
// for the cache or for half of it if that exceeds the limit, or if the workspace of the undivided
// call fits it.
void AddCachedSizes(const std::vector<Candidate>& rows, const EngineId& engine,
                    const AutoRequest& request, const std::map<int, bool>& legal, Sizes& sizes) {
  const int n = request.promise.n, step = request.promise.step;
  for (const size_t target : {request.l2_bytes, request.l2_bytes / 2}) {
    if (target == 0 || target > request.promise.limit_bytes) continue;
    int largest = 0;
    for (const Candidate& row : rows) {
      if (row.micro.engine != engine || row.micro.micro_batch % step != 0) continue;
      if (row.micro.workspace_bytes > target) continue;
      largest = std::max(largest, row.micro.micro_batch);
    }
    if (largest == 0 || largest >= n / step * step) continue;
    const int steps = n / step, parts = (n + largest - 1) / largest;
    const int size = (steps + parts - 1) / parts * step;
    if (legal.contains(size)) sizes.insert(size);
  }
}

// Returns the elements of `sizes` that are not in `asked`, but only so many that `asked` and the
// result together have at most `most` elements.
std::vector<int> Fresh(const Sizes& sizes, const Sizes& asked, size_t most) {
  std::vector<int> fresh;
  std::set_difference(sizes.begin(), sizes.end(), asked.begin(), asked.end(),
                      std::back_inserter(fresh));
  const size_t left = most - std::min(most, asked.size());
  if (fresh.size() > left) fresh.resize(left);
  return fresh;
}

Sizes SizesOf(const Configuration& configuration) {
  Sizes sizes;
  for (const Run& run : configuration.runs) sizes.insert(run.micro.micro_batch);
  return sizes;
}

}  // namespace

std::vector<int> NextSizes(std::span<const Candidate> measured, std::span<const int> asked_sizes,
                           const AutoRequest& request) {
  const PromiseRequest& promise = request.promise;
  const int n = promise.n, step = promise.step;
  if (n < 1 || step < 1) return {};
  const Sizes asked(asked_sizes.begin(), asked_sizes.end());
  if (step >= n) return Fresh({n}, asked, 1);
  // An estimate of the number of sizes of policy powerOfTwo. If the step is a power of 2, the real
  // number is `powers` or `powers` + 1.
  const size_t powers =
      MicroBatchSizes(BatchSizePolicy::kPowerOfTwo, n / step, 1).size() + (n % step != 0 ? 1 : 0);
  const size_t most = 3 * powers / 2;
  std::vector<int> next = Fresh(FirstSizes(n, step), asked, most);
  if (!next.empty()) return next;

  const Knowledge knowledge(measured, asked);
  const std::map<int, bool> legal = LegalSizes(n, step);
  const std::vector<Candidate> rows = knowledge.Rows(legal, asked, Knowledge::Mood::kDoubtful);
  const std::optional<Configuration> configuration = FastestDivision(rows, promise);
  if (!configuration) return Fresh({step, n % step != 0 ? n % step : n}, asked, most);

  Sizes cached;
  AddCachedSizes(rows, configuration->Largest().engine, request, legal, cached);
  if (const std::optional<MicroConfiguration> undivided = FastestUndivided(rows, promise)) {
    AddCachedSizes(rows, undivided->engine, request, legal, cached);
  }
  next = Fresh(cached, asked, most);
  if (next.empty()) next = Fresh(SizesOf(*configuration), asked, most);
  if (!next.empty()) return next;

  const std::optional<Configuration> hoped =
      FastestDivision(knowledge.Rows(legal, asked, Knowledge::Mood::kHopeful), promise);
  return hoped ? Fresh(SizesOf(*hoped), asked, most) : next;
}

std::vector<int> FittingSizes(BatchSizePolicy policy, int n, int step) {
  if (policy == BatchSizePolicy::kUndivided || step >= n) return {n};
  const std::vector<int> powers = MicroBatchSizes(BatchSizePolicy::kPowerOfTwo, n, step);
  if (policy == BatchSizePolicy::kPowerOfTwo) return powers;
  Sizes sizes = FirstSizes(n, step);
  if (policy == BatchSizePolicy::kAll) sizes.insert(powers.begin(), powers.end());
  sizes.insert(step);
  if (n % step != 0) sizes.insert(n % step);
  return {sizes.begin(), sizes.end()};
}

}  // namespace ucudnn::planning
