// Eliminates layers one after the other. Each layer has a bucket, which holds the layer's tables.
// The bucket sends the least cost over the layer's configurations to the bucket of the neighbour
// that is eliminated next. Sources: DeePa, section 4; Dechter, bucket elimination.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/problem.h"

namespace ucudnn::planner {

// Costs by the configurations of the layers in `scope`, in row-major order (the last layer changes
// fastest).
struct CostTable {
  std::vector<int> scope;
  std::vector<double> costs;
  int bucket = -1;  // the bucket that sent the table; -1: the costs are the problem's own
};

struct Bucket {
  int layer = -1;
  // All layers of the bucket's tables. Each table's scope has the same order: first the neighbours
  // except one, then the bucket's own layer, and last the remaining neighbour, which is called the
  // row.
  std::vector<int> scope;
  // Whether the bucket has a neighbour, so that the last layer of `scope` is the row.
  bool has_row = false;
  std::vector<CostTable> tables;
  int parent = -1;  // the bucket that receives this bucket's message; -1: it sends none
  // If there is no parent: the least cost of the connected component whose last bucket this is.
  double least = 0;
};

class BucketTree {
 public:
  // REQUIRES: `order` has every layer once. Needs the memory and the time that EliminationOrder
  // predicts.
  BucketTree(const SearchProblem& problem, const std::vector<int>& order);

  // Returns the least total of any assignment (DeePa's equation 1).
  double LeastMs() const;

  // Undoes the eliminations in reverse order. Returns an assignment of cost LeastMs(). Of several
  // configurations with the least cost it chooses the first.
  Assignment Decode() const;

  // Returns best[v][c]: the least cost of an assignment with layer v in configuration c.
  std::vector<std::vector<double>> MinMarginals() const;

  // Returns the buckets in order of elimination: children before parents.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  int Configurations(int layer) const { return configuration_counts_[static_cast<size_t>(layer)]; }

 private:
  void Plan(const SearchProblem& problem, const std::vector<int>& order);
  int BucketOf(const SearchProblem::Edge& edge) const;
  void OrderScopes();
  void PlaceProblem(const SearchProblem& problem);
  void Minimize(size_t bucket);

  std::vector<int> configuration_counts_;  // by layer
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_layer_;
};

// Returns the position of the entry for `assignment` in a table with scope `scope`.
size_t PositionOf(const std::vector<int>& scope, const std::vector<int>& counts,
                  const Assignment& assignment);

}  // namespace ucudnn::planner
