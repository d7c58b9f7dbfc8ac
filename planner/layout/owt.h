// "One weird trick": divides the images over all workers in the convolutions and the channels in
// the fully connected layers, with three ways of exchange between the two. Pure functions. Source:
// Krizhevsky 2014, section 4.
//
// K workers have B images each; `batch` below is the bytes of one worker's last activations (B
// images), `rate` the bytes per ms of one worker's port while all workers communicate.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/machine/machine.h"

namespace ucudnn::planner {

enum class OwtScheme {
  kAssemble,  // (a) every worker sends its batch to all others; one pass over K B images
  kTurns,     // (b) one worker after the other sends its batch; K passes over B images
  kShares,    // (c) every worker sends a K-th of its batch at a time; K passes over B images
};

// The cost of sending activations to the fully connected part, and their gradients back.
struct OwtExchange {
  double exposed_ms = 0;    // while workers wait
  double hidden_ms = 0;     // while they compute
  int64_t moved_bytes = 0;  // bytes arriving at all workers, both ways
  // Bytes at one worker: what it computes on, and in (b) and (c) what arrives.
  int64_t buffer_bytes = 0;
  int images = 0;  // batch of the fully connected part, in units of B
};

// Returns the cost of a scheme. (a) waits 2 (K-1) batch / rate. (b) and (c) take K steps of t each.
// All steps but the first overlap with half a step's computation (forward, then backward), so they
// wait 2 (t + (K-1) max(0, t - compute / 2K)). For (b), t = (K-1) batch / rate, because the
// sender's port is the narrow one, or t = batch / rate if `multicast` is set, which sends once for
// all. For (c), t = (K-1) / K batch / rate. `compute_ms` is the time that a worker computes in the
// fully connected part in one whole step.
OwtExchange Exchange(OwtScheme scheme, int workers, int64_t batch_bytes, double bytes_per_ms,
                     double compute_ms, bool multicast);

// Returns one device's share, in bytes per ms, of the ports of all levels that `workers` devices
// span.
double SharedRate(const Machine& machine, int workers);

struct OwtNetwork {
  int64_t last_activations = 0;  // numbers per image, before the first fully connected layer
  // Numbers per image, of all fully connected layers but the last.
  std::vector<int64_t> hidden_outputs;
  int64_t convolution_parameters = 0;
  int64_t connected_parameters = 0;
  double convolution_ms = 0;  // per image, forward and backward, on one device
  double connected_ms = 0;
};

struct OwtOptions {
  OwtScheme scheme = OwtScheme::kTurns;
  int images = 128;  // B
  bool multicast = false;
  // If set, as in section 4.2, the fully connected part updates its weights after each of its K
  // passes.
  bool variable_batch = false;
};

struct OwtStep {
  double convolution_ms = 0;
  double connected_ms = 0;
  OwtExchange exchange;
  // Every worker gets all outputs of the preceding layer; never hidden.
  double hidden_layers_ms = 0;
  double synchronization_ms = 0;  // of convolution weights, section 4.1
  double extra_updates_ms = 0;    // for variable batches
  double total_ms = 0;
};

// Returns the times of one step of K B images.
OwtStep StepOf(const OwtNetwork& network, const Machine& machine, int workers,
               const OwtOptions& options);

}  // namespace ucudnn::planner
