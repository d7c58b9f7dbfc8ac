#include "planner/search/problem.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace ucudnn::planner {
namespace {

template <typename Number>
Number At(const SearchProblem& problem, const SearchProblem::Edge& edge,
          const std::vector<Number>& table, const Assignment& assignment) {
  return table[static_cast<size_t>(assignment[static_cast<size_t>(edge.from)]) *
                   static_cast<size_t>(problem.Configurations(edge.to)) +
               static_cast<size_t>(assignment[static_cast<size_t>(edge.to)])];
}

Status CheckNumbers(const std::string& what, const std::vector<double>& ms,
                    const std::vector<int64_t>& bytes, size_t expected) {
  if (ms.size() != expected || expected == 0 || !(bytes.empty() || bytes.size() == expected)) {
    return Status::Error(what + " has " + std::to_string(ms.size()) + " times and " +
                         std::to_string(bytes.size()) + " sizes; expected " +
                         std::to_string(std::max<size_t>(1, expected)));
  }
  for (const double value : ms) {
    if (!std::isfinite(value) || value < 0) {
      return Status::Error(what + " takes " + std::to_string(value) + " ms; expected 0 or more");
    }
  }
  if (std::any_of(bytes.begin(), bytes.end(), [](int64_t value) { return value < 0; })) {
    return Status::Error(what + " takes less than no memory");
  }
  return Status::Ok();
}

// Keeps row `configuration` (`by_row`) or that column.
template <typename Number>
void Keep(std::vector<Number>& table, size_t columns, size_t configuration, bool by_row) {
  if (table.empty()) return;
  std::vector<Number> kept;
  for (size_t entry = 0; entry < table.size(); ++entry) {
    if ((by_row ? entry / columns : entry % columns) == configuration) kept.push_back(table[entry]);
  }
  table = std::move(kept);
}

}  // namespace

Status Check(const SearchProblem& problem) {
  if (problem.layers.empty()) return Status::Error("no layers; expected at least one");
  const auto layers = static_cast<int>(problem.layers.size());
  for (const auto& layer : problem.layers) {
    UCUDNN_RETURN_IF_ERROR(
        CheckNumbers("layer " + Quoted(layer.name), layer.ms, layer.bytes, layer.ms.size()));
  }
  for (const auto& edge : problem.edges) {
    const std::string what = "edge " + std::to_string(edge.from) + " -> " + std::to_string(edge.to);
    if (edge.from < 0 || edge.from >= edge.to || edge.to >= layers) {
      return Status::Error(what + "; expected rising positions below " + std::to_string(layers));
    }
    UCUDNN_RETURN_IF_ERROR(CheckNumbers(what, edge.ms, edge.bytes,
                                        static_cast<size_t>(problem.Configurations(edge.from)) *
                                            static_cast<size_t>(problem.Configurations(edge.to))));
  }
  return Status::Ok();
}

double TotalMs(const SearchProblem& problem, const Assignment& assignment) {
  double total = 0;
  for (size_t layer = 0; layer < problem.layers.size(); ++layer) {
    total += problem.layers[layer].ms[static_cast<size_t>(assignment[layer])];
  }
  for (const auto& edge : problem.edges) total += At(problem, edge, edge.ms, assignment);
  return total;
}

int64_t TotalBytes(const SearchProblem& problem, const Assignment& assignment) {
  int64_t total = 0;
  for (size_t layer = 0; layer < problem.layers.size(); ++layer) {
    const auto& bytes = problem.layers[layer].bytes;
    if (!bytes.empty()) total += bytes[static_cast<size_t>(assignment[layer])];
  }
  for (const auto& edge : problem.edges) {
    if (!edge.bytes.empty()) total += At(problem, edge, edge.bytes, assignment);
  }
  return total;
}

SearchProblem Restricted(SearchProblem problem, int layer, int configuration) {
  const auto kept = static_cast<size_t>(configuration);
  for (auto& edge : problem.edges) {
    if (edge.from != layer && edge.to != layer) continue;
    const auto columns = static_cast<size_t>(problem.Configurations(edge.to));
    Keep(edge.ms, columns, kept, edge.from == layer);
    Keep(edge.bytes, columns, kept, edge.from == layer);
  }
  auto& restricted = problem.layers[static_cast<size_t>(layer)];
  Keep(restricted.ms, restricted.ms.size(), kept, false);
  Keep(restricted.bytes, restricted.bytes.size(), kept, false);
  return problem;
}

}  // namespace ucudnn::planner
