// Makes random instances of Workspace Division, whose kernels resemble the kernels of networks.
// tests/bench uses them, too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "planning/division_solver.h"

namespace ucudnn::planning {

// Returns a random desirable set as a convolution may have it: an engine without workspace, and
// `engines` faster engines whose workspace and launch overhead depend on the number of
// micro-batches. Sizes are multiples of `granule` bytes. Workspace rises and time falls.
inline Choices KernelChoices(std::mt19937& random, int engines, size_t granule) {
  std::uniform_real_distribution<double> share(0, 1);
  const double slow_ms = 0.2 * std::exp(3 * share(random));
  Choices all = {{0, slow_ms}};
  for (int engine = 0; engine < engines; ++engine) {
    const double speed = 1 + 3 * share(random);
    const double image_bytes = std::exp(9 + 9 * share(random));
    const double launch_ms = 0.005 * (1 + share(random));
    for (int pieces = 1; pieces <= 256; pieces *= 2) {
      const double granules = image_bytes * 256 / pieces / static_cast<double>(granule);
      all.push_back({static_cast<size_t>(std::ceil(granules)) * granule,
                     slow_ms / speed + launch_ms * (pieces - 1)});
    }
  }
  std::sort(all.begin(), all.end(), [](const Choice& a, const Choice& b) {
    if (a.workspace_bytes != b.workspace_bytes) return a.workspace_bytes < b.workspace_bytes;
    return a.time_ms < b.time_ms;
  });
  Choices front;
  for (const Choice& choice : all) {
    if (front.empty() || choice.time_ms < front.back().time_ms) front.push_back(choice);
  }
  return front;
}

// Drops choices, but never the first or the last, until at most `most` are left.
inline void Thin(std::mt19937& random, size_t most, Choices& choices) {
  while (choices.size() > most) {
    const size_t inner = choices.size() - 2;
    choices.erase(choices.begin() + 1 + static_cast<std::ptrdiff_t>(random() % inner));
  }
}

// Returns a random network of `kernels` kernels with at most `most` choices each.
inline std::vector<Choices> RandomNetwork(std::mt19937& random, int kernels, int engines,
                                          size_t granule, size_t most) {
  std::vector<Choices> network;
  for (int i = 0; i < kernels; ++i) {
    Thin(random, most, network.emplace_back(KernelChoices(random, engines, granule)));
  }
  return network;
}

}  // namespace ucudnn::planning
