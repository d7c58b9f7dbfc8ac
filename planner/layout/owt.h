// "One weird trick": images over all workers in the convolutions, channels in the fully connected
// layers, and the three ways between the two. Pure functions. Source: Krizhevsky 2014, section 4.
//
// K workers have B images each; `batch` below is the bytes of one worker's last activations (B
// images), `rate` the bytes per ms of one worker's port while all communicate.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/machine/machine.h"

namespace ucudnn::planner {

enum class OwtScheme {
  kAssemble,  // (a) everybody sends its batch to everybody; one pass over K B images
  kTurns,     // (b) one worker after the other sends its batch; K passes over B images
  kShares,    // (c) everybody sends a K-th of its batch at a time; K passes over B images
};

// The cost of sending activations to the fully connected part, and their gradients back.
struct OwtExchange {
  double exposed_ms = 0;     // while workers wait
  double hidden_ms = 0;      // while they compute
  int64_t moved_bytes = 0;   // arriving at all workers, both ways
  int64_t buffer_bytes = 0;  // at one worker: what it computes on, and in (b) and (c) what arrives
  int images = 0;            // batch of the fully connected part, in units of B
};

// (a) waits 2 (K-1) batch / rate. (b) and (c) take K steps of t each, of which all but the first
// overlap with half a step's computation (forward, then backward): 2 (t + (K-1) max(0, t - compute
// / 2K)), with t = (K-1) batch / rate for (b), the sender's port being the narrow one, t = batch /
// rate where `multicast` sends once for all, and t = (K-1) / K batch / rate for (c). `compute_ms`
// is what a worker computes in the fully connected part in one whole step.
OwtExchange Exchange(OwtScheme scheme, int workers, int64_t batch_bytes, double bytes_per_ms,
                     double compute_ms, bool multicast);

// Bytes per ms of one device's share of the ports of all levels that `workers` devices span.
double SharedRate(const Machine& machine, int workers);

struct OwtNetwork {
  int64_t last_activations = 0;         // numbers an image, before the first fully connected layer
  std::vector<int64_t> hidden_outputs;  // of all fully connected layers but the last
  int64_t convolution_parameters = 0;
  int64_t connected_parameters = 0;
  double convolution_ms = 0;  // an image, forward and backward, on one device
  double connected_ms = 0;
};

struct OwtOptions {
  OwtScheme scheme = OwtScheme::kTurns;
  int images = 128;  // B
  bool multicast = false;
  // Section 4.2: the fully connected part updates its weights after each of its K passes.
  bool variable_batch = false;
};

struct OwtStep {
  double convolution_ms = 0;
  double connected_ms = 0;
  OwtExchange exchange;
  double hidden_layers_ms = 0;    // every worker gets all outputs of the layer before, never hidden
  double synchronization_ms = 0;  // of convolution weights, section 4.1
  double extra_updates_ms = 0;    // of variable batches
  double total_ms = 0;
};

// One step of K B images.
OwtStep StepOf(const OwtNetwork& network, const Machine& machine, int workers,
               const OwtOptions& options);

}  // namespace ucudnn::planner
