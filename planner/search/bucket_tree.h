// Elimination of layers one after the other, and its tables: one bucket per layer (several where a
// table would be too large), each of which sends the least cost over its layer's configurations to
// the bucket of the neighbour that is eliminated next.
// Sources: DeePa, section 4; Dechter, bucket elimination and mini-buckets. Thread-compatible.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/elimination_order.h"
#include "planner/search/problem.h"

namespace ucudnn::planner {

// Costs by the configurations of the layers in `scope`, row by row (the last one runs fastest).
struct CostTable {
  std::vector<int> scope;
  std::vector<double> costs;
  int bucket = -1;  // whose message it is; -1: costs of the problem itself
};

struct Bucket {
  int layer = -1;
  // The layers of its tables, in the order all of them keep: others, this layer, the row.
  std::vector<int> scope;
  bool has_row = false;  // else the layer itself is last and nothing else is in scope
  std::vector<CostTable> tables;
  int parent = -1;   // the bucket that has this one's message; -1: none is sent
  double least = 0;  // without parent: its minimum
};

class BucketTree {
 public:
  // Exact while no table needs more than `most_entries`. Where one would, the tables of that layer
  // are dealt to several buckets, each of which takes the minimum for itself: then LeastMs is a
  // lower bound. A table of the problem itself is never cut.
  BucketTree(const SearchProblem& problem, const EliminationOrder& order, double most_entries);

  bool exact() const { return exact_; }
  // The minimum of equation 1, or a lower bound where tables were split.
  double LeastMs() const;

  // Undoes the eliminations in reverse order. With exact() an assignment of LeastMs, the first
  // configurations among equals.
  Assignment Decode() const;

  // best[v][c]: the least cost with layer v in configuration c. Only with exact().
  std::vector<std::vector<double>> MinMarginals() const;

  // In order of elimination: children before parents.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  int Configurations(int layer) const { return counts_[static_cast<size_t>(layer)]; }

 private:
  void Plan(const SearchProblem& problem, const EliminationOrder& order, double most_entries);
  void OrderScopes();
  void PlaceProblem(const SearchProblem& problem);
  void Minimize(size_t bucket);

  std::vector<int> counts_;  // configurations, by layer
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_edge_;
  std::vector<int> bucket_of_layer_;  // that has the layer's own costs
  bool exact_ = true;
};

// The position of `assignment` in a table of `scope`.
size_t PositionOf(const std::vector<int>& scope, const std::vector<int>& counts,
                  const Assignment& assignment);

}  // namespace ucudnn::planner
