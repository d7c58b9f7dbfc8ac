// Facts about a problem for the outputs of `ucudnn multigrid`: counts and shapes, without the
// problem's numbers. Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command/multigrid/report.h"
#include "planner/multigrid/host/network.h"
#include "planner/multigrid/problem.h"

namespace ucudnn::command {

// Returns the stage with most steps; the first one if several stages have as many. REQUIRES: there
// is a stage.
template <typename Stages>
const auto& LongestOf(const Stages& stages) {
  return *std::max_element(stages.begin(), stages.end(),
                           [](const auto& a, const auto& b) { return a.steps < b.steps; });
}

struct ProblemFacts {
  std::string network;
  // Number of convolutions, fully connected layers and softmax layers, which the papers count.
  int layers = 0;
  int64_t parameters = 0;
  bool has_drawn_weights = true;
  std::vector<StageFacts> stages;
  // Bytes of the states of all levels. Unset if the states are not in host memory.
  std::optional<int64_t> state_bytes;

  const StageFacts& LongestStage() const { return LongestOf(stages); }
};

ProblemFacts FactsOf(const multigrid::Problem& problem, const multigrid::NetworkSettings& settings);

// Formats as "4,093, 511, 63 and 7".
std::string LayersText(const std::vector<int64_t>& levels);

// Returns the bytes that a rank must still allocate for states and for copies of its parameters in
// `passes`. `existing` copies of the parameters are already allocated.
int64_t RankBytes(const multigrid::Problem& problem, const multigrid::Placement& placement,
                  const multigrid::NetworkSettings& settings, int rank, multigrid::Passes passes,
                  int existing);

}  // namespace ucudnn::command
