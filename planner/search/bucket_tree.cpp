#include "planner/search/bucket_tree.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

namespace ucudnn::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The strides of one table, by layer of a bucket's scope. The stride of a layer is the distance
// between two entries whose configurations differ by 1 in that layer only; it is 0 if the table
// lacks the layer. `row` is the stride of the scope's last layer.
struct Strides {
  std::vector<size_t> others;
  size_t layer = 0;
  size_t row = 0;
};

Strides StridesOf(const Bucket& bucket, const CostTable& table, const std::vector<int>& counts) {
  Strides strides;
  const size_t others = bucket.scope.size() - (bucket.has_row ? 2 : 1);
  strides.others.assign(others, 0);
  size_t stride = 1;
  for (size_t at = table.scope.size(); at-- > 0;) {
    const int layer = table.scope[at];
    const auto place = static_cast<size_t>(
        std::find(bucket.scope.begin(), bucket.scope.end(), layer) - bucket.scope.begin());
    if (place < others) {
      strides.others[place] = stride;
    } else if (layer == bucket.layer) {
      strides.layer = stride;
    } else {
      strides.row = stride;
    }
    stride *= static_cast<size_t>(counts[static_cast<size_t>(layer)]);
  }
  return strides;
}

// Iterates over a bucket's costs, slice by slice. A slice fixes the configurations of all layers
// except the bucket's own layer and the row (Bucket::scope).
class Slices {
 public:
  Slices(const Bucket& bucket, const std::vector<int>& counts)
      : layers_(static_cast<size_t>(counts[static_cast<size_t>(bucket.layer)])),
        rows_(bucket.has_row ? static_cast<size_t>(counts[static_cast<size_t>(bucket.scope.back())])
                             : 0),
        base_(layers_) {
    MergeParallel(bucket);
    for (const Source& source : sources_) {
      strides_.push_back(StridesOf(bucket, {*source.scope, {}, -1}, counts));
    }
    const size_t others = bucket.scope.size() - (bucket.has_row ? 2 : 1);
    for (size_t at = 0; at < others; ++at) {
      radices_.push_back(static_cast<size_t>(counts[static_cast<size_t>(bucket.scope[at])]));
    }
    digits_.assign(others, 0);
    Load();
  }

  const std::vector<double>& base() const { return base_; }  // by configuration of the layer
  const double* matrix() const { return matrix_; }           // [of the layer][of the row], or null
  size_t layers() const { return layers_; }
  size_t rows() const { return rows_; }  // 0 if the bucket has no row
  const std::vector<size_t>& digits() const { return digits_; }

  bool Next() {
    for (size_t at = digits_.size(); at-- > 0;) {
      if (++digits_[at] < radices_[at]) {
        Load();
        return true;
      }
      digits_[at] = 0;
    }
    return false;
  }

 private:
  struct Source {
    const std::vector<int>* scope;
    const double* costs;
  };

  // Adds up tables with equal scopes, which is DeePa's edge elimination.
  void MergeParallel(const Bucket& bucket) {
    sums_.reserve(bucket.tables.size());
    std::vector<bool> merged(bucket.tables.size(), false);
    for (size_t first = 0; first < bucket.tables.size(); ++first) {
      if (merged[first]) continue;
      const CostTable& table = bucket.tables[first];
      const double* costs = table.costs.data();
      for (size_t other = first + 1; other < bucket.tables.size(); ++other) {
        if (bucket.tables[other].scope != table.scope) continue;
        merged[other] = true;
        if (costs == table.costs.data()) costs = sums_.emplace_back(table.costs).data();
        std::transform(sums_.back().begin(), sums_.back().end(), bucket.tables[other].costs.begin(),
                       sums_.back().begin(), std::plus<>());
      }
      sources_.push_back({&table.scope, costs});
    }
  }

  void Load() {
    std::fill(base_.begin(), base_.end(), 0.0);
    matrix_ = nullptr;
    for (size_t source = 0; source < sources_.size(); ++source) {
      const Strides& strides = strides_[source];
      const double* const costs =
          std::inner_product(digits_.begin(), digits_.end(), strides.others.begin(), size_t{0}) +
          sources_[source].costs;
      if (strides.row == 0) {
        for (size_t at = 0; at < layers_; ++at) base_[at] += costs[at];
      } else if (matrix_ == nullptr) {
        matrix_ = costs;
      } else {
        if (matrix_ != sum_.data()) {
          sum_.assign(matrix_, matrix_ + layers_ * rows_);
          matrix_ = sum_.data();
        }
        for (size_t at = 0; at < layers_ * rows_; ++at) sum_[at] += costs[at];
      }
    }
  }

  const size_t layers_;
  const size_t rows_;
  std::vector<double> base_;
  std::vector<double> sum_;
  const double* matrix_ = nullptr;
  std::vector<std::vector<double>> sums_;
  std::vector<Source> sources_;
  std::vector<Strides> strides_;
  std::vector<size_t> radices_;
  std::vector<size_t> digits_;
};

// Writes to out[row] the minimum of base + matrix over the configurations of the bucket's layer. A
// block of 8 rows is small enough for registers.
void MinimizeRows(const Slices& slices, double* out) {
  constexpr size_t kBlock = 8;
  const size_t rows = slices.rows();
  const std::vector<double>& base = slices.base();
  size_t row = 0;
  for (; row + kBlock <= rows; row += kBlock) {
    double least[kBlock];
    std::fill(least, least + kBlock, kInfinity);
    const double* costs = slices.matrix() + row;
    for (size_t at = 0; at < base.size(); ++at, costs += rows) {
      for (size_t i = 0; i < kBlock; ++i) {
        const double cost = base[at] + costs[i];
        least[i] = cost < least[i] ? cost : least[i];
      }
    }
    std::copy(least, least + kBlock, out + row);
  }
  for (; row < rows; ++row) {
    double least = kInfinity;
    for (size_t at = 0; at < base.size(); ++at) {
      least = std::min(least, base[at] + slices.matrix()[at * rows + row]);
    }
    out[row] = least;
  }
}

double LeastOf(const double* values, size_t count) {
  constexpr size_t kBlock = 8;
  double least[kBlock];
  std::fill(least, least + kBlock, kInfinity);
  size_t at = 0;
  for (; at + kBlock <= count; at += kBlock) {
    for (size_t i = 0; i < kBlock; ++i) {
      least[i] = values[at + i] < least[i] ? values[at + i] : least[i];
    }
  }
  for (; at < count; ++at) least[0] = std::min(least[0], values[at]);
  return *std::min_element(least, least + kBlock);
}

}  // namespace

size_t PositionOf(const std::vector<int>& scope, const std::vector<int>& counts,
                  const Assignment& assignment) {
  size_t position = 0;
  for (const int layer : scope) {
    const auto at = static_cast<size_t>(layer);
    position = position * static_cast<size_t>(counts[at]) + static_cast<size_t>(assignment[at]);
  }
  return position;
}

BucketTree::BucketTree(const SearchProblem& problem, const std::vector<int>& order)
    : buckets_(order.size()), bucket_of_layer_(order.size()) {
  for (const auto& layer : problem.layers) {
    configuration_counts_.push_back(static_cast<int>(layer.ms.size()));
  }
  Plan(problem, order);
  OrderScopes();
  PlaceProblem(problem);
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) Minimize(bucket);
}

void BucketTree::Plan(const SearchProblem& problem, const std::vector<int>& order) {
  std::vector<std::set<int>> scopes;  // by bucket
  for (size_t at = 0; at < order.size(); ++at) {
    buckets_[at].layer = order[at];
    bucket_of_layer_[static_cast<size_t>(order[at])] = static_cast<int>(at);
    scopes.push_back({order[at]});
  }
  for (const auto& edge : problem.edges) {
    scopes[static_cast<size_t>(BucketOf(edge))].insert({edge.from, edge.to});
  }
  for (size_t at = 0; at < buckets_.size(); ++at) {
    Bucket& bucket = buckets_[at];
    bucket.scope.assign(scopes[at].begin(), scopes[at].end());
    bucket.has_row = bucket.scope.size() > 1;
    for (const int layer : bucket.scope) {
      const int other = bucket_of_layer_[static_cast<size_t>(layer)];
      if (layer != bucket.layer && (bucket.parent < 0 || other < bucket.parent)) {
        bucket.parent = other;
      }
    }
    if (bucket.parent < 0) continue;
    scopes[at].erase(bucket.layer);
    scopes[static_cast<size_t>(bucket.parent)].insert(scopes[at].begin(), scopes[at].end());
  }
}

// Returns the bucket that holds the edge's table. It is the bucket of that end of the edge which is
// eliminated first.
int BucketTree::BucketOf(const SearchProblem::Edge& edge) const {
  return std::min(bucket_of_layer_[static_cast<size_t>(edge.from)],
                  bucket_of_layer_[static_cast<size_t>(edge.to)]);
}

// Orders the scope of each message like the scope of the bucket that receives it, so that the
// message and the bucket's other tables can be read in the same direction.
void BucketTree::OrderScopes() {
  for (size_t at = buckets_.size(); at-- > 0;) {
    Bucket& bucket = buckets_[at];
    if (bucket.parent < 0) continue;
    const std::vector<int>& reader = buckets_[static_cast<size_t>(bucket.parent)].scope;
    std::vector<int> scope;
    for (const int layer : reader) {
      if (std::find(bucket.scope.begin(), bucket.scope.end(), layer) != bucket.scope.end()) {
        scope.push_back(layer);
      }
    }
    scope.insert(scope.end() - 1, bucket.layer);
    bucket.scope = std::move(scope);
  }
}

void BucketTree::PlaceProblem(const SearchProblem& problem) {
  for (size_t layer = 0; layer < problem.layers.size(); ++layer) {
    buckets_[static_cast<size_t>(bucket_of_layer_[layer])].tables.push_back(
        {{static_cast<int>(layer)}, problem.layers[layer].ms, -1});
  }
  for (const auto& edge : problem.edges) {
    Bucket& bucket = buckets_[static_cast<size_t>(BucketOf(edge))];
    const auto from = std::find(bucket.scope.begin(), bucket.scope.end(), edge.from);
    const auto to = std::find(bucket.scope.begin(), bucket.scope.end(), edge.to);
    if (from < to) {
      bucket.tables.push_back({{edge.from, edge.to}, edge.ms, -1});
      continue;
    }
    const auto rows = static_cast<size_t>(problem.Configurations(edge.from));
    const auto columns = static_cast<size_t>(problem.Configurations(edge.to));
    std::vector<double> turned(edge.ms.size());
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < columns; ++column) {
        turned[column * rows + row] = edge.ms[row * columns + column];
      }
    }
    bucket.tables.push_back({{edge.to, edge.from}, std::move(turned), -1});
  }
}

void BucketTree::Minimize(size_t at) {
  Bucket& bucket = buckets_[at];
  Slices slices(bucket, configuration_counts_);
  if (!bucket.has_row) {
    bucket.least = *std::min_element(slices.base().begin(), slices.base().end());
    return;
  }
  CostTable message;
  message.bucket = static_cast<int>(at);
  size_t entries = 1;
  for (const int layer : bucket.scope) {
    if (layer == bucket.layer) continue;
    message.scope.push_back(layer);
    entries *= static_cast<size_t>(configuration_counts_[static_cast<size_t>(layer)]);
  }
  message.costs.resize(entries);
  double* out = message.costs.data();
  do {
    MinimizeRows(slices, out);
    out += slices.rows();
  } while (slices.Next());
  buckets_[static_cast<size_t>(bucket.parent)].tables.push_back(std::move(message));
}

double BucketTree::LeastMs() const {
  double total = 0;
  for (const Bucket& bucket : buckets_) total += bucket.least;
  return total;
}

Assignment BucketTree::Decode() const {
  Assignment assignment(configuration_counts_.size(), 0);
  std::vector<double> costs;
  for (size_t at = buckets_.size(); at-- > 0;) {
    const auto layer = static_cast<size_t>(buckets_[at].layer);
    costs.assign(static_cast<size_t>(configuration_counts_[layer]), 0);
    for (const CostTable& table : buckets_[at].tables) {
      for (size_t choice = 0; choice < costs.size(); ++choice) {
        assignment[layer] = static_cast<int>(choice);
        costs[choice] += table.costs[PositionOf(table.scope, configuration_counts_, assignment)];
      }
    }
    assignment[layer] =
        static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin());
  }
  return assignment;
}

std::vector<std::vector<double>> BucketTree::MinMarginals() const {
  std::vector<std::vector<double>> best(configuration_counts_.size());
  // By bucket, for each combination of configurations in the bucket's message: the least cost of
  // all buckets outside the bucket's subtree.
  std::vector<std::vector<double>> above(buckets_.size());
  const double total = LeastMs();
  for (size_t at = buckets_.size(); at-- > 0;) {
    const Bucket& bucket = buckets_[at];
    if (bucket.parent < 0) above[at] = {total - bucket.least};
    std::vector<double>& own = best[static_cast<size_t>(bucket.layer)];
    own.assign(static_cast<size_t>(Configurations(bucket.layer)), kInfinity);
    std::vector<const CostTable*> messages;
    std::vector<Strides> strides;
    for (const CostTable& table : bucket.tables) {
      if (table.bucket < 0) continue;
      messages.push_back(&table);
      strides.push_back(StridesOf(bucket, table, configuration_counts_));
      above[static_cast<size_t>(table.bucket)].assign(table.costs.size(), kInfinity);
    }
    Slices slices(bucket, configuration_counts_);
    const size_t rows = std::max<size_t>(1, slices.rows());
    const double* outside = above[at].data();
    std::vector<double> costs(slices.layers() * rows);
    std::vector<double> leasts(slices.layers());  // least cost of each configuration in one slice
    do {
      for (size_t choice = 0; choice < slices.layers(); ++choice) {
        double* const row_costs = costs.data() + choice * rows;
        const double base = slices.base()[choice];
        if (const double* const matrix = slices.matrix(); matrix == nullptr) {
          for (size_t row = 0; row < rows; ++row) row_costs[row] = base + outside[row];
        } else {
          const double* const pairs = matrix + choice * rows;
          for (size_t row = 0; row < rows; ++row) row_costs[row] = base + pairs[row] + outside[row];
        }
        leasts[choice] = LeastOf(row_costs, rows);
        own[choice] = std::min(own[choice], leasts[choice]);
      }
      for (size_t message = 0; message < messages.size(); ++message) {
        const Strides& step = strides[message];
        double* const out = above[static_cast<size_t>(messages[message]->bucket)].data() +
                            std::inner_product(slices.digits().begin(), slices.digits().end(),
                                               step.others.begin(), size_t{0});
        for (size_t choice = 0; choice < slices.layers(); ++choice) {
          double* const least = out + choice * step.layer;
          if (step.row == 0) {
            *least = std::min(*least, leasts[choice]);
            continue;
          }
          const double* const row_costs = costs.data() + choice * rows;  // used if step.row is 1
          for (size_t row = 0; row < rows; ++row) {
            least[row] = row_costs[row] < least[row] ? row_costs[row] : least[row];
          }
        }
      }
      outside += rows;
    } while (slices.Next());
    for (const CostTable* message : messages) {
      std::vector<double>& rest = above[static_cast<size_t>(message->bucket)];
      std::transform(rest.begin(), rest.end(), message->costs.begin(), rest.begin(),
                     std::minus<>());
    }
    above[at].clear();
  }
  return best;
}

}  // namespace ucudnn::planner
