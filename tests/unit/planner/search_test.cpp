// Compares the results of the search with the enumeration of every assignment, and the dual bound
// with the result of elimination.
#include "planner/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "planner/cost/layer_graph.h"
#include "planner/search/dual_ascent.h"
#include "planner/search/elimination_order.h"
#include "tests/unit/planner/enumerate.h"
#include "tests/unit/planner/hrnet.h"
#include "tests/unit/planner/network_shapes.h"

namespace ucudnn::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kGraphs = 2'500;
const char* const kFamilies[] = {"residual", "concat", "several inputs", "disconnected",
                                 "irreducible"};

// Draws small problems. Next(family) returns a problem whose graph is of that family. Layers have
// up to 3 configurations, and sometimes two edges join the same layers. Costs are whole numbers, so
// that sums are exact and ties occur.
class RandomProblems {
 public:
  explicit RandomProblems(unsigned seed) : random_(seed) {}

  int Draw(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  SearchProblem Next(int family) {
    NetworkShape net;
    switch (family) {
      case 0:
        Residual(net);
        break;
      case 1:
        Joined(net);
        break;
      case 2:
        SeveralInputs(net);
        break;
      case 3:
        Residual(net);
        net.AddChain(net.Add({}), Draw(0, 2));
        break;
      default:
        Dense(net);
        break;
    }
    return WithCosts(net);
  }

 private:
  void Residual(NetworkShape& net) {
    int last = net.Add({});
    while (net.layers < 5) last = net.Add({net.AddChain(last, Draw(1, 2)), last});
  }
  void Joined(NetworkShape& net) {
    const int input = net.Add({});
    std::vector<int> ends;
    while (net.layers < 6) ends.push_back(net.AddChain(input, Draw(1, 2)));
    net.Add(ends);
  }
  void SeveralInputs(NetworkShape& net) {
    std::vector<int> inputs;
    for (int i = Draw(2, 4); i > 0; --i) inputs.push_back(net.Add({}));
    const int first = net.Add({inputs[0], inputs[1]});
    inputs.push_back(first);
    net.Add(inputs);
    net.Add({first});
  }
  // Any two layers may have an edge. Node and edge elimination are then not enough to reduce the
  // graph.
  void Dense(NetworkShape& net) {
    const int layers = Draw(4, 7);
    for (int layer = 0; layer < layers; ++layer) {
      std::vector<int> inputs;
      for (int before = 0; before < layer; ++before) {
        if (Draw(0, 9) < 7) inputs.push_back(before);
      }
      net.Add(inputs);
    }
  }
  SearchProblem WithCosts(const NetworkShape& net) {
    SearchProblem problem;
    const auto fill = [&](auto& values, int count, int most) {
      for (int i = 0; i < count; ++i) values.push_back(Draw(0, most));
    };
    for (int layer = 0; layer < net.layers; ++layer) {
      SearchProblem::Layer added;
      added.name = "layer" + std::to_string(layer);
      const int configurations = Draw(1, 3);
      fill(added.ms, configurations, 20);
      fill(added.bytes, configurations, 50);
      problem.layers.push_back(std::move(added));
    }
    for (const auto& [from, to] : net.edges) {
      for (int copies = Draw(0, 9) == 0 ? 2 : 1; copies > 0; --copies) {
        SearchProblem::Edge edge;
        edge.from = from;
        edge.to = to;
        const int pairs = problem.Configurations(from) * problem.Configurations(to);
        fill(edge.ms, pairs, 20);
        fill(edge.bytes, pairs, 20);
        problem.edges.push_back(std::move(edge));
      }
    }
    return problem;
  }

  std::mt19937 random_;
};

// Calls `check` with random problems of all families and all assignments of each problem.
void ForRandomProblems(
    const std::function<void(const SearchProblem&, const std::vector<Assignment>&,
                             RandomProblems&)>& check) {
  constexpr unsigned kSeed = 6;
  RandomProblems random(kSeed);
  for (int graph = 0; graph < kGraphs; ++graph) {
    const int family = graph % static_cast<int>(std::size(kFamilies));
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", graph " + std::to_string(graph) + ", " +
                 kFamilies[family]);
    const SearchProblem problem = random.Next(family);
    ASSERT_TRUE(Check(problem).ok()) << Check(problem).message();
    check(problem, Enumerate(problem), random);
    if (::testing::Test::HasFailure()) return;
  }
}

double Least(const SearchProblem& problem, const std::vector<Assignment>& all) {
  double least = kInfinity;
  for (const Assignment& assignment : all) least = std::min(least, TotalMs(problem, assignment));
  return least;
}

TEST(Search, FindsTheLeastOfAllAssignments) {
  ForRandomProblems([](const SearchProblem& problem, const std::vector<Assignment>& all, auto&) {
    const auto result = Search(problem);
    ASSERT_TRUE(result.ok()) << result.message();
    ASSERT_EQ(result->plans.size(), 1u);
    EXPECT_TRUE(result->optimal);
    EXPECT_EQ(result->plans[0].total_ms, Least(problem, all));
    EXPECT_EQ(result->lower_bound_ms, result->plans[0].total_ms);  // sums are exact
    EXPECT_EQ(TotalMs(problem, result->plans[0].assignment), result->plans[0].total_ms);
  });
}

TEST(Search, MinMarginalsAreTheBestWithOneLayerHeld) {
  ForRandomProblems([](const SearchProblem& problem, const std::vector<Assignment>& all, auto&) {
    SearchOptions options;
    options.marginals = true;
    const auto result = Search(problem, options);
    ASSERT_TRUE(result.ok()) << result.message();
    std::vector<std::vector<double>> best;
    for (const auto& layer : problem.layers) best.emplace_back(layer.ms.size(), kInfinity);
    for (const Assignment& assignment : all) {
      for (size_t layer = 0; layer < assignment.size(); ++layer) {
        double& least = best[layer][static_cast<size_t>(assignment[layer])];
        least = std::min(least, TotalMs(problem, assignment));
      }
    }
    EXPECT_EQ(result->best_total_ms, best);
  });
}

TEST(Search, TheBestPlansComeInOrderAndOnce) {
  ForRandomProblems(
      [](const SearchProblem& problem, const std::vector<Assignment>& all, RandomProblems& random) {
        SearchOptions options;
        options.plans = random.Draw(0, 3) == 0 ? static_cast<int>(all.size()) + 1 : 12;
        const auto result = Search(problem, options);
        ASSERT_TRUE(result.ok()) << result.message();
        std::vector<double> totals;
        for (const Assignment& assignment : all) totals.push_back(TotalMs(problem, assignment));
        std::sort(totals.begin(), totals.end());
        totals.resize(std::min(totals.size(), static_cast<size_t>(options.plans)));
        std::vector<double> found;
        std::set<Assignment> different;
        for (const Plan& plan : result->plans) {
          found.push_back(plan.total_ms);
          different.insert(plan.assignment);
        }
        EXPECT_EQ(found, totals);
        EXPECT_EQ(different.size(), found.size());
      });
}

// If no table fits (most_entries = 0), only the dual bound can prove that a plan is optimal.
TEST(Search, WithoutRoomItBounds) {
  int bounded = 0;
  ForRandomProblems([&](const SearchProblem& problem, const std::vector<Assignment>& all, auto&) {
    SearchOptions options;
    options.most_entries = 0;
    options.marginals = true;
    const auto result = Search(problem, options);
    ASSERT_TRUE(result.ok()) << result.message();
    const double least = Least(problem, all);
    ASSERT_EQ(result->plans.size(), 1u);
    EXPECT_EQ(result->best_total_ms.size(), 0u);
    EXPECT_LE(result->lower_bound_ms, least);
    EXPECT_GE(result->plans[0].total_ms, least);
    if (result->optimal) {
      EXPECT_EQ(result->plans[0].total_ms, least);
    }
    bounded += !result->optimal;
  });
  EXPECT_GT(bounded, kGraphs / 100);
}

// Calls `check` with random problems: graphs of every family with costs of every kind.
void ForPricedProblems(const std::function<void(const SearchProblem&, RandomProblems&)>& check) {
  constexpr unsigned kSeed = 11;
  RandomProblems random(kSeed);
  for (int graph = 0; graph < kGraphs; ++graph) {
    const int kind = graph % 4;
    // Half of the graphs are of the last family, in which the bound is tight least often.
    constexpr int kLast = static_cast<int>(std::size(kFamilies)) - 1;
    const int family = graph / 4 % 2 == 0 ? kLast : graph / 8 % kLast;
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", graph " + std::to_string(graph) + ", " +
                 kFamilies[family] + ", costs " + std::to_string(kind));
    SearchProblem problem = random.Next(family);
    const auto draw = [&](double& cost) {
      switch (kind) {
        case 0:  // few values, so that there are many ties
          cost = random.Draw(0, 2);
          break;
        case 1:
          cost = random.Draw(0, 1'000'000) / 7e4;
          break;
        case 2:  // so large that a plan should avoid them
          if (random.Draw(0, 2) == 0) cost = 1e15 * random.Draw(1, 9);
          break;
        default:
          cost = random.Draw(0, 20);
      }
    };
    // The bound is also seldom tight if only edges have costs.
    const bool free_layers = graph / 32 % 2 == 0;
    for (auto& layer : problem.layers) {
      std::for_each(layer.ms.begin(), layer.ms.end(), draw);
      if (free_layers) std::fill(layer.ms.begin(), layer.ms.end(), 0.0);
    }
    for (auto& edge : problem.edges) std::for_each(edge.ms.begin(), edge.ms.end(), draw);
    check(problem, random);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(SearchByDual, FindsWhatEliminationFinds) {
  int by_bound = 0;
  ForPricedProblems([&](const SearchProblem& problem, auto&) {
    const auto eliminated = Search(problem);
    const auto found = SearchByDual(problem);
    ASSERT_TRUE(eliminated.ok()) << eliminated.message();
    ASSERT_TRUE(found.ok()) << found.message();
    ASSERT_TRUE(found->optimal);
    const double least = eliminated->plans[0].total_ms;
    EXPECT_NEAR(found->plans[0].total_ms, least, 1e-12 * least);
    EXPECT_LE(found->lower_bound_ms, least * (1 + 1e-12));
    EXPECT_GE(found->lower_bound_ms, least * (1 - 1e-9));
    SearchOptions no_room;
    no_room.most_entries = 0;
    by_bound += SearchByDual(problem, no_room)->optimal;
  });
  EXPECT_GT(by_bound, kGraphs * 4 / 5);
  EXPECT_LT(by_bound, kGraphs * 97 / 100);
}

TEST(SearchByDual, TheBestPlansAreThoseOfElimination) {
  ForPricedProblems([](const SearchProblem& problem, RandomProblems& random) {
    SearchOptions options;
    options.plans = random.Draw(0, 9) == 0 ? 3'000 : random.Draw(2, 40);
    const auto eliminated = Search(problem, options);
    const auto found = SearchByDual(problem, options);
    ASSERT_TRUE(found.ok()) << found.message();
    ASSERT_TRUE(found->optimal);
    ASSERT_EQ(found->plans.size(), eliminated->plans.size());
    std::set<Assignment> different;
    for (size_t plan = 0; plan < found->plans.size(); ++plan) {
      const double total = eliminated->plans[plan].total_ms;
      EXPECT_NEAR(found->plans[plan].total_ms, total, 1e-9 * total);
      different.insert(found->plans[plan].assignment);
    }
    EXPECT_EQ(different.size(), found->plans.size());
  });
}

// The bounds must hold after any number of passes, with and without a cut-off at twice the least
// total.
TEST(DualAscent, BoundsHoldForEveryConfiguration) {
  ForPricedProblems([](const SearchProblem& problem, RandomProblems& random) {
    SearchOptions options;
    options.marginals = true;
    const auto eliminated = Search(problem, options);
    const double least = eliminated->plans[0].total_ms;
    DualAscent dual(problem, random.Draw(0, 1) == 0 ? 2 * least : kInfinity);
    dual.Ascend(random.Draw(0, 4));
    const DualAscent::Bound bound = dual.LowerBound();
    EXPECT_LE(bound.ms, least);
    for (size_t layer = 0; layer < problem.layers.size(); ++layer) {
      for (size_t choice = 0; choice < problem.layers[layer].ms.size(); ++choice) {
        EXPECT_LE(bound.ms + bound.reduced_ms[layer][choice],
                  eliminated->best_total_ms[layer][choice] * (1 + 1e-12));
      }
    }
    EXPECT_GE(TotalMs(problem, dual.Decode()), least * (1 - 1e-12));
  });
}

// On trees the relaxation is tight: the bound equals the least total, which is also the total of
// the decoded assignment.
TEST(DualAscent, OnTreesTheBoundIsTheLeast) {
  RandomProblems random(3);
  for (int tree = 0; tree < 200; ++tree) {
    NetworkShape net;
    net.Add({});
    while (net.layers < 12) net.Add({random.Draw(0, net.layers - 1)});
    const SearchProblem problem = WithRandomCosts(net, 5, static_cast<unsigned>(tree));
    DualAscent dual(problem, kInfinity);
    dual.Ascend(20);
    const double least = Search(problem)->plans[0].total_ms;
    EXPECT_NEAR(dual.LowerBound().ms, least, 1e-9 * least);
    EXPECT_NEAR(TotalMs(problem, dual.Decode()), least, 1e-9 * least);
  }
}

// BestTotals computes marginals or, if their tables do not fit (most_entries), searches once for
// each configuration. Both ways must give the same totals.
TEST(BestTotals, AreTheMarginalsOfOneLayer) {
  int unknown = 0;
  ForPricedProblems([&](const SearchProblem& problem, RandomProblems& random) {
    SearchOptions options;
    options.marginals = true;
    const auto all = Search(problem, options);
    const int layer = random.Draw(0, static_cast<int>(problem.layers.size()) - 1);
    const std::vector<double>& best = all->best_total_ms[static_cast<size_t>(layer)];
    const auto eliminated = BestTotals(problem, layer);
    options.most_entries = 0;
    const auto searched = BestTotals(problem, layer, options);
    ASSERT_TRUE(eliminated.ok() && searched.ok());
    ASSERT_EQ(eliminated->size(), best.size());
    ASSERT_EQ(searched->size(), best.size());
    for (size_t choice = 0; choice < best.size(); ++choice) {
      EXPECT_EQ((*eliminated)[choice], best[choice]);
      const std::optional<double>& total = (*searched)[choice];
      unknown += !total;
      if (total) {
        EXPECT_NEAR(*total, best[choice], 1e-9 * best[choice]);
      }
    }
  });
  EXPECT_LT(unknown, kGraphs / 5);
}

TEST(Restricted, TotalsStayWhatTheyAre) {
  ForRandomProblems([](const SearchProblem& problem, const auto&, RandomProblems& random) {
    Kept kept = KeepAll(problem);
    for (std::vector<int>& choices : kept) {
      while (choices.size() > 1 && random.Draw(0, 1) == 0) {
        choices.erase(choices.begin() + random.Draw(0, static_cast<int>(choices.size()) - 1));
      }
    }
    const SearchProblem restricted = Restricted(problem, kept);
    for (const auto& edge : restricted.edges) {
      EXPECT_GT(restricted.Configurations(edge.from), 1);
      EXPECT_GT(restricted.Configurations(edge.to), 1);
    }
    for (const Assignment& positions : Enumerate(restricted)) {
      EXPECT_EQ(TotalMs(restricted, positions), TotalMs(problem, Unrestricted(kept, positions)));
    }
  });
}

TEST(SearchWithin, FindsTheFastestThatFits) {
  int limited = 0;
  ForRandomProblems([&](const SearchProblem& problem, const std::vector<Assignment>& all,
                        RandomProblems& random) {
    int64_t smallest = std::numeric_limits<int64_t>::max();
    int64_t largest = 0;
    for (const Assignment& assignment : all) {
      smallest = std::min(smallest, TotalBytes(problem, assignment));
      largest = std::max(largest, TotalBytes(problem, assignment));
    }
    const int64_t limit = random.Draw(static_cast<int>(smallest) - 1, static_cast<int>(largest));
    const auto result = SearchWithin(problem, limit);
    ASSERT_EQ(result.ok(), limit >= smallest) << result.message();
    if (!result.ok()) return;
    double least = kInfinity;
    for (const Assignment& assignment : all) {
      if (TotalBytes(problem, assignment) <= limit) {
        least = std::min(least, TotalMs(problem, assignment));
      }
    }
    EXPECT_TRUE(result->optimal);
    EXPECT_EQ(result->plan.total_ms, least);
    EXPECT_LE(result->bytes, limit);
    EXPECT_EQ(result->bytes, TotalBytes(problem, result->plan.assignment));
    EXPECT_LE(result->lower_bound_ms, least + 1e-9);
    limited += least > Least(problem, all);
  });
  EXPECT_GT(limited, kGraphs / 10);
}

TEST(SearchWithin, WithFewPlansItSaysTheGap) {
  int gaps = 0;
  ForRandomProblems([&](const SearchProblem& problem, const std::vector<Assignment>& all,
                        RandomProblems& random) {
    const Assignment& any =
        all[static_cast<size_t>(random.Draw(0, static_cast<int>(all.size()) - 1))];
    const int64_t limit = TotalBytes(problem, any);
    const auto result = SearchWithin(problem, limit, {}, 1);
    ASSERT_TRUE(result.ok()) << result.message();
    double least = kInfinity;
    for (const Assignment& assignment : all) {
      if (TotalBytes(problem, assignment) <= limit) {
        least = std::min(least, TotalMs(problem, assignment));
      }
    }
    EXPECT_LE(result->bytes, limit);
    EXPECT_LE(result->lower_bound_ms, least + 1e-9);
    EXPECT_GE(result->plan.total_ms, least);
    if (result->optimal) {
      EXPECT_EQ(result->plan.total_ms, least);
    }
    gaps += !result->optimal;
  });
  EXPECT_GT(gaps, 10);
}

TEST(SearchWithin, AnImpossibleLimitIsNamed) {
  SearchProblem problem;
  problem.layers.push_back({"a", {1, 2}, {int64_t{3} << 30, int64_t{2} << 30}});
  EXPECT_EQ(SearchWithin(problem, 1 << 30).message(),
            "no plan fits 1 GiB on a device; the smallest found needs 2 GiB");
}

TEST(TimeMemoryFrontier, IsThatOfAllAssignments) {
  ForRandomProblems([&](const SearchProblem& problem, const std::vector<Assignment>& all,
                        RandomProblems& random) {
    if (random.Draw(0, 9) > 0) return;  // only one problem in ten, because it needs many searches
    const auto frontier = TimeMemoryFrontier(problem, 1'000);
    ASSERT_TRUE(frontier.ok()) << frontier.message();
    std::set<std::pair<double, int64_t>> points;
    for (const Assignment& assignment : all) {
      points.emplace(TotalMs(problem, assignment), TotalBytes(problem, assignment));
    }
    std::vector<std::pair<double, int64_t>> expected;
    for (const auto& point : points) {
      if (expected.empty() || point.second < expected.back().second) expected.push_back(point);
    }
    std::vector<std::pair<double, int64_t>> found;
    for (const ParetoPoint& point : *frontier) {
      found.emplace_back(point.plan.total_ms, point.bytes);
    }
    EXPECT_EQ(found, expected);
  });
}

// A graph, and the number of operations of its elimination for 70 configurations of each layer. An
// independent program has computed the numbers.
struct KnownGraph {
  NetworkShape shape;
  int layers, edges;
  double operations;
};

TEST(EliminationOrder, OfWellKnownNetworks) {
  const std::vector<KnownGraph> graphs = {
      {AlexNetShape(), 12, 11, 5.40e4},
      {Vgg16Shape(), 22, 21, 1.03e5},
      {InceptionV3Shape(), 120, 154, 3.44e7},
      {ResNetShape({2, 2, 2, 2}, false), 31, 38, 6.57e6},
      {ResNetShape({3, 4, 6, 3}, true), 72, 87, 1.79e7},
      {ResNetShape({3, 8, 36, 3}, true), 208, 257, 5.31e7},
      {DenseNetShape({12, 12, 12}, true, false), 79, 114, 1.26e7},
      {DenseNetShape({12, 12, 12}, false, false), 79, 312, 2.06e26},
      {DenseNetShape({6, 12, 24, 16}, true, true), 183, 240, 4.01e7},
      {DenseNetShape({6, 12, 24, 16}, false, true), 183, 717, 9.52e47},
      {NasNetShape(4), 229, 364, 4.50e9},
      {NasNetShape(6), 325, 520, 4.96e9},
      {EfficientNetB0Shape(), 125, 149, 2.90e7},
      {UNetShape(), 30, 33, 8.59e6},
  };
  for (const KnownGraph& graph : graphs) {
    SCOPED_TRACE(graph.shape.name);
    SearchProblem problem;
    for (int layer = 0; layer < graph.shape.layers; ++layer) {
      problem.layers.push_back({"", std::vector<double>(70, 0), {}});
    }
    for (const auto& [from, to] : graph.shape.edges) problem.edges.push_back({from, to, {}, {}});
    EXPECT_EQ(graph.shape.layers, graph.layers);
    EXPECT_EQ(static_cast<int>(graph.shape.edges.size()), graph.edges);
    EXPECT_NEAR(OrderElimination(problem).operations / graph.operations, 1, 0.005);
  }
}

TEST(EliminationOrder, ChanceFindsCheaperOnesWhereBranchesExchange) {
  const LayerGraph graph = *BuildLayerGraph(*HrNetW18Small(), 256);
  SearchProblem problem;
  for (size_t layer = 0; layer < graph.layers.size(); ++layer) {
    problem.layers.push_back({"", std::vector<double>(35, 0), {}});
    for (const auto& input : graph.layers[layer].inputs) {
      if (input.producer == kData) continue;
      problem.edges.push_back({input.producer, static_cast<int>(layer), {}, {}});
    }
  }
  EXPECT_EQ(problem.layers.size(), 149u);
  EXPECT_EQ(problem.edges.size(), 194u);
  const EliminationOrder greedy = OrderElimination(problem);
  const EliminationOrder cheapest = CheapestElimination(problem, 1e11);
  EXPECT_LT(cheapest.operations, greedy.operations / 5);
  std::vector<int> layers = cheapest.layers;
  std::sort(layers.begin(), layers.end());
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    EXPECT_EQ(layers[layer], static_cast<int>(layer));
  }
  EXPECT_EQ(CheapestElimination(problem, 1e11).layers, cheapest.layers);
  EXPECT_EQ(CheapestElimination(problem, 1).layers, greedy.layers);  // tries no random orders
}

TEST(Search, IrreducibleNetworksAreExact) {
  const SearchProblem problem = WithRandomCosts(NasNetShape(2), 8, 1);
  SearchOptions options;
  options.marginals = true;
  options.plans = 5;
  const auto result = Search(problem, options);
  ASSERT_TRUE(result.ok()) << result.message();
  EXPECT_TRUE(result->optimal);
  for (size_t layer = 0; layer < problem.layers.size(); ++layer) {
    const std::vector<double>& best = result->best_total_ms[layer];
    EXPECT_NEAR(*std::min_element(best.begin(), best.end()), result->plans[0].total_ms, 1e-9);
  }
  EXPECT_TRUE(
      std::is_sorted(result->plans.begin(), result->plans.end(),
                     [](const Plan& a, const Plan& b) { return a.total_ms < b.total_ms - 1e-9; }));
}

TEST(Search, ADenseBlockIsBoundedWithItsGap) {
  const SearchProblem problem = WithRandomCosts(DenseNetShape({12}, false, false), 12, 1);
  SearchOptions options;
  options.most_entries = 1e6;
  options.most_operations = 1e8;
  const auto result = Search(problem, options);
  ASSERT_TRUE(result.ok()) << result.message();
  EXPECT_FALSE(result->optimal);
  EXPECT_GT(result->lower_bound_ms, 0);
  EXPECT_LT(result->lower_bound_ms, result->plans[0].total_ms);
}

// Sums of finite costs may be infinite. Then all plans are equally good.
TEST(Search, TotalsMayOverflow) {
  SearchProblem problem;
  for (int layer = 0; layer < 3; ++layer) {
    problem.layers.push_back({"", {1e308, 1.5e308}, {2, 1}});
    for (int from = 0; from < layer; ++from) {
      problem.edges.push_back({from, layer, std::vector<double>(4, 1e308), {0, 0, 0, 0}});
    }
  }
  for (const int plans : {1, 3, 100}) {
    SearchOptions options;
    options.plans = plans;
    const auto found = SearchByDual(problem, options);
    ASSERT_TRUE(found.ok()) << found.message();
    EXPECT_EQ(found->plans[0].total_ms, kInfinity);
    EXPECT_TRUE(Search(problem, options).ok());
    EXPECT_EQ(SearchWithin(problem, 3, options)->bytes, 3);
  }
}

TEST(Search, WrongProblemsAreNamed) {
  SearchProblem problem;
  EXPECT_EQ(Search(problem).message(), "no layers; expected at least one");
  problem.layers.push_back({"a", {1, 2}, {}});
  problem.layers.push_back({"b", {}, {}});
  EXPECT_EQ(Search(problem).message(), "layer 'b' has 0 times and 0 sizes; expected 1");
  problem.layers[1].ms = {1, -1};
  EXPECT_EQ(Search(problem).message(), "layer 'b' takes -1.000000 ms; expected 0 or more");
  problem.layers[1].ms = {1, kInfinity};
  EXPECT_EQ(Search(problem).message(), "layer 'b' takes inf ms; expected 0 or more");
  problem.layers[1].ms = {1, 2};
  problem.edges.push_back({0, 1, {1, 2, 3}, {}});
  EXPECT_EQ(Search(problem).message(), "edge 0 -> 1 has 3 times and 0 sizes; expected 4");
  problem.edges[0] = {1, 1, {1, 2, 3, 4}, {}};
  EXPECT_EQ(Search(problem).message(), "edge 1 -> 1; expected rising positions below 2");
  problem.edges.clear();
  SearchOptions options;
  options.plans = 0;
  EXPECT_EQ(Search(problem, options).message(), "0 plans; expected 1 or more");
}

}  // namespace
}  // namespace ucudnn::planner
