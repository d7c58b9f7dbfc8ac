// Eliminates layers one after the other. One bucket per layer holds the layer's tables and sends
// the least cost over its configurations to the bucket of the neighbour that is eliminated next.
// Sources: DeePa, section 4; Dechter, bucket elimination. Thread-compatible.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/problem.h"

namespace ucudnn::planner {

// Costs by the configurations of the layers in `scope`, row by row (the last layer runs fastest).
struct CostTable {
  std::vector<int> scope;
  std::vector<double> costs;
  int bucket = -1;  // bucket that sent it; -1: costs of the problem itself
};

struct Bucket {
  int layer = -1;
  // The layers of its tables, in the order that all tables keep: the others, this layer, the row.
  std::vector<int> scope;
  bool has_row = false;  // if false, this layer is last and nothing else is in scope
  std::vector<CostTable> tables;
  int parent = -1;   // bucket that receives the message; -1: none is sent
  double least = 0;  // the minimum, if there is no parent
};

class BucketTree {
 public:
  // REQUIRES: `order` has every layer once. Needs the memory and the time that EliminationOrder
  // predicts.
  BucketTree(const SearchProblem& problem, const std::vector<int>& order);

  // Returns the minimum of equation 1.
  double LeastMs() const;

  // Undoes the eliminations in reverse order. Returns an assignment of cost LeastMs(); among equal
  // configurations it takes the first.
  Assignment Decode() const;

  // Returns best[v][c]: the least cost with layer v in configuration c.
  std::vector<std::vector<double>> MinMarginals() const;

  // Returns the buckets in order of elimination: children before parents.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  int Configurations(int layer) const { return counts_[static_cast<size_t>(layer)]; }

 private:
  void Plan(const SearchProblem& problem, const std::vector<int>& order);
  int BucketOf(const SearchProblem::Edge& edge) const;
  void OrderScopes();
  void PlaceProblem(const SearchProblem& problem);
  void Minimize(size_t bucket);

  std::vector<int> counts_;  // configurations, by layer
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_layer_;
};

// Returns the position of `assignment` in a table of `scope`.
size_t PositionOf(const std::vector<int>& scope, const std::vector<int>& counts,
                  const Assignment& assignment);

}  // namespace ucudnn::planner
