// Lists assignments in ascending order of cost, the best first. Source: Huang and Chiang, "Better
// k-best parsing" (2005), algorithm 3, on the tables of an elimination. Thread-compatible.
#pragma once

#include <memory>
#include <optional>

#include "planner/search/bucket_tree.h"

namespace ucudnn::planner {

class KBest {
 public:
  // `tree` must outlive this.
  explicit KBest(const BucketTree& tree);
  ~KBest();

  // Returns the next assignment; none when all were given. Equal costs come in any order, and no
  // assignment comes twice.
  std::optional<Assignment> Next();

 private:
  class Lists;
  std::unique_ptr<Lists> lists_;
  int given_ = 0;
};

}  // namespace ucudnn::planner
