// The work of a device for the layers of a network, as CUDA kernels: each is one launch with its
// operations, bytes and threads. layer_times.h derives times from them. Plain values; pure
// functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/multigrid/residual_chain.h"

namespace ucudnn::multigrid {

enum class LayerPass {
  kForward,   // u + h F(u)
  kAdjoint,   // lambda + h J_F(u)^T lambda, from values that the forward pass has kept
  kGradient,  // the gradient of the weights, from a state and its adjoint
  kUpdate     // a step of the weights, by stochastic gradient descent with momentum
};
inline constexpr int kLayerPasses = 4;

struct LayerKernel {
  double operations = 0;    // a multiply-add counts as two
  double shared_bytes = 0;  // bytes that count once for all layers applied to one input
  double own_bytes = 0;     // all other bytes that the kernel reads and writes
  double threads = 0;       // chains of operations that can run at once

  bool operator==(const LayerKernel&) const = default;
};

// A kind of layers that cost the same: a residual step, or a whole section that runs serially.
struct LayerKind {
  std::string name;
  std::array<std::vector<LayerKernel>, kLayerPasses> passes;
  int64_t parameters = 0;
  int64_t kept = 0;  // numbers that training keeps until the backward pass, without the state
  // The first layer of this kind: its section, and its position in that section.
  int section = 0;
  int position = 0;

  const std::vector<LayerKernel>& kernels(LayerPass pass) const {
    return passes[static_cast<size_t>(pass)];
  }
};

struct LayerSection {
  bool is_stage = false;
  // Positions in NetworkLayers::kinds: one for each step of a stage, or a single one for a section
  // that is no stage.
  std::vector<int> kinds;
  int64_t state_numbers = 0;  // how many values the section's output has, for the mini-batch
};

struct NetworkLayers {
  std::string name;
  int batch = 1;
  int element_bytes = 4;
  std::vector<LayerKind> kinds;
  std::vector<LayerSection> sections;  // one for each section of the chain

  double StateBytes(int section) const {
    return static_cast<double>(sections[section].state_numbers) * element_bytes;
  }
  // Returns the bytes of a parameter in training: a weight, its gradient and its velocity. If
  // numbers have fewer bits than fp32, the velocity is in fp32, and training also keeps fp32 copies
  // of the weight and the gradient (DeviceDescent).
  int64_t TrainedBytes() const;
  // Returns the section of the longest stage, or -1 if there is no stage.
  int LongestStage() const;
  // Returns the number of layers. Each step of a stage counts as one layer, and so does each
  // section that is no stage.
  int Layers() const;
};

// Derives the CUDA kernels of a network. Each operator is one launch, which includes its bias;
// flattening costs nothing. A number has `element_bytes` bytes. REQUIRES: the bytes of the chain's
// shapes at this batch fit 63 bits.
NetworkLayers LayersOfNetwork(const ResidualChain& chain, int batch, int element_bytes);

}  // namespace ucudnn::multigrid
