// Pinned plans (`ucudnn-plan` files, as `ucudnn workspace -o` writes them): which configuration
// each kernel runs, and which workspace it shares with which others. Plain values. The files are
// not ours alone: every value is checked here but for what only the genuine library knows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"

namespace ucudnn::planning {

constexpr size_t kMostPinnedKernels = 10000;
constexpr size_t kMostPinnedStreams = 4096;

struct PinnedKernel {
  ConvolutionProblem problem;  // its n counts
  bool legacy = true;          // called through the legacy API, else through the graph API
  Configuration plan;          // of n images
  // Position in PinnedPlan::segments; -1: the caller's own workspace.
  int segment = -1;
  size_t streams = 1;  // that the kernels of its segment run on, as far as this one knows
  // Positions in PinnedPlan::kernels: a call of this kernel begins on the device only after the
  // latest call of each of those, on whichever stream, has ended. Rising; may hold the kernel
  // itself.
  std::vector<int> order_after;
};

// Workspace of the library's own that kernels share.
struct PinnedSegment {
  size_t bytes = 0;  // the largest of its kernels' workspaces
  // Each of its kernels comes after each, itself included: all streams may use the same bytes.
  bool ordered = false;
  size_t copies = 1;  // one for each stream: the most of its kernels; of an ordered one, one
};

struct PinnedPlan {
  std::string device;                 // as the driver names it
  int cudnn = 0;                      // cudnnGetVersion(); 0: unknown
  std::optional<size_t> limit_bytes;  // of each kernel; none: there is no limit
  std::optional<size_t> total_bytes;  // one budget for all kernels; none: each has its caller's
  WorkspaceDivision division = WorkspaceDivision::kConcurrent;
  std::vector<PinnedKernel> kernels;  // no two of one problem and API
  std::vector<PinnedSegment> segments;
  size_t reserved_bytes = 0;  // all copies of all segments, within total_bytes

  // The position of the kernel that calls of this problem and API follow, whatever its pieces'
  // alignment; -1: none. Plans of the graph API follow the legacy API's kernel where there is none
  // of their own.
  int Find(const ConvolutionProblem& problem, bool legacy) const;
  // The mini-batches, rising, that calls of this API have a kernel to follow for, whatever the
  // problem's own.
  std::vector<int> BatchesOf(const ConvolutionProblem& problem, bool legacy) const;

  struct Hash {
    size_t operator()(const ConvolutionProblem& problem) const { return problem.Hash(); }
  };
  std::unordered_map<ConvolutionProblem, int, Hash> legacy_positions, graph_positions;
};

// An error names the value that is wrong by its place, and what was expected. Where a problem is
// there again, as layers of one shape are, the first counts: a call does not tell its layer.
Result<PinnedPlan> ParsePinnedPlan(std::string_view json);
// The same of a file, which must be a regular one; errors begin with its name.
Result<PinnedPlan> ReadPinnedPlan(const std::string& path);

}  // namespace ucudnn::planning
