// Draws the fuzzer's random cases: kernels, the settings in which a process calls them, and the
// calls. A case depends only on a seed, a number, and the workspace sizes that the stand-in's
// algorithms need.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options/options.h"
#include "planning/measurement_store.h"
#include "tests/integration/interposer/cases.h"

namespace ucudnn::fuzz {

// Making the stand-in's engines ready takes longer than running them. So a kernel is used in
// several settings, and is called several times in each.
constexpr long kCallsPerSetting = 16;
constexpr long kSettingsPerKernel = 6;

// The options of one process, and the measurements of the only kernel that it calls.
struct Setting {
  ConvolutionProblem problem;  // the kernel with its largest mini-batch, as descriptors give it
  Options options;
  bool has_store = true;
  std::vector<planning::Measurement> rows;
  std::vector<int> sizes;     // micro-batch sizes at which every engine counts as measured
  std::vector<size_t> needs;  // workspace of each of `rows`
};
Setting DrawSetting(uint64_t seed, long number);

// A number of bytes: the base plus `difference`. The base is nothing, the workspace that a query
// reported to the caller (kTold), or the workspace that the algorithm needs (kNeed).
struct Amount {
  enum class Base { kNothing, kTold, kNeed } base = Base::kNothing;
  int64_t difference = 0;

  size_t Bytes(size_t told, size_t need) const;
};

// The query by which the caller finds its algorithm and workspace.
enum class Protocol { kNone, kWorkspaceSize, kGet, kFind, kFindEx };

// The fault in the descriptors of a call.
enum class Fault { kNone, kOutputBatch, kFilterChannels, kTypes };

struct Call {
  test::Case what;
  uint64_t data_seed = 0;
  test::Placements placements;
  test::Placement workspace_placement;
  Protocol protocol = Protocol::kNone;
  int algorithm = 0;        // used unless a query names one
  int requested = 1;        // number of answers that a query asks for
  size_t pick = 0;          // which of the usable answers the call uses
  bool asks_again = false;  // whether the caller then asks for that algorithm's workspace
  size_t lent = 0;          // bytes of workspace that FindEx may use
  Amount workspace;         // workspace of the call itself
  bool null_workspace = false;
  bool spoiled = false;  // the output holds NaN before the call (beta is 0)
  int runs = 1;
  int failing_piece = 0;  // which piece fails in the first run, counted from 1; 0: none
  Fault fault = Fault::kNone;
};
// If set, `images` replaces the drawn mini-batch.
Call DrawCall(uint64_t seed, long number, const Setting& setting,
              std::optional<int> images = std::nullopt);

// Both functions return one line.
std::string Describe(const Setting& setting);
std::string Describe(const Call& call);

}  // namespace ucudnn::fuzz
