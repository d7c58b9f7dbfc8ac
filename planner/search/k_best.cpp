#include "planner/search/k_best.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ucudnn::planner {

// For each bucket, holds a Node for each requested combination of configurations of the other
// layers in the bucket's scope. A Node lists Derivations, the cheapest first. A Derivation has a
// configuration of the bucket's layer and, for each child of the bucket, the rank of a Derivation
// in the child's Node. The lists grow when entries are requested.
class KBest::Lists {
 public:
  explicit Lists(const BucketTree& tree) : tree_(tree), nodes_(tree.buckets().size()) {
    size_t layers = 0;
    for (size_t at = 0; at < tree.buckets().size(); ++at) {
      const Bucket& bucket = tree.buckets()[at];
      layers = std::max(layers, static_cast<size_t>(bucket.layer) + 1);
      if (bucket.parent < 0) roots_.push_back(static_cast<int>(at));
    }
    for (size_t layer = 0; layer < layers; ++layer) {
      configuration_counts_.push_back(tree.Configurations(static_cast<int>(layer)));
    }
    // `whole_` is a root above all components. It has no configuration of its own. Its children are
    // the roots of the components, and its first derivation has the best derivation of each of
    // them.
    Derivation first;
    first.ranks.assign(roots_.size(), 0);
    Offer(whole_, std::move(first), roots_, Assignment(layers, 0));
  }

  // Returns the `rank`-th best assignment, counted from 0; none if there are fewer.
  std::optional<Assignment> Get(int rank) {
    Assignment assignment(configuration_counts_.size(), 0);
    if (!Reach(whole_, rank, roots_, assignment)) return std::nullopt;
    Write(whole_, rank, roots_, assignment);
    return assignment;
  }

 private:
  struct Derivation {
    double cost = 0;
    int choice = 0;          // configuration of the bucket's layer
    size_t last = 0;         // child whose rank was raised last
    std::vector<int> ranks;  // by child

    // std::priority_queue puts the largest element on top. That must be the derivation of least
    // cost.
    bool operator<(const Derivation& other) const { return cost > other.cost; }
  };
  struct Node {
    std::vector<Derivation> best;
    std::priority_queue<Derivation> candidates;
  };

  static std::vector<int> Children(const Bucket& bucket) {
    std::vector<int> children;
    for (const CostTable& table : bucket.tables) {
      if (table.bucket >= 0) children.push_back(table.bucket);
    }
    return children;
  }

  // Returns the node of `bucket` for the configurations that `assignment` gives to the bucket's
  // scope.
  Node& At(int bucket, Assignment assignment) {
    const Bucket& of = tree_.buckets()[static_cast<size_t>(bucket)];
    std::vector<int> scope = of.scope;
    std::erase(scope, of.layer);
    const size_t key = PositionOf(scope, configuration_counts_, assignment);
    const auto [found, added] = nodes_[static_cast<size_t>(bucket)].try_emplace(key);
    Node& node = found->second;
    if (!added) return node;
    const std::vector<int> children = Children(of);
    for (int choice = 0; choice < tree_.Configurations(of.layer); ++choice) {
      assignment[static_cast<size_t>(of.layer)] = choice;
      Derivation derivation;
      derivation.choice = choice;
      derivation.ranks.assign(children.size(), 0);
      for (const CostTable& table : of.tables) {
        derivation.cost += table.costs[PositionOf(table.scope, configuration_counts_, assignment)];
      }
      node.candidates.push(std::move(derivation));
    }
    return node;
  }

  // Adds `derivation` with its cost to the candidates, unless a child has no entry of the rank that
  // `derivation` uses.
  void Offer(Node& node, Derivation derivation, const std::vector<int>& children,
             const Assignment& assignment) {
    double cost = 0;
    for (size_t child = 0; child < children.size(); ++child) {
      Node& below = At(children[child], assignment);
      if (!Reach(below, derivation.ranks[child], children[child], assignment)) return;
      cost += below.best[static_cast<size_t>(derivation.ranks[child])].cost;
    }
    derivation.cost = cost;
    node.candidates.push(std::move(derivation));
  }

  bool Reach(Node& node, int rank, int bucket, Assignment assignment) {
    const Bucket& of = tree_.buckets()[static_cast<size_t>(bucket)];
    return Reach(node, rank, Children(of), assignment, &of);
  }
  bool Reach(Node& node, int rank, const std::vector<int>& children, Assignment& assignment,
             const Bucket* bucket = nullptr) {
    while (static_cast<int>(node.best.size()) <= rank) {
      if (node.candidates.empty()) return false;
      node.best.push_back(node.candidates.top());
      node.candidates.pop();
      const Derivation taken = node.best.back();
      if (bucket != nullptr) assignment[static_cast<size_t>(bucket->layer)] = taken.choice;
      // Raising only the ranks from `last` on reaches every combination of ranks exactly once.
      for (size_t child = taken.last; child < children.size(); ++child) {
        Node& below = At(children[child], assignment);
        const int next = taken.ranks[child] + 1;
        if (!Reach(below, next, children[child], assignment)) continue;
        Derivation raised = taken;
        raised.ranks[child] = next;
        raised.last = child;
        raised.cost += below.best[static_cast<size_t>(next)].cost -
                       below.best[static_cast<size_t>(next) - 1].cost;
        node.candidates.push(std::move(raised));
      }
    }
    return true;
  }

  void Write(Node& node, int rank, const std::vector<int>& children, Assignment& assignment) {
    const Derivation& derivation = node.best[static_cast<size_t>(rank)];
    for (size_t child = 0; child < children.size(); ++child) {
      const int bucket = children[child];
      const Bucket& of = tree_.buckets()[static_cast<size_t>(bucket)];
      Node& below = At(bucket, assignment);
      Reach(below, derivation.ranks[child], bucket, assignment);
      assignment[static_cast<size_t>(of.layer)] =
          below.best[static_cast<size_t>(derivation.ranks[child])].choice;
      Write(below, derivation.ranks[child], Children(of), assignment);
    }
  }

  const BucketTree& tree_;
  std::vector<int> configuration_counts_;
  std::vector<int> roots_;
  // By bucket, and by position in the table of the bucket's message.
  std::vector<std::unordered_map<size_t, Node>> nodes_;
  Node whole_;
};

KBest::KBest(const BucketTree& tree) : lists_(std::make_unique<Lists>(tree)) {}
KBest::~KBest() = default;

std::optional<Assignment> KBest::Next() { return lists_->Get(given_++); }

}  // namespace ucudnn::planner
