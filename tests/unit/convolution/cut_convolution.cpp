#include "cut_convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace ucudnn::test {
namespace {

Place StridesOf(const Place& extents) { return {extents[1] * extents[2], extents[2], 1}; }

template <typename Visit>
void ForEachPlace(const Place& extents, const Visit& visit) {
  for (int64_t d = 0; d < extents[0]; ++d) {
    for (int64_t h = 0; h < extents[1]; ++h) {
      for (int64_t w = 0; w < extents[2]; ++w) visit(d, h, w);
    }
  }
}

// Returns the extent of y by the legacy API's formula, or 0 if the API refuses the extents.
int64_t LegacyExtent(int64_t x, int64_t taps, int64_t pad, int64_t stride, int64_t dilation) {
  const int64_t room = x + 2 * pad - ((taps - 1) * dilation + 1);
  return x < 1 || pad < 0 || room < 0 ? 0 : room / stride + 1;
}

Interval OwnOf(const std::vector<int64_t>& lengths, int64_t part) {
  const int64_t begin = std::accumulate(lengths.begin(), lengths.begin() + part, int64_t{0});
  return {begin, begin + lengths[part]};
}

}  // namespace

Image::Image(const Place& extents_in)
    : extents(extents_in), values(extents[0] * extents[1] * extents[2]) {}

Image Image::Random(const Place& extents, std::mt19937_64& random) {
  Image image(extents);
  for (uint64_t& value : image.values) value = random();
  return image;
}

View Slice(Image& image, const SpatialBox& box) {
  View view = {image.values.data(), {}, StridesOf(image.extents)};
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (box[axis].begin < 0 || box[axis].end > image.extents[axis] || box[axis].Length() == 0) {
      ADD_FAILURE() << "axis " << axis << ": " << box[axis].begin << " to " << box[axis].end
                    << " is no part of " << image.extents[axis];
      return {};
    }
    view.origin += box[axis].begin * view.strides[axis];
    view.extents[axis] = box[axis].Length();
  }
  return view;
}

View Whole(Image& image) { return {image.values.data(), image.extents, StridesOf(image.extents)}; }

Image CopyOf(const View& view) {
  Image image(view.extents);
  Store(view, Whole(image));
  return image;
}

void Store(const View& from, const View& to) {
  ASSERT_EQ(from.extents, to.extents);
  ForEachPlace(from.extents,
               [&](int64_t d, int64_t h, int64_t w) { to.At(d, h, w) = from.At(d, h, w); });
}

void Convolve(Operation operation, const View& x, const View& w, const View& y,
              const Moves& moves) {
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    ASSERT_EQ(y.extents[axis], LegacyExtent(x.extents[axis], w.extents[axis], moves.pad[axis],
                                            moves.stride[axis], moves.dilation[axis]))
        << "axis " << axis << ": " << x.extents[axis] << " elements, " << w.extents[axis]
        << " taps, pad " << moves.pad[axis];
    ASSERT_GT(y.extents[axis], 0);
  }
  const auto read = [&](size_t axis, int64_t at, int64_t tap) {
    return at * moves.stride[axis] - moves.pad[axis] + tap * moves.dilation[axis];
  };
  ForEachPlace(y.extents, [&](int64_t od, int64_t oh, int64_t ow) {
    ForEachPlace(w.extents, [&](int64_t jd, int64_t jh, int64_t jw) {
      const Place at = {read(0, od, jd), read(1, oh, jh), read(2, ow, jw)};
      for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
        if (at[axis] < 0 || at[axis] >= x.extents[axis]) return;
      }
      uint64_t& of_x = x.At(at[0], at[1], at[2]);
      const Place tap = moves.is_flipped ? Place{w.extents[0] - 1 - jd, w.extents[1] - 1 - jh,
                                                 w.extents[2] - 1 - jw}
                                         : Place{jd, jh, jw};
      uint64_t& of_w = w.At(tap[0], tap[1], tap[2]);
      uint64_t& of_y = y.At(od, oh, ow);
      if (operation == Operation::kForward) of_y += of_x * of_w;
      if (operation == Operation::kBackwardData) of_x += of_y * of_w;
      if (operation == Operation::kBackwardFilter) of_w += of_x * of_y;
    });
  });
}

int64_t CountedWindows(const SlidingWindow& window, int64_t extent) {
  int64_t count = 0;
  int64_t first = -window.pad;
  while (first + (window.taps - 1) * window.dilation < extent + window.pad) {
    ++count;
    first += window.stride;
  }
  return count;
}

std::string RandomAxis::Text() const {
  std::string text = std::to_string(window.taps) + " taps, dilation " +
                     std::to_string(window.dilation) + ", stride " + std::to_string(window.stride) +
                     ", pad " + std::to_string(window.pad) + ", parts";
  for (const int64_t extent : extents) text += " " + std::to_string(extent);
  return text;
}

bool IsTransparent(const RandomAxis& axis) {
  int64_t elements = 0, windows = 0;
  for (const int64_t extent : axis.extents) {
    const int64_t count = CountedWindows(axis.window, extent);
    if (count == 0) return false;
    for (int64_t local = 0; local < count; ++local) {
      const int64_t reads_from = elements + local * axis.window.stride - axis.window.pad;
      const int64_t should_read_from = (windows + local) * axis.window.stride - axis.window.pad;
      if (reads_from != should_read_from) return false;
    }
    elements += extent;
    windows += count;
  }
  return windows == CountedWindows(axis.window, elements);
}

std::string CutConvolution::Text() const {
  std::string text = Describe(whole) + " over " + grid.Text();
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    text += "; " + RandomAxis{WindowOf(whole, axis), extents[axis]}.Text();
  }
  return text;
}

Moves CutConvolution::AllMoves() const {
  Moves moves;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    moves.pad[axis] = whole.pad[axis];
    moves.stride[axis] = whole.stride[axis];
    moves.dilation[axis] = whole.dilation[axis];
  }
  moves.is_flipped = whole.mode == ConvolutionMode::kConvolution;
  return moves;
}

Place CutConvolution::PartOf(int cell) const {
  return {cell / (grid.h * grid.w), cell / grid.w % grid.h, cell % grid.w};
}

ConvolutionProblem CutConvolution::LocalOf(int cell) const {
  ConvolutionProblem local = whole;
  const Place part = PartOf(cell);
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    local.x[axis] = static_cast<int32_t>(extents[axis][part[axis]]);
  }
  return local;
}

SpatialBox CutConvolution::ElementsOf(int cell) const {
  const Place part = PartOf(cell);
  SpatialBox box;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) box[axis] = OwnOf(extents[axis], part[axis]);
  return box;
}

SpatialBox CutConvolution::WindowsOf(int cell) const {
  const Place part = PartOf(cell);
  SpatialBox box;
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    std::vector<int64_t> counts;
    for (const int64_t extent : extents[axis]) {
      counts.push_back(CountedWindows(WindowOf(whole, axis), extent));
    }
    box[axis] = OwnOf(counts, part[axis]);
  }
  return box;
}

std::vector<Stripes> CutConvolution::Cells() const {
  std::vector<Stripes> cells;
  for (int cell = 0; cell < grid.GroupSize(); ++cell) {
    auto stripes = Stripes::Make(LocalOf(cell), grid, cell, extents);
    if (!stripes.ok()) {
      ADD_FAILURE() << stripes.message();
      return {};
    }
    cells.push_back(std::move(*stripes));
  }
  return cells;
}

int64_t RandomCuts::Draw(int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random_);
}

RandomAxis RandomCuts::Axis(int parts, int most_taps) {
  RandomAxis axis;
  SlidingWindow& window = axis.window;
  window = {Draw(1, most_taps), Draw(0, 1) == 0 ? 1 : Draw(1, 3), Draw(0, 1) == 0 ? 1 : Draw(1, 4),
            0};
  const int64_t last = (window.taps - 1) * window.dilation;
  window.pad = Draw(0, 3) == 0 ? Draw(0, last + 1) : (last + Draw(0, 1)) / 2;
  const bool divides = Draw(0, 3) > 0;
  const int64_t most = Draw(0, 1) == 0 ? 2 : 8;
  for (int part = 0; part < parts; ++part) {
    const bool any = !divides || part + 1 == parts;
    axis.extents.push_back(any ? Draw(1, most + window.stride)
                               : window.stride *
                                     Draw(1, std::max<int64_t>(1, most / window.stride)));
  }
  return axis;
}

RandomAxis RandomCuts::TransparentAxis(int parts, int most_taps) {
  RandomAxis axis = Axis(parts, most_taps);
  while (!IsTransparent(axis)) axis = Axis(parts, most_taps);
  return axis;
}

CutConvolution RandomCuts::Next(Operation operation) {
  CutConvolution cut;
  cut.whole.operation = operation;
  cut.whole.mode =
      Draw(0, 3) == 0 ? ConvolutionMode::kConvolution : ConvolutionMode::kCrossCorrelation;
  const int64_t kind = Draw(0, 99);
  const int cut_axes = kind < 88 ? 1 : kind < 97 ? 2 : 3;
  cut.whole.spatial_rank = cut_axes == 3 || Draw(0, 9) == 0 ? 3 : 2;
  std::array<int, kMaxSpatial> parts = {1, 1, 1};
  if (cut_axes == 1) {
    parts[Draw(0, 7) == 0 ? 2 : 1] = static_cast<int>(Draw(2, 5));
  } else {
    for (size_t axis = kMaxSpatial - cut_axes; axis < kMaxSpatial; ++axis) {
      parts[axis] = static_cast<int>(Draw(2, cut_axes == 2 ? 3 : 2));
    }
  }
  cut.grid = {1, parts[0], parts[1], parts[2]};
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
    if (axis == 0 && cut.whole.spatial_rank == 2) {
      cut.extents[axis] = {1};
      continue;
    }
    const bool is_small = parts[axis] == 1 || cut_axes == 3;
    const RandomAxis drawn = TransparentAxis(parts[axis], is_small ? 3 : cut_axes == 2 ? 5 : 7);
    cut.extents[axis] = drawn.extents;
    cut.whole.x[axis] = static_cast<int32_t>(
        std::accumulate(drawn.extents.begin(), drawn.extents.end(), int64_t{0}));
    cut.whole.w[axis] = static_cast<int32_t>(drawn.window.taps);
    cut.whole.pad[axis] = static_cast<int32_t>(drawn.window.pad);
    cut.whole.stride[axis] = static_cast<int32_t>(drawn.window.stride);
    cut.whole.dilation[axis] = static_cast<int32_t>(drawn.window.dilation);
  }
  SetPackedStrides(cut.whole);
  return cut;
}

}  // namespace ucudnn::test
