// One rank's figures for each kernel, for the report. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convolution/halo_need.h"
#include "convolution/problem.h"
#include "convolution/report_format.h"

namespace ucudnn::spatial {

enum class SplitOutcome : uint8_t {
  kTransparent,  // the calls of all ranks together compute the undivided call
  kReplicated,   // declared as replicated: each rank makes its own whole call
  kRefused,      // an error on all ranks
};

// The facts about a kernel on which ranks agreed. Bytes are counted for one call on this rank.
struct KernelFacts {
  const char* kind = "convolution";  // a string literal
  ConvolutionProblem problem;        // the rank's own problem
  std::string common;                // text of the properties that all ranks share
  SplitOutcome outcome = SplitOutcome::kTransparent;
  std::string refusal;
  std::vector<Spatial> extents;  // extents of each rank's x
  uint64_t sent_bytes = 0, received_bytes = 0;
  // The bytes that would be sent and received if each rank sent each position exactly once to each
  // rank that reads the position.
  uint64_t least_sent_bytes = 0, least_received_bytes = 0;
  uint64_t summed_bytes = 0;  // bytes of a gradient that is summed over all ranks
  int slices = 1;             // number of exchanges in a call, one after the other
  HaloNeed need;              // has no axes if nothing is split
};

// Sums over the timed calls, in milliseconds on the device.
struct KernelTimes {
  uint64_t calls = 0;
  double call_ms = 0;         // from the call's beginning to its end on the caller's stream
  double own_ms = 0;          // the rank's own call
  double exchange_ms = 0;     // exchanges of rows, including their waits for other ranks
  double exposed_ms = 0;      // the part of exchange_ms for which the caller's stream waits
  double sum_ms = 0;          // sums over ranks
  double exposed_sum_ms = 0;  // the part of sum_ms for which the caller's stream waits
};

struct KernelFigures {
  KernelFacts facts;
  uint64_t calls = 0;
  uint64_t paired_calls = 0;  // calls that use rows which the previous call received
  KernelTimes times;
};

using Span = StepSpan;

struct TimedSpan {
  Span span = Span::kCall;
  float begin_ms = 0;  // from the step's beginning
  float length_ms = 0;
};

// The times of one step. A step consists of a rank's calls from one call of the network's first
// kernel up to the next call of that kernel.
struct StepTimes {
  struct Call {
    int kernel = 0;  // index into RankFigures::kernels
    // The end of the call's part of `spans`, as an index. The part begins where the preceding
    // call's part ends.
    size_t end = 0;
  };
  uint64_t number = 0;  // number of the step on this rank, from 1; 0: no step was timed
  std::vector<Call> calls;
  std::vector<TimedSpan> spans;
};

struct RankFigures {
  std::vector<KernelFigures> kernels;
  uint64_t unlisted_calls = 0;  // calls of kernels after the first KernelLog::kMost
  StepTimes step;
};

}  // namespace ucudnn::spatial
