// What outputs of `ucudnn multigrid` say of a problem: counts and shapes, without its numbers.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/multigrid/host/network.h"
#include "planner/multigrid/problem.h"

namespace ucudnn::command {

struct StageFacts {
  int steps = 0;
  std::vector<int> shape;   // of a state of one image: channels, then extents
  double h = 1;             // how far a step goes
  std::vector<int> levels;  // layers of each, the finest first
  // How many layers of each level one of the next stands for; one fewer than levels.
  std::vector<int> coarsening;
};

struct ProblemFacts {
  std::string network;
  int layers = 0;  // as the papers count: convolutions, fully connected layers and the softmax
  int64_t parameters = 0;
  bool has_drawn_weights = true;
  std::vector<StageFacts> stages;
  std::optional<int64_t> state_bytes;  // that all levels keep on the host; none: not there

  const StageFacts& LongestStage() const;
};

ProblemFacts FactsOf(const multigrid::Problem& problem, const multigrid::NetworkSettings& settings);

// "4,093, 511, 63 and 7".
std::string LayersText(const std::vector<int>& levels);

// Bytes that a rank still needs for parameters and states, for such passes. `existing` is how many
// copies of the parameters there are already.
int64_t RankBytes(const multigrid::Problem& problem, const multigrid::Placement& placement,
                  const multigrid::NetworkSettings& settings, int rank, multigrid::Passes passes,
                  int existing);

}  // namespace ucudnn::command
