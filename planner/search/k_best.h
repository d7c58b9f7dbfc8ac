// Lists assignments in ascending order of cost, the best first. Source: Huang and Chiang, "Better
// k-best parsing" (2005), algorithm 3, on the tables of an elimination. Thread-compatible.
#pragma once

#include <memory>
#include <optional>

#include "planner/search/bucket_tree.h"

namespace ucudnn::planner {

class KBest {
 public:
  // `tree` must outlive the object.
  explicit KBest(const BucketTree& tree);
  ~KBest();

  // Returns the next assignment; none if all were returned. Assignments of equal cost have no
  // particular order, and no assignment is returned twice.
  std::optional<Assignment> Next();

 private:
  class Lists;
  std::unique_ptr<Lists> lists_;
  int given_ = 0;
};

}  // namespace ucudnn::planner
