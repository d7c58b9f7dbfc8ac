// What a device does for the layers of a network, as kernels: one launch each, with its operations,
// bytes and threads. Times follow from them (layer_times.h). Plain values; pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

enum class LayerPass {
  kForward,   // u + h F(u)
  kAdjoint,   // lambda + h J_F(u)^T lambda, from what the forward pass has kept
  kGradient,  // of the weights, from state and adjoint
  kUpdate     // of the weights, by stochastic gradient descent with momentum
};
inline constexpr int kLayerPasses = 4;

struct LayerKernel {
  double operations = 0;    // a multiply-add counts two
  double shared_bytes = 0;  // of the state that layers applied to one input have in common
  double own_bytes = 0;     // all else it reads and writes
  double threads = 0;       // chains of operations that can run at once

  bool operator==(const LayerKernel&) const = default;
};

// Layers that cost the same: a residual step, or a whole section of layers that run serially.
struct LayerKind {
  std::string name;
  std::array<std::vector<LayerKernel>, kLayerPasses> passes;
  int64_t parameters = 0;
  int64_t kept = 0;  // numbers that training keeps of it until its backward pass, beside the state
  // The first layer of this kind.
  int section = 0;
  int position = 0;

  const std::vector<LayerKernel>& kernels(LayerPass pass) const {
    return passes[static_cast<size_t>(pass)];
  }
};

struct LayerSection {
  bool is_stage = false;
  std::vector<int> kinds;     // of a stage by step, in LayerKinds; of other sections a single one
  int64_t state_numbers = 0;  // of what leaves the section, for the whole mini-batch
};

struct NetworkLayers {
  std::string name;
  int batch = 1;
  int element_bytes = 4;
  std::vector<LayerKind> kinds;
  std::vector<LayerSection> sections;  // those of the chain

  double StateBytes(int section) const {
    return static_cast<double>(sections[section].state_numbers) * element_bytes;
  }
  // Its section, or -1.
  int LongestStage() const;
  // Steps of all stages, and each other section as one.
  int Layers() const;
};

// Each operator is a launch: a bias belongs to its layer, flattening costs nothing. Numbers have
// `element_bytes`. REQUIRES: the chain's shapes at this batch fit 63 bits of bytes.
NetworkLayers LayersOfNetwork(const ResidualChain& chain, int batch, int element_bytes);

}  // namespace ucudnn::multigrid
