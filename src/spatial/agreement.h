// What the ranks of a group tell each other of a kernel at its first execution, and the verdict
// that each of them computes from it: the same function of the same texts, so all ranks do alike.
// Pure functions over plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/spatial_grid.h"
#include "base/spatial_options.h"
#include "base/status.h"
#include "convolution/problem.h"
#include "spatial/call_form.h"

namespace ucudnn::spatial {

// What ranks of one pooling may have each for itself: a program that pools its whole image has a
// window of its stripe's extents. Along axes that are not cut all have the same.
struct OwnWindow {
  Spatial extents = {1, 1, 1};
  Spatial stride = {1, 1, 1};
  Layout layout = Layout::kNchw;  // of its tensors; that of the first rank is exchanged

  bool operator==(const OwnWindow&) const = default;
};

// One rank's claim.
struct Claim {
  std::string options;  // ucudnn's version, grid, and all options that ranks must share, in words
  std::string kernel;   // KernelText
  Spatial extents = {1, 1, 1};  // of the rank's own x, in every operation
  OwnWindow window;             // of a pooling
  uint64_t sequence = 0;        // of the call, from 1
  uint64_t input_hash = 0;      // of the exchanged tensor's bits; 0: not computed
  // ExtentsHash of all extents for which the rank has made the kernel before.
  std::vector<uint64_t> prepared;
  // Empty where the rank's own call ran on memory that nobody reads; else why it could not.
  std::string not_ready;
};

std::string EncodeClaim(const Claim& claim);
// An error where a rank of another release, or a stranger, wrote it.
Result<Claim> DecodeClaim(std::string_view text);

// What a call computes, with a colon behind it; empty: a convolution.
std::string NameOf(const CallForm& form);

// All of a problem that ranks must have in common: everything but the extents of x along the axes
// that `grid` cuts, and what follows from them.
std::string KernelText(const ConvolutionProblem& problem, const CallForm& form,
                       const SpatialGrid& grid);

// FNV-1a.
uint64_t HashOf(std::string_view bytes);
// Of the extents of every rank's x, and of every rank's window.
uint64_t ExtentsHash(std::span<const Spatial> extents, std::span<const OwnWindow> windows);

// What the ranks agreed on.
struct Agreed {
  std::vector<Spatial> extents;    // of every rank's x, by its number in the group
  std::vector<OwnWindow> windows;  // likewise
  // Empty, or why the kernel is an error on all ranks, which go on with other kernels.
  std::string refusal;
  bool is_prepared = false;   // all ranks have made the kernel for these extents before
  bool equal_inputs = false;  // all ranks hold the same bits: copies, perhaps, instead of stripes
};

// The verdict on the ranks' claims, by number in the group. An error is that the ranks do not make
// the same call, so that they cannot go on together: it names a rank and the values that differ;
// `first` is the job's rank that is number 0 of the group.
Result<Agreed> Agree(std::span<const Claim> claims, int first = 0);

// The same of texts as they were gathered.
Result<Agreed> AgreeOn(std::span<const std::string> gathered, int first = 0);

// What ranks tell each other next: numbers of theirs, or why a rank's part cannot be made.
std::string EncodeNumbers(std::span<const uint64_t> numbers, const Status& own);
// The numbers of each rank, `count` of each. An error names the first rank that has one.
Result<std::vector<std::vector<uint64_t>>> DecodeNumbers(std::span<const std::string> gathered,
                                                         size_t count, int first = 0);

// Whether `grid` cuts the axis and the extent along it is 1 on every rank: stripes, or copies.
bool IsOneOnAll(const SpatialGrid& grid, std::span<const Spatial> extents, size_t axis);

// Which cut axes are copies on all ranks instead of stripes, by `extents`, each rank's. `declared`
// is what the user says of extents of 1; none: either way where that makes no difference, else the
// error says what would.
Result<std::array<bool, kMaxSpatial>> CopiedAxes(const ConvolutionProblem& problem,
                                                 const SpatialGrid& grid,
                                                 std::span<const Spatial> extents,
                                                 std::optional<SpatialOnes> declared,
                                                 SplitWork work = SplitWork::kConvolution);

// How the axes of a pooling are read that `grid` cuts.
struct PooledAxes {
  std::array<bool, kMaxSpatial> copied = {};  // as CopiedAxes
  // Every rank's window covers its whole stripe, and what comes of it are copies: the image is
  // pooled to one.
  std::array<bool, kMaxSpatial> pooled = {};
};
Result<PooledAxes> AxesOfPooling(const ConvolutionProblem& problem, const SpatialGrid& grid,
                                 std::span<const Spatial> extents,
                                 std::span<const OwnWindow> windows,
                                 std::optional<SpatialOnes> declared);

}  // namespace ucudnn::spatial
