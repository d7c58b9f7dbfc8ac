// Convolutions cut at random among the ranks of one group, and convolutions computed from their
// definition. Tests compare cut geometry with them, so nothing here uses the formulas under test.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/spatial_grid.h"
#include "convolution/problem.h"
#include "convolution/stripes.h"

namespace ucudnn::test {

using Place = std::array<int64_t, kMaxSpatial>;  // d, h, w

// One image of one channel. Values are modulo 2^64. Two sums of products of random values are equal
// if they consist of the same products, and otherwise almost never.
struct Image {
  Place extents = {0, 0, 0};
  std::vector<uint64_t> values;

  explicit Image(const Place& extents_in);
  static Image Random(const Place& extents, std::mt19937_64& random);
  bool operator==(const Image&) const = default;
};

// A box of an image. Writes through At() change the image.
struct View {
  uint64_t* origin = nullptr;
  Place extents = {0, 0, 0};
  Place strides = {0, 0, 0};

  uint64_t& At(int64_t d, int64_t h, int64_t w) const {
    return origin[d * strides[0] + h * strides[1] + w * strides[2]];
  }
};

// Fails the test and returns an empty view if `box` is not inside `image`.
View Slice(Image& image, const SpatialBox& box);
View Whole(Image& image);
Image CopyOf(const View& view);
// Fails the test if the extents differ.
void Store(const View& from, const View& to);

struct Moves {
  Place pad = {0, 0, 0};
  Place stride = {1, 1, 1};
  Place dilation = {1, 1, 1};
  bool is_flipped = false;  // the filter's last element is the first tap
};
// Computes a convolution by its definition, and adds the result to the operand that `operation`
// computes. Fails the test if cuDNN's legacy API would refuse the extents: y must have the extents
// that x, w and the pad on both sides give.
void Convolve(Operation operation, const View& x, const View& w, const View& y, const Moves& moves);

// Counts, one by one, the windows that fit into an axis padded on both sides.
int64_t CountedWindows(const SlidingWindow& window, int64_t extent);

// One axis and its parts.
struct RandomAxis {
  SlidingWindow window;
  std::vector<int64_t> extents;

  std::string Text() const;
};

// Returns whether the parts' own convolutions compute each window of the uncut axis exactly once.
// Looks at every window.
bool IsTransparent(const RandomAxis& axis);

// A convolution of one image and one channel, and a cut of it. IsTransparent() holds for each axis
// of the cut.
struct CutConvolution {
  ConvolutionProblem whole;  // its extents of x are the sums of `extents`
  SpatialGrid grid;
  AxisExtents extents;

  std::string Text() const;
  Moves AllMoves() const;
  ConvolutionProblem LocalOf(int cell) const;
  Place PartOf(int cell) const;
  // ElementsOf returns the box of x that `cell` owns, and WindowsOf its box of y. They are computed
  // from sums of extents and of counted windows.
  SpatialBox ElementsOf(int cell) const;
  SpatialBox WindowsOf(int cell) const;
  // Returns the Stripes of every cell. If the Stripes of a cell are refused, fails the test and
  // returns none.
  std::vector<Stripes> Cells() const;
};

class RandomCuts {
 public:
  explicit RandomCuts(unsigned seed) : random_(seed) {}

  // Axis draws 1 to `most_taps` taps, dilation 1 to 3, stride 1 to 4, a pad of at most the window's
  // extent, and `parts` parts of any extents, many of them smaller than a halo. TransparentAxis
  // draws again until IsTransparent() holds.
  RandomAxis Axis(int parts, int most_taps);
  RandomAxis TransparentAxis(int parts, int most_taps);
  // Usually draws a cut along one axis, mostly h and sometimes w, into up to 5 parts. Otherwise
  // draws a cut along two or three axes.
  CutConvolution Next(Operation operation);
  std::mt19937_64& Random() { return random_; }

 private:
  int64_t Draw(int64_t least, int64_t most);

  std::mt19937_64 random_;
};

}  // namespace ucudnn::test
