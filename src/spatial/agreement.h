// The claims that the ranks of a group exchange at a kernel's first execution, and the agreement
// that each rank computes from them. All ranks compute the same function of the same texts, so they
// all get the same agreement. Pure functions over plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/spatial_grid.h"
#include "base/status.h"
#include "convolution/problem.h"
#include "options/spatial_options.h"
#include "spatial/split_call.h"

namespace ucudnn::spatial {

// The window of a pooling, which may differ between ranks: if a program pools its whole image, each
// rank's window has the extents of its stripe. Along axes that are not cut, all ranks have the same
// window.
struct OwnWindow {
  Spatial extents = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  // Layout of this rank's tensors. All ranks exchange rows in the layout of the group's first rank.
  Layout layout = Layout::kNchw;

  bool operator==(const OwnWindow&) const = default;
};

// The properties of a kernel that one rank sends to the others, so that all ranks can agree on the
// kernel.
struct Claim {
  // As text: the version of ucudnn, the grid, and all options that ranks must share.
  std::string options;
  std::string kernel;           // as returned by KernelText
  Spatial extents = {1, 1, 1};  // extents of the rank's own x, whatever the operation is
  OwnWindow window;             // set for a pooling
  uint64_t sequence = 0;        // number of the call, from 1
  uint64_t input_hash = 0;      // hash of the exchanged tensor's bits; 0: not computed
  // The ExtentsHash of each set of extents for which the rank has already made the kernel.
  std::vector<uint64_t> prepared;
  // The reason why a trial run of the rank's own call failed; empty if it succeeded.
  std::string not_ready;
};

std::string EncodeClaim(const Claim& claim);
// Fails if `text` is not a claim, or is a claim of another release.
Result<Claim> DecodeClaim(std::string_view text);

// Returns the name of the operation that the call computes, followed by ": "; empty for a
// convolution.
std::string NameOf(const CallProperties& form);

// Formats everything that must be equal on all ranks: the problem without the extents of x along
// the axes that `grid` cuts, and without values that follow from these extents.
std::string KernelText(const ConvolutionProblem& problem, const CallProperties& form,
                       const SpatialGrid& grid);

// Returns the FNV-1a hash.
uint64_t HashOf(std::string_view bytes);
// Returns a hash of the extents of x and the windows of all ranks.
uint64_t ExtentsHash(std::span<const Spatial> extents, std::span<const OwnWindow> windows);

// The properties of a kernel on which the ranks have agreed.
struct Agreed {
  std::vector<Spatial> extents;    // extents of each rank's x, by its number in the group
  std::vector<OwnWindow> windows;  // each rank's window, by its number in the group
  // The reason why all ranks refuse the kernel; empty if they do not. After a refusal, the ranks
  // continue with other kernels.
  std::string refusal;
  bool is_prepared = false;  // all ranks have made the kernel for these extents already
  // All ranks' inputs have the same bits, so they may be copies instead of stripes.
  bool equal_inputs = false;
};

// Returns the agreement that follows from `claims`, which are in the order of the ranks' numbers in
// the group. Fails if the ranks make different calls, because the job cannot continue then. The
// error names a rank and the values that differ. `first` is the number, within the job, of the
// group's rank 0.
Result<Agreed> Agree(std::span<const Claim> claims, int first = 0);

// Decodes gathered claims and calls Agree.
Result<Agreed> AgreeOn(std::span<const std::string> gathered, int first = 0);

// Encodes the text that each rank sends after the claims: `numbers` about its part of the kernel,
// such as sizes of messages, or, if `own` is an error, the reason why its part cannot be made.
std::string EncodeNumbers(std::span<const uint64_t> numbers, const Status& own);
// Decodes `count` numbers of each rank. If some ranks have sent a reason instead, fails with the
// reason of the first such rank.
Result<std::vector<std::vector<uint64_t>>> DecodeNumbers(std::span<const std::string> gathered,
                                                         size_t count, int first = 0);

// Returns whether `grid` cuts the axis and every rank's extent along the axis is 1. The tensors may
// then be stripes or copies.
bool IsOneOnAll(const SpatialGrid& grid, std::span<const Spatial> extents, size_t axis);

// Returns the cut axes along which all ranks have copies instead of stripes. `extents` are each
// rank's extents. `declared` says whether tensors whose extent is 1 on all ranks are stripes or
// copies. If `declared` is none, such tensors count as stripes. Fails if `declared` is none and
// copies would give another result than stripes.
Result<std::array<bool, kMaxSpatial>> CopiedAxes(const ConvolutionProblem& problem,
                                                 const SpatialGrid& grid,
                                                 std::span<const Spatial> extents,
                                                 std::optional<SpatialOnes> declared,
                                                 SplitWork work = SplitWork::kConvolution);

// The cut axes along which a pooling exchanges no rows.
struct PooledAxes {
  std::array<bool, kMaxSpatial> copied = {};  // as returned by CopiedAxes
  // True for an axis along which every rank's window covers its whole stripe and the results are
  // copies. Along this axis the image is pooled to one element.
  std::array<bool, kMaxSpatial> pooled = {};
};
Result<PooledAxes> AxesOfPooling(const ConvolutionProblem& problem, const SpatialGrid& grid,
                                 std::span<const Spatial> extents,
                                 std::span<const OwnWindow> windows,
                                 std::optional<SpatialOnes> declared);

}  // namespace ucudnn::spatial
