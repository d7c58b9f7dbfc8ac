#include <algorithm>
#include <cmath>
#include <limits>

#include "base/byte_size.h"
#include "planner/search/bucket_tree.h"
#include "planner/search/k_best.h"
#include "planner/search/search.h"

namespace ucudnn::planner {
namespace {

// Time with `ms_per_byte` to pay for memory. No time at all where `time` is 0.
SearchProblem Priced(const SearchProblem& problem, double time, double ms_per_byte) {
  SearchProblem priced = problem;
  const auto price = [&](std::vector<double>& ms, const std::vector<int64_t>& bytes) {
    for (size_t entry = 0; entry < ms.size(); ++entry) {
      const double memory = bytes.empty() ? 0 : static_cast<double>(bytes[entry]);
      ms[entry] = ms[entry] * time + memory * ms_per_byte;
    }
  };
  for (auto& layer : priced.layers) price(layer.ms, layer.bytes);
  for (auto& edge : priced.edges) price(edge.ms, edge.bytes);
  return priced;
}

struct FrontPoint {
  Plan plan;
  double bytes = 0;
};

FrontPoint PointOf(const SearchProblem& problem, Assignment assignment) {
  FrontPoint point;
  point.plan.total_ms = TotalMs(problem, assignment);
  point.bytes = static_cast<double>(TotalBytes(problem, assignment));
  point.plan.assignment = std::move(assignment);
  return point;
}

struct PricedPoint {
  FrontPoint point;
  double bound = 0;  // of time + price * bytes
};

Result<PricedPoint> SolvePriced(const SearchProblem& problem, double time, double ms_per_byte,
                                SearchOptions options) {
  options.plans = 1;
  options.marginals = false;
  UCUDNN_ASSIGN_OR_RETURN(const SearchResult result,
                          Search(Priced(problem, time, ms_per_byte), options));
  return PricedPoint{PointOf(problem, result.plans.front().assignment), result.lower_bound_ms};
}

LimitedResult Found(const FrontPoint& point, double bound, bool optimal) {
  return {point.plan, static_cast<int64_t>(point.bytes), bound, optimal};
}

bool Meets(double bound, double total) { return bound >= total - 1e-9 * std::max(1.0, total); }

}  // namespace

Result<LimitedResult> SearchWithin(const SearchProblem& problem, int64_t limit_bytes,
                                   const SearchOptions& options, int most_plans) {
  const auto limit = static_cast<double>(limit_bytes);
  UCUDNN_ASSIGN_OR_RETURN(const PricedPoint fastest, SolvePriced(problem, 1, 0, options));
  if (fastest.point.bytes <= limit) {
    return Found(fastest.point, fastest.bound, Meets(fastest.bound, fastest.point.plan.total_ms));
  }
  UCUDNN_ASSIGN_OR_RETURN(const PricedPoint smallest, SolvePriced(problem, 0, 1, options));
  if (smallest.point.bytes > limit) {
    return Status::Error("no plan fits " + FormatByteSize(static_cast<size_t>(limit_bytes)) +
                         " on a device; the smallest found needs " +
                         FormatByteSize(static_cast<size_t>(smallest.point.bytes)));
  }
  // `over` is faster and too large, `within` fits; the price at which both cost the same shows a
  // cheaper one between them or that there is none.
  FrontPoint over = fastest.point;
  FrontPoint within = smallest.point;
  double bound = fastest.bound;
  double price = 0;
  for (;;) {
    const double next = (within.plan.total_ms - over.plan.total_ms) / (over.bytes - within.bytes);
    if (!(next > price * (1 + 1e-12) || next < price * (1 - 1e-12))) break;
    price = next;
    UCUDNN_ASSIGN_OR_RETURN(const PricedPoint between, SolvePriced(problem, 1, price, options));
    bound = std::max(bound, between.bound - price * limit);
    const double cost = between.point.plan.total_ms + price * between.point.bytes;
    const double known = within.plan.total_ms + price * within.bytes;
    if (cost >= known * (1 - 1e-12)) break;
    (between.point.bytes <= limit ? within : over) = between.point;
  }
  if (Meets(bound, within.plan.total_ms)) return Found(within, bound, true);

  const SearchProblem priced = Priced(problem, 1, price);
  const EliminationOrder order = OrderElimination(priced);
  if (order.entries > options.most_entries || order.operations > options.most_operations) {
    return Found(within, bound, false);
  }
  const BucketTree tree(priced, order, std::numeric_limits<double>::infinity());
  KBest best(tree);
  for (int plan = 0; plan < most_plans; ++plan) {
    const auto next = best.Next();
    if (!next) return Found(within, within.plan.total_ms, true);
    const FrontPoint point = PointOf(problem, *next);
    // What fits and was not seen yet takes at least this.
    bound = std::max(bound, point.plan.total_ms + price * (point.bytes - limit));
    if (Meets(bound, within.plan.total_ms)) return Found(within, within.plan.total_ms, true);
    if (point.bytes <= limit && point.plan.total_ms < within.plan.total_ms) within = point;
  }
  return Found(within, std::min(bound, within.plan.total_ms), false);
}

Result<std::vector<ParetoPoint>> TimeMemoryFrontier(const SearchProblem& problem, int points,
                                                    const SearchOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const PricedPoint fastest, SolvePriced(problem, 1, 0, options));
  UCUDNN_ASSIGN_OR_RETURN(const PricedPoint smallest, SolvePriced(problem, 0, 1, options));
  std::vector<ParetoPoint> frontier;
  const double step = (fastest.point.bytes - smallest.point.bytes) / std::max(1, points - 1);
  double limit = fastest.point.bytes;
  for (int point = 0; point < points; ++point) {
    UCUDNN_ASSIGN_OR_RETURN(const LimitedResult found,
                            SearchWithin(problem, static_cast<int64_t>(limit), options));
    // Where plans are found without proof, a later one may beat an earlier one.
    std::erase_if(frontier, [&](const ParetoPoint& other) {
      return other.plan.total_ms >= found.plan.total_ms && other.bytes >= found.bytes;
    });
    frontier.push_back({found.plan, found.bytes, found.optimal});
    if (found.bytes <= smallest.point.bytes) break;
    limit = std::max(smallest.point.bytes,
                     std::min(limit - step, static_cast<double>(found.bytes - 1)));
  }
  return frontier;
}

}  // namespace ucudnn::planner
