// Workspace plans (`ucudnn-workspace-plan`, written by `ucudnn workspace -o`): which configuration
// each kernel runs, and which kernels share a workspace. Plain values. Other programs may have
// written a file, so every value is checked here, except for what only the real library can check.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "convolution/api.h"
#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "options/options.h"

namespace ucudnn::json {
class Object;
}  // namespace ucudnn::json

namespace ucudnn::planning {

constexpr size_t kMostPlanKernels = 10000;
constexpr size_t kMostPlanLanes = 4096;

struct WorkspacePlanKernel {
  ConvolutionProblem problem;   // with its mini-batch
  Api api = Api::kLegacy;       // the API through which it is called
  Configuration configuration;  // for n images, or for the tiles of its grid
  // An index into WorkspacePlan::segments; -1: the kernel uses the workspace that its caller
  // passes.
  int segment = -1;
  // The number of lanes on which the kernels of this kernel's segment run, according to the
  // kernel's entry in the file.
  size_t lanes = 1;
  // Indices into WorkspacePlan::kernels, ascending; the kernel's own index may be among them. The
  // program promises that, on the device, a call of this kernel begins only after the latest call
  // of each of these kernels has ended, whatever lanes the calls are on.
  std::vector<int> order_after;

  // `has_total` says whether the file has total_bytes; `kernels` is the number of kernels in the
  // file.
  void Members(json::Object& member, bool has_total, size_t kernels);
};

// A part of ucudnn's own workspace that several kernels share.
struct WorkspacePlanSegment {
  size_t bytes = 0;  // the largest workspace of its kernels
  // True if each kernel of the segment comes after every other kernel of the segment and after
  // itself, so that all lanes may use the same bytes.
  bool ordered = false;
  // The largest number of lanes among its kernels; 1 for an ordered segment.
  size_t copies = 1;
};

struct WorkspacePlan {
  std::string device;                 // as the driver names it
  int cudnn = 0;                      // cudnnGetVersion(); 0: unknown
  std::optional<size_t> limit_bytes;  // ceiling of each kernel's workspace; none: no limit
  // The size of one budget for all kernels; none: each kernel uses the workspace that its caller
  // passes.
  std::optional<size_t> total_bytes;
  WorkspaceDivision division = WorkspaceDivision::kConcurrent;
  std::vector<WorkspacePlanKernel> kernels;  // one for each problem and API
  std::vector<WorkspacePlanSegment> segments;
  size_t reserved_bytes = 0;  // sum over all copies of all segments; within total_bytes

  // Lists the members of the file for `member`, which reads or writes them.
  void Members(json::Object& member);

  // Returns the index of the kernel that calls of this problem and API follow; -1: none. The
  // problem's alignment does not matter. If no kernel of the graph API has this problem, its plans
  // follow the legacy kernel.
  int Find(const ConvolutionProblem& problem, Api api) const;
  // Returns the mini-batch sizes, ascending, at which calls of this problem and API have a kernel
  // to follow.
  std::vector<int> BatchesOf(const ConvolutionProblem& problem, Api api) const;

  struct Hash {
    size_t operator()(const ConvolutionProblem& problem) const { return problem.Hash(); }
  };
  std::unordered_map<ConvolutionProblem, int, Hash> legacy_positions, graph_positions;
};

// Parses a file's text. An error names the place of the wrong value and what was expected. If a
// problem has several entries, as layers of one shape do, the first one is used, because a call
// does not say to which layer it belongs.
Result<WorkspacePlan> ParseWorkspacePlan(std::string_view json);
// Reads and parses a file, which must be a regular file. Errors begin with its path.
Result<WorkspacePlan> ReadWorkspacePlan(const std::string& path);

}  // namespace ucudnn::planning
