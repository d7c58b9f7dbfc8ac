// The claims that the ranks of a group exchange at a kernel's first execution, and the verdict that
// each rank computes from all claims. Each computes the same function of the same texts, so all
// ranks act alike. Pure functions over plain values.
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
#include "spatial/call_form.h"

namespace ucudnn::spatial {

// The window of a pooling, which may differ between ranks: a program that pools its whole image has
// a window of its stripe's extents. Along axes that are not cut, all ranks have the same.
struct OwnWindow {
  Spatial extents = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  Layout layout = Layout::kNchw;  // of its tensors; tensors are exchanged in the first rank's

  bool operator==(const OwnWindow&) const = default;
};

// The claim of one rank.
struct Claim {
  std::string options;  // ucudnn's version, grid, and all options that ranks must share, as text
  std::string kernel;   // see KernelText
  Spatial extents = {1, 1, 1};  // of the rank's own x, in every operation
  OwnWindow window;             // for a pooling
  uint64_t sequence = 0;        // number of the call, from 1
  uint64_t input_hash = 0;      // hash of the exchanged tensor's bits; 0: not computed
  // ExtentsHash of every set of extents for which the rank has made the kernel before.
  std::vector<uint64_t> prepared;
  // Empty if the rank's own call ran on scratch memory; otherwise why it could not.
  std::string not_ready;
};

std::string EncodeClaim(const Claim& claim);
// Fails for the text of another release, or of a stranger.
Result<Claim> DecodeClaim(std::string_view text);

// Names the computation of a call, with a colon behind it; empty for a convolution.
std::string NameOf(const CallForm& form);

// Formats everything that ranks must have in common: the problem without the extents of x along the
// axes that `grid` cuts, and without values that follow from them.
std::string KernelText(const ConvolutionProblem& problem, const CallForm& form,
                       const SpatialGrid& grid);

// FNV-1a hash.
uint64_t HashOf(std::string_view bytes);
// Hash of the extents of every rank's x, and of every rank's window.
uint64_t ExtentsHash(std::span<const Spatial> extents, std::span<const OwnWindow> windows);

// The agreement of the ranks.
struct Agreed {
  std::vector<Spatial> extents;    // of every rank's x, by its number in the group
  std::vector<OwnWindow> windows;  // likewise
  // Empty, or the reason why all ranks refuse the kernel; they go on with other kernels.
  std::string refusal;
  bool is_prepared = false;   // all ranks have made the kernel for these extents before
  bool equal_inputs = false;  // all ranks hold the same bits: perhaps copies instead of stripes
};

// Returns the verdict on the ranks' claims, which are ordered by number in the group. Fails if the
// ranks do not make the same call, so that they cannot go on together; the error names a rank and
// the values that differ. `first` is the job's rank that is number 0 of the group.
Result<Agreed> Agree(std::span<const Claim> claims, int first = 0);

// Decodes gathered claims and returns the verdict of Agree.
Result<Agreed> AgreeOn(std::span<const std::string> gathered, int first = 0);

// Encodes the next text that ranks exchange: a rank's numbers, or the reason why its part cannot be
// made.
std::string EncodeNumbers(std::span<const uint64_t> numbers, const Status& own);
// Decodes `count` numbers of each rank. Returns the error of the first rank that has one.
Result<std::vector<std::vector<uint64_t>>> DecodeNumbers(std::span<const std::string> gathered,
                                                         size_t count, int first = 0);

// Returns whether `grid` cuts the axis and the extent along it is 1 on every rank: stripes, or
// copies.
bool IsOneOnAll(const SpatialGrid& grid, std::span<const Spatial> extents, size_t axis);

// Returns the cut axes along which all ranks have copies instead of stripes, as `extents`, the
// extents of each rank, show. `declared` is the user's statement about extents of 1. If it is none,
// either meaning is accepted if it makes no difference; otherwise the error says what differs.
Result<std::array<bool, kMaxSpatial>> CopiedAxes(const ConvolutionProblem& problem,
                                                 const SpatialGrid& grid,
                                                 std::span<const Spatial> extents,
                                                 std::optional<SpatialOnes> declared,
                                                 SplitWork work = SplitWork::kConvolution);

// How the cut axes of a pooling are read.
struct PooledAxes {
  std::array<bool, kMaxSpatial> copied = {};  // see CopiedAxes
  // Every rank's window covers its whole stripe, and the results are copies: the image is pooled to
  // one element.
  std::array<bool, kMaxSpatial> pooled = {};
};
Result<PooledAxes> AxesOfPooling(const ConvolutionProblem& problem, const SpatialGrid& grid,
                                 std::span<const Spatial> extents,
                                 std::span<const OwnWindow> windows,
                                 std::optional<SpatialOnes> declared);

}  // namespace ucudnn::spatial
