#include "planner/search/problem.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

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

Kept KeepAll(const SearchProblem& problem) {
  Kept kept;
  for (const auto& layer : problem.layers) {
    kept.emplace_back(layer.ms.size());
    std::iota(kept.back().begin(), kept.back().end(), 0);
  }
  return kept;
}

SearchProblem Restricted(const SearchProblem& problem, const Kept& kept) {
  SearchProblem restricted;
  for (size_t at = 0; at < problem.layers.size(); ++at) {
    SearchProblem::Layer layer{problem.layers[at].name, {}, {}};
    for (const int choice : kept[at]) {
      layer.ms.push_back(problem.layers[at].ms[static_cast<size_t>(choice)]);
    }
    restricted.layers.push_back(std::move(layer));
  }
  for (const auto& edge : problem.edges) {
    const auto columns = static_cast<size_t>(problem.Configurations(edge.to));
    std::vector<double> ms;
    for (const int from : kept[static_cast<size_t>(edge.from)]) {
      const double* const row = edge.ms.data() + static_cast<size_t>(from) * columns;
      for (const int to : kept[static_cast<size_t>(edge.to)]) ms.push_back(row[to]);
    }
    const bool from_is_held = restricted.Configurations(edge.from) == 1;
    if (!from_is_held && restricted.Configurations(edge.to) > 1) {
      restricted.edges.push_back({edge.from, edge.to, std::move(ms), {}});
      continue;
    }
    auto& other = restricted.layers[static_cast<size_t>(from_is_held ? edge.to : edge.from)].ms;
    std::transform(other.begin(), other.end(), ms.begin(), other.begin(), std::plus<>());
  }
  return restricted;
}

Assignment Unrestricted(const Kept& kept, const Assignment& positions) {
  Assignment assignment;
  for (size_t layer = 0; layer < kept.size(); ++layer) {
    assignment.push_back(kept[layer][static_cast<size_t>(positions[layer])]);
  }
  return assignment;
}

}  // namespace ucudnn::planner
