// The grid into which a spatially split job is cut: "h4", "h2w2", "d2h2w2", "n2h4". Plain value;
// thread-compatible. Every image is cut into parts along d, h and w. The ranks are in n groups, and
// the ranks of one group together hold whole images. Ranks are numbered cell by cell: w changes
// fastest, then h, then d, and n slowest. So the ranks of a group have consecutive numbers.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ucudnn {

inline constexpr const char* kSpatialGridForm =
    "n, d, h and w, each at most once and with its number of parts, as in h4, h2w2, d2h2w2 or n2h4";
inline constexpr int kMostSpatialRanks = 4096;

struct GridCell {
  int n = 0;
  int d = 0;
  int h = 0;
  int w = 0;

  bool operator==(const GridCell&) const = default;
};

struct SpatialGrid {
  int n = 1;  // each >= 1
  int d = 1;
  int h = 1;
  int w = 1;

  // Accepts the axes in any order and case. Refuses a grid that cuts no image or that has more than
  // kMostSpatialRanks ranks. The error is one line.
  static Result<SpatialGrid> Parse(std::string_view text);

  bool operator==(const SpatialGrid&) const = default;

  // Formats the grid for Parse, in the order n, d, h, w: "n2h4". Leaves out axes of one part. The
  // grid of a single part is "h1", which Parse refuses.
  std::string Text() const;

  int Ranks() const { return n * GroupSize(); }
  int Groups() const { return n; }
  int GroupSize() const { return d * h * w; }
  std::array<int, 3> Parts() const { return {d, h, w}; }  // parts of an image along each axis

  // REQUIRES: 0 <= rank < Ranks().
  GridCell CellOf(int rank) const;
  // REQUIRES: every coordinate of `cell` is within the grid.
  int RankOf(const GridCell& cell) const;

  // The ranks of group g are g * GroupSize() to (g + 1) * GroupSize() - 1, so a rank is determined
  // by its group and its number in the group.
  int GroupOf(int rank) const { return rank / GroupSize(); }
  int GroupRankOf(int rank) const { return rank % GroupSize(); }
  int RankInGroup(int group, int group_rank) const { return group * GroupSize() + group_rank; }
};

}  // namespace ucudnn
