#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/byte_size.h"
#include "planner/search/bucket_tree.h"
#include "planner/search/k_best.h"
#include "planner/search/reduction.h"
#include "planner/search/search.h"

namespace ucudnn::planner {
namespace {

// Returns `problem` with the cost `time` * ms + `ms_per_byte` * bytes in each entry.
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
  double bound = 0;  // lower bound of time + price * bytes
};

LimitedResult Found(const FrontPoint& point, double bound_ms) {
  const double total = point.plan.total_ms;
  return {point.plan, static_cast<int64_t>(point.bytes), std::min(bound_ms, total),
          Meets(bound_ms, total)};
}

// Searches one problem with various prices of memory. It keeps the minima that it has found,
// because searches at other limits need them again.
class LimitedSearch {
 public:
  LimitedSearch(const SearchProblem& problem, SearchOptions options)
      : problem_(problem), options_(options) {
    options_.plans = 1;
    options_.marginals = false;
  }

  Result<PricedPoint> Fastest() { return Least(1, 0); }
  Result<PricedPoint> Smallest() { return Least(0, 1); }
  Result<LimitedResult> Within(double limit, int most_plans);

 private:
  // Returns the minimum of `time` * ms + `price` * bytes.
  Result<PricedPoint> Least(double time, double price) {
    if (const auto found = known_.find({time, price}); found != known_.end()) return found->second;
    UCUDNN_ASSIGN_OR_RETURN(const SearchResult result,
                            Search(Priced(problem_, time, price), options_));
    const PricedPoint least = {PointOf(problem_, result.plans.front().assignment),
                               result.lower_bound_ms};
    known_.emplace(std::pair(time, price), least);
    return least;
  }
  LimitedResult Enumerate(FrontPoint within, double bound, double limit, double price,
                          int most_plans) const;

  const SearchProblem& problem_;
  SearchOptions options_;
  std::map<std::pair<double, double>, PricedPoint> known_;
};

Result<LimitedResult> LimitedSearch::Within(double limit, int most_plans) {
  UCUDNN_ASSIGN_OR_RETURN(const PricedPoint fastest, Fastest());
  if (fastest.point.bytes <= limit) return Found(fastest.point, fastest.bound);
  UCUDNN_ASSIGN_OR_RETURN(const PricedPoint smallest, Smallest());
  if (smallest.point.bytes > limit) {
    return Status::Error("no plan fits " + FormatByteSize(static_cast<size_t>(limit)) +
                         " on a device; the smallest found needs " +
                         FormatByteSize(static_cast<size_t>(smallest.point.bytes)));
  }
  // `over` is faster and too large; `within` fits. There is a price at which both have the same
  // priced cost. A search at this price finds a plan of lower priced cost, or proves that there is
  // none.
  FrontPoint over = fastest.point;
  FrontPoint within = smallest.point;
  double bound = fastest.bound;
  double price = 0;
  for (;;) {
    const double next = (within.plan.total_ms - over.plan.total_ms) / (over.bytes - within.bytes);
    if (!(next > price * (1 + 1e-12) || next < price * (1 - 1e-12))) break;
    price = next;
    UCUDNN_ASSIGN_OR_RETURN(const PricedPoint between, Least(1, price));
    bound = std::max(bound, between.bound - price * limit);
    const double cost = between.point.plan.total_ms + price * between.point.bytes;
    const double known = within.plan.total_ms + price * within.bytes;
    if (cost >= known * (1 - 1e-12)) break;
    (between.point.bytes <= limit ? within : over) = between.point;
  }
  if (Meets(bound, within.plan.total_ms)) return Found(within, bound);
  return Enumerate(within, bound, limit, price, most_plans);
}

// A plan that fits and is faster than `within` has a priced cost below within.total_ms + price *
// limit. Reduce() keeps all configurations that such plans use. So all such plans are found among
// the plans of the reduced problem.
LimitedResult LimitedSearch::Enumerate(FrontPoint within, double bound, double limit, double price,
                                       int most_plans) const {
  const SearchProblem priced = Priced(problem_, 1, price);
  const auto take = [&](const Assignment& assignment) {
    FrontPoint point = PointOf(problem_, assignment);
    if (point.bytes <= limit && point.plan.total_ms < within.plan.total_ms) {
      within = std::move(point);
    }
    return within.plan.total_ms + price * limit;
  };
  const Reduction left = Reduce(priced, take, options_.most_operations);
  bound = std::max(bound, left.lower_bound_ms - price * limit);
  if (left.proved || Meets(bound, within.plan.total_ms)) {
    return Found(within, within.plan.total_ms);
  }
  if (!Fits(left.order, options_)) return Found(within, bound);
  const BucketTree tree(left.problem, left.order.layers);
  KBest best(tree);
  for (int plan = 0; plan < most_plans; ++plan) {
    const auto next = best.Next();
    if (!next) return Found(within, within.plan.total_ms);
    const Assignment assignment = Unrestricted(left.kept, *next);
    // Plans are listed in ascending order of priced cost. So a plan that fits and is not listed yet
    // has at least the priced cost of this plan, and therefore at least this time.
    bound = std::max(bound, TotalMs(priced, assignment) - price * limit);
    if (Meets(bound, within.plan.total_ms)) return Found(within, within.plan.total_ms);
    take(assignment);
  }
  return Found(within, bound);
}

}  // namespace

Result<LimitedResult> SearchWithin(const SearchProblem& problem, int64_t limit_bytes,
                                   const SearchOptions& options, int most_plans) {
  return LimitedSearch(problem, options).Within(static_cast<double>(limit_bytes), most_plans);
}

Result<std::vector<ParetoPoint>> TimeMemoryFrontier(const SearchProblem& problem, int points,
                                                    const SearchOptions& options) {
  LimitedSearch search(problem, options);
  UCUDNN_ASSIGN_OR_RETURN(const PricedPoint fastest, search.Fastest());
  UCUDNN_ASSIGN_OR_RETURN(const PricedPoint smallest, search.Smallest());
  std::vector<ParetoPoint> frontier;
  const double step = (fastest.point.bytes - smallest.point.bytes) / std::max(1, points - 1);
  double limit = fastest.point.bytes;
  for (int point = 0; point < points; ++point) {
    UCUDNN_ASSIGN_OR_RETURN(const LimitedResult found, search.Within(limit, kMostPlans));
    // A plan found without proof may be worse than a plan found later at a lower limit.
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
