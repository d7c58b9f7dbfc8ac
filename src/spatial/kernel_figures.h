// What one rank did so far, kernel by kernel: plain values for the report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convolution/halo_need.h"
#include "convolution/problem.h"

namespace ucudnn::spatial {

enum class Verdict : uint8_t {
  kTransparent,  // all ranks' calls together are the whole
  kReplicated,   // declared so: each rank makes its own call
  kRefused,      // an error on all ranks
};

// What was agreed on for one kernel. Bytes are those of one call on this rank.
struct KernelFacts {
  const char* kind = "convolution";  // static text
  ConvolutionProblem problem;        // the rank's own
  std::string common;                // all that ranks have in common of it, in words
  Verdict verdict = Verdict::kTransparent;
  std::string refusal;
  std::vector<Spatial> extents;  // of each rank's x
  uint64_t sent_bytes = 0, received_bytes = 0;
  // What it would take to send each position that a rank reads of another's once.
  uint64_t least_sent_bytes = 0, least_received_bytes = 0;
  uint64_t summed_bytes = 0;  // of gradients, over all ranks
  int slices = 1;             // exchanges of a call, one after the other
  HaloNeed need;              // without axes where nothing is split
};

// Sums over the calls that were timed, milliseconds on the device.
struct KernelTimes {
  uint64_t calls = 0;
  double call_ms = 0;         // from the call's beginning to its end on the caller's stream
  double own_ms = 0;          // of the rank's own call
  double exchange_ms = 0;     // of exchanges of rows, with what they wait for other ranks
  double exposed_ms = 0;      // of that, what the caller's stream waits for
  double sum_ms = 0;          // of sums over ranks
  double exposed_sum_ms = 0;  // of that, what the caller's stream waits for
};

struct KernelFigures {
  KernelFacts facts;
  uint64_t calls = 0;
  uint64_t paired_calls = 0;  // of those, for which the call before received the rows
  KernelTimes times;
};

// What a stream did in a timed call.
enum class Span : uint8_t { kCall, kOwn, kExchange, kAwaitExchange, kSum, kAwaitSum };

struct TimedSpan {
  Span span = Span::kCall;
  float begin_ms = 0;  // after the step's beginning
  float length_ms = 0;
};

// Calls that follow one another on a rank, from one call of the network's first kernel to the next.
struct StepTimes {
  struct Call {
    int kernel = 0;  // its number among the figures
    size_t end = 0;  // of its spans, which begin where those of the call before end
  };
  uint64_t number = 0;  // of the rank's steps, from 1; 0: none was timed
  std::vector<Call> calls;
  std::vector<TimedSpan> spans;
};

struct RankFigures {
  std::vector<KernelFigures> kernels;
  uint64_t unlisted_calls = 0;  // of kernels beyond those that are listed
  StepTimes step;
};

}  // namespace ucudnn::spatial
