// "One weird trick": divides the images over all workers in the convolutions and the channels in
// the fully connected layers, with three schemes of exchange between the two. Pure functions.
// Source: Krizhevsky 2014, section 4.
//
// K workers have B images each. In the formulas below, `batch` is the bytes of one worker's last
// activations (B images), and `rate` the bytes per ms of one worker's port while all workers
// communicate.
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

// The cost of sending activations to the fully connected part, and of sending their gradients back.
struct OwtExchange {
  double exposed_ms = 0;    // time of transfers while workers wait
  double hidden_ms = 0;     // time of transfers while workers compute
  int64_t moved_bytes = 0;  // bytes that arrive at all workers, in both directions
  // Bytes at one worker: the activations that it computes on, and with (b) and (c) the activations
  // that arrive meanwhile.
  int64_t buffer_bytes = 0;
  int images = 0;  // batch of the fully connected part, in units of B
};

// Returns the cost of a scheme. Workers wait 2 (K-1) batch / rate with (a). (b) and (c) take K
// steps in each direction, whose transfers take t each. Each transfer but the first overlaps with
// the computation of the step before, compute / 2K per direction, so workers wait 2 (t + (K-1)
// max(0, t - compute / 2K)). For (b), t = (K-1) batch / rate, because the sender's port is the
// narrow one, or t = batch / rate if `multicast` is set, because the sender then sends once for
// all. For (c), t = (K-1) / K batch / rate. `compute_ms` (compute) is the time that a worker
// computes in the fully connected part in one step of K B images.
OwtExchange Exchange(OwtScheme scheme, int workers, int64_t batch_bytes, double bytes_per_ms,
                     double compute_ms, bool multicast);

// Returns one device's share, in bytes per ms, of the narrowest port among all levels that
// `workers` devices span.
double SharedRate(const Machine& machine, int workers);

struct OwtNetwork {
  int64_t last_activations = 0;  // numbers per image that enter the first fully connected layer
  // Outputs per image of each fully connected layer but the last.
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
  // Every worker receives all outputs of the preceding layer; no computation hides this time.
  double hidden_layers_ms = 0;
  double synchronization_ms = 0;  // of the convolutions' weights, section 4.1
  double extra_updates_ms = 0;    // of the fully connected weights, with variable_batch
  double total_ms = 0;
};

// Returns the times of one step of K B images.
OwtStep StepOf(const OwtNetwork& network, const Machine& machine, int workers,
               const OwtOptions& options);

}  // namespace ucudnn::planner
