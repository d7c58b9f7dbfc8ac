#include "shim/host/engines/implicit_gemm.h"

#include <algorithm>
#include <vector>

#include "shim/host/engines/element.h"
#include "shim/host/engines/gemm.h"
#include "shim/host/engines/parallel.h"
#include "shim/host/engines/patches.h"

namespace hostgpu {
namespace {

// The scratch memory of a thread: a tile of the result, a tile of the operand that is not gathered,
// and a tile of patches. Together they have at most kScratchBytes, so that they stay in the
// second-level cache.
template <class Acc>
struct Scratch {
  static constexpr int64_t kTotal = kScratchBytes / sizeof(Acc);
  static constexpr int64_t kResult = kTotal / 4;
  static constexpr int64_t kOperand = kTotal / 4;
  static constexpr int64_t kPatches = kTotal / 2;

  Acc* result = static_cast<Acc*>(ThreadScratch());
  Acc* operand = result + kResult;
  Acc* patches = operand + kOperand;
};

// Returns a length, at most `limit`, that divides `total` into nearly equal parts. If `total`
// exceeds `limit`, the length is rounded up to a multiple of 16, but not beyond `limit`.
int64_t Part(int64_t total, int64_t limit) {
  if (total <= limit) return std::max<int64_t>(total, 1);
  const int64_t parts = (total + limit - 1) / limit;
  const int64_t even = (total + parts - 1) / parts;
  return std::min((even + 15) / 16 * 16, limit);
}

int64_t Parts(int64_t total, int64_t part) { return (total + part - 1) / part; }

struct FilterStrides {
  int64_t k, c, d, h, w;
};

FilterStrides StridesOfFilter(const ConvolutionShape& shape) {
  const int64_t channels = shape.c / shape.groups;
  const int64_t taps = shape.w[0] * shape.w[1] * shape.w[2];
  const int64_t tap = shape.filter_nhwc ? channels : 1;
  return {channels * taps, shape.filter_nhwc ? 1 : taps, shape.w[1] * shape.w[2] * tap,
          shape.w[2] * tap, tap};
}

// Computes y from x and w, or x from y and w. Each pixel of the result, whose elements have type R,
// is a sum over source channels and filter taps.
template <class T, class R = T>
class GatheringProduct {
  using Acc = Accumulator<T>;

 public:
  GatheringProduct(const ConvolutionShape& shape, Acc alpha, const T* source, const T* filter,
                   Acc beta, R* result)
      : forward_(shape.operation == Operation::kForward),
        groups_(shape.groups),
        source_channels_((forward_ ? shape.c : shape.k) / shape.groups),
        result_channels_((forward_ ? shape.k : shape.c) / shape.groups),
        source_strides_(forward_ ? shape.x_strides : shape.y_strides),
        result_strides_(forward_ ? shape.y_strides : shape.x_strides),
        filter_strides_(StridesOfFilter(shape)),
        group_filter_stride_(filter_strides_.k * (shape.k / shape.groups)),
        // Forward gathers the rows of the matrix in the order of w in memory, so that fp32 and fp64
        // products use w without copying it.
        tap_major_(forward_ ? shape.filter_nhwc : source_strides_[1] == 1),
        columns_(tap_major_ && source_strides_[1] == 1 && source_channels_ > 1),
        filter_in_place_(forward_ && std::is_same_v<T, Acc>),
        alpha_(alpha),
        beta_(beta),
        source_(source),
        filter_(filter),
        result_(result) {}

  bool Run(const PatchGeometry& geometry) const {
    const std::vector<PatchRow> rows = PatchRows(geometry, source_channels_, tap_major_);
    const int64_t depth = static_cast<int64_t>(rows.size());
    const int64_t image = geometry.PixelsPerImage();
    if (image == 0 || geometry.images == 0) return true;

    int64_t channels = Part(result_channels_, 512);
    const int64_t pixels_limit = std::min<int64_t>(Scratch<Acc>::kResult / channels, 768);
    // Several small images form one tile; a large image is divided into tiles.
    const int64_t images = image * 2 <= pixels_limit ? pixels_limit / image : 1;
    const int64_t pixels = images > 1 ? images * image : Part(image, pixels_limit);
    const int64_t batches = Parts(geometry.images, images);
    const int64_t tiles_per_batch = images > 1 ? 1 : Parts(image, pixels);
    const int64_t tiles = groups_ * batches * tiles_per_batch;
    // The parts of a sum are chosen before the loop below gives tiles fewer channels. So the parts
    // depend neither on the batch nor on the number of threads.
    int64_t depth_limit = Scratch<Acc>::kPatches / pixels;
    if (!filter_in_place_) depth_limit = std::min(depth_limit, Scratch<Acc>::kOperand / channels);
    const int64_t depth_part = Part(depth, depth_limit);
    while (tiles * Parts(result_channels_, channels) < ThreadCount() && channels >= 64) {
      channels = Part(channels, channels / 2);
    }
    const int64_t channel_tiles = Parts(result_channels_, channels);

    return ParallelFor(tiles * channel_tiles, [&](int64_t task) {
      Tile tile;
      tile.first_channel = task % channel_tiles * channels;
      tile.channels = std::min(channels, result_channels_ - tile.first_channel);
      task /= channel_tiles;
      const int64_t in_batch = task % tiles_per_batch;
      task /= tiles_per_batch;
      tile.group = task % groups_;
      const int64_t batch = task / groups_ * images;
      const int64_t batch_end = std::min(batch + images, geometry.images) * image;
      tile.first_pixel = batch * image + in_batch * pixels;
      tile.pixels = std::min(pixels, batch_end - tile.first_pixel);
      tile.depth_part = depth_part;
      return RunTile(geometry, rows, depth, tile);
    });
  }

 private:
  struct Tile {
    int64_t group, first_channel, channels, first_pixel, pixels, depth_part;
  };

  bool RunTile(const PatchGeometry& geometry, const std::vector<PatchRow>& rows, int64_t depth,
               const Tile& tile) const {
    const Scratch<Acc> scratch;
    if (!scratch.result) return false;
    const std::vector<PixelRun> runs =
        geometry.Runs(tile.first_pixel, tile.first_pixel + tile.pixels);
    const PatchSource<T> source{source_ + tile.group * source_channels_ * source_strides_[1],
                                source_strides_};
    const T* filter = filter_ + tile.group * group_filter_stride_ +
                      tile.first_channel * (forward_ ? filter_strides_.k : filter_strides_.c);
    // If no filter tap reads a source pixel for this tile, every sum is empty, so the result is
    // zero.
    if (depth == 0) std::fill(scratch.result, scratch.result + tile.channels * tile.pixels, Acc{0});
    for (int64_t first = 0; first < depth; first += tile.depth_part) {
      const int64_t part = std::min(tile.depth_part, depth - first);
      if (columns_) {
        GatherColumns(geometry, rows, first, first + part, runs, source, scratch.patches, part);
      } else {
        GatherRows(geometry, rows, first, first + part, runs, source, scratch.patches, tile.pixels);
      }
      const Acc* operand = scratch.operand;
      int64_t operand_ld = part;
      if constexpr (std::is_same_v<T, Acc>) {
        if (filter_in_place_) {
          operand = filter + first;
          operand_ld = filter_strides_.k;
        }
      }
      if (!filter_in_place_) PackFilter(rows, first, part, filter, tile.channels, scratch.operand);
      if (!Gemm(false, columns_, tile.channels, tile.pixels, part, operand, operand_ld,
                scratch.patches, columns_ ? part : tile.pixels, Acc(first > 0), scratch.result,
                tile.pixels)) {
        return false;
      }
    }
    StoreTile(geometry, runs, tile, scratch.result);
    return true;
  }

  void PackFilter(const std::vector<PatchRow>& rows, int64_t first, int64_t part, const T* filter,
                  int64_t channels, Acc* packed) const {
    const int64_t result_stride = forward_ ? filter_strides_.k : filter_strides_.c;
    const int64_t source_stride = forward_ ? filter_strides_.c : filter_strides_.k;
    std::vector<int64_t> offsets(part);
    std::vector<T> one_channel(part);
    for (int64_t i = 0; i < part; ++i) {
      const PatchRow& row = rows[first + i];
      offsets[i] = row.channel * source_stride + row.d->filter_position * filter_strides_.d +
                   row.h->filter_position * filter_strides_.h +
                   row.w->filter_position * filter_strides_.w;
    }
    for (int64_t channel = 0; channel < channels; ++channel) {
      const T* from = filter + channel * result_stride;
      for (int64_t i = 0; i < part; ++i) one_channel[i] = from[offsets[i]];
      LoadRun(one_channel.data(), 1, packed + channel * part, part);
    }
  }

  void StoreTile(const PatchGeometry& geometry, const std::vector<PixelRun>& runs, const Tile& tile,
                 const Acc* tile_result) const {
    const auto& s = result_strides_;
    const auto& axes = geometry.axes;
    R* result = result_ + (tile.group * result_channels_ + tile.first_channel) * s[1];
    const int64_t step = axes[2].result_step * s[4];
    for (const PixelRun& run : runs) {
      R* at = result + run.n * s[0] + (axes[0].result_first + run.d * axes[0].result_step) * s[2] +
              (axes[1].result_first + run.h * axes[1].result_step) * s[3] +
              axes[2].result_first * s[4] + run.w * step;
      if (s[1] == 1 && tile.channels > 1) {
        for (int64_t i = 0; i < run.count; ++i) {
          BlendRun(tile_result + run.at + i, tile.pixels, at + i * step, 1, tile.channels, alpha_,
                   beta_);
        }
      } else {
        for (int64_t channel = 0; channel < tile.channels; ++channel) {
          BlendRun(tile_result + channel * tile.pixels + run.at, 1, at + channel * s[1], step,
                   run.count, alpha_, beta_);
        }
      }
    }
  }

  const bool forward_;
  const int64_t groups_, source_channels_, result_channels_;
  const std::array<int64_t, 5> source_strides_, result_strides_;
  const FilterStrides filter_strides_;
  const int64_t group_filter_stride_;
  const bool tap_major_, columns_, filter_in_place_;
  const Acc alpha_, beta_;
  const T* source_;
  const T* filter_;
  R* result_;
};

constexpr int64_t kSmallImage = 96;  // number of pixels

// Returns true if each channel of y is contiguous in memory and long enough to be multiplied
// without a copy.
bool HasLargeGaplessPlanes(const ConvolutionShape& shape) {
  int64_t run = 1;
  for (int axis = 2; axis >= 0; --axis) {
    if (shape.y[axis] != 1 && shape.y_strides[axis + 2] != run) return false;
    run *= shape.y[axis];
  }
  return run >= kSmallImage && shape.y_strides[1] >= run;
}

// Computes w from x and y. A task computes one tile of w for all images, so the sums stay in one
// tile of the accumulator's type and are rounded only once.
template <class T>
class FilterProduct {
  using Acc = Accumulator<T>;

 public:
  FilterProduct(const ConvolutionShape& shape, Acc alpha, const T* x, const T* y, Acc beta, T* w)
      : channels_(shape.c / shape.groups),
        filters_(shape.k / shape.groups),
        groups_(shape.groups),
        x_strides_(shape.x_strides),
        y_strides_(shape.y_strides),
        columns_(shape.filter_nhwc && x_strides_[1] == 1 && channels_ > 1),
        y_columns_(y_strides_[1] == 1 && filters_ > 1),
        y_in_place_(std::is_same_v<T, Acc> && HasLargeGaplessPlanes(shape)),
        patches_of_x_(ForwardGeometry(shape)),
        pixels_of_y_(IdentityGeometry(shape)),
        // The rows are in the order of w in memory, so that a tile's rows can be stored as
        // contiguous runs.
        x_rows_(PatchRows(patches_of_x_, channels_, shape.filter_nhwc)),
        y_rows_(PatchRows(pixels_of_y_, filters_, true)),
        alpha_(alpha),
        beta_(beta),
        x_(x),
        y_(y),
        w_(w) {}

  bool Run() const {
    const int64_t depth = static_cast<int64_t>(x_rows_.size());
    const int64_t filters = Part(filters_, 512);
    const int64_t width =
        Part(depth, std::min(Scratch<Acc>::kResult / filters, std::max<int64_t>(96, depth / 8)));
    const int64_t filter_tiles = Parts(filters_, filters);
    const int64_t width_tiles = Parts(depth, width);
    const int64_t image = patches_of_x_.PixelsPerImage();
    int64_t limit = Scratch<Acc>::kPatches / width;
    if (!y_in_place_) limit = std::min(limit, Scratch<Acc>::kOperand / filters);
    // Small images are combined, so that each matrix product sums over enough pixels to outweigh
    // the cost of packing its operands.
    const int64_t batch = image >= kSmallImage ? image : image * patches_of_x_.images;
    const int64_t pixels = Part(batch, limit);
    return ParallelFor(groups_ * filter_tiles * width_tiles, [&](int64_t task) {
      Tile tile;
      tile.first_filter = task % filter_tiles * filters;
      tile.filters = std::min(filters, filters_ - tile.first_filter);
      task /= filter_tiles;
      tile.first_row = task % width_tiles * width;
      tile.width = std::min(width, depth - tile.first_row);
      tile.group = task / width_tiles;
      return RunTile(tile, batch, pixels);
    });
  }

 private:
  struct Tile {
    int64_t group, first_filter, filters, first_row, width;
  };

  bool RunTile(const Tile& tile, int64_t batch, int64_t pixels) const {
    const Scratch<Acc> scratch;
    if (!scratch.result) return false;
    const PatchSource<T> x{x_ + tile.group * channels_ * x_strides_[1], x_strides_};
    const PatchSource<T> y{y_ + tile.group * filters_ * y_strides_[1], y_strides_};
    const int64_t end_row = tile.first_row + tile.width;
    const int64_t end_filter = tile.first_filter + tile.filters;
    const int64_t image = patches_of_x_.PixelsPerImage();
    const int64_t total = image * patches_of_x_.images;
    std::fill(scratch.result, scratch.result + tile.filters * tile.width, Acc{0});
    for (int64_t start = 0; start < total; start += batch) {
      for (int64_t first = start; first < start + batch; first += pixels) {
        const int64_t part = std::min(pixels, start + batch - first);
        const std::vector<PixelRun> runs = patches_of_x_.Runs(first, first + part);
        if (columns_) {
          GatherColumns(patches_of_x_, x_rows_, tile.first_row, end_row, runs, x, scratch.patches,
                        tile.width);
        } else {
          GatherRows(patches_of_x_, x_rows_, tile.first_row, end_row, runs, x, scratch.patches,
                     part);
        }
        const Acc* operand = scratch.operand;
        int64_t operand_ld = y_columns_ ? tile.filters : part;
        if (y_in_place_) {
          if constexpr (std::is_same_v<T, Acc>) {
            const int64_t n = first / image;
            operand = y.data + n * y_strides_[0] + tile.first_filter * y_strides_[1] +
                      (first - n * image);
            operand_ld = y_strides_[1];
          }
        } else if (y_columns_) {
          GatherColumns(pixels_of_y_, y_rows_, tile.first_filter, end_filter, runs, y,
                        scratch.operand, tile.filters);
        } else {
          GatherRows(pixels_of_y_, y_rows_, tile.first_filter, end_filter, runs, y, scratch.operand,
                     part);
        }
        if (!Gemm(y_columns_ && !y_in_place_, !columns_, tile.filters, tile.width, part, operand,
                  operand_ld, scratch.patches, columns_ ? tile.width : part, Acc{1}, scratch.result,
                  tile.width)) {
          return false;
        }
      }
    }
    const int64_t depth = static_cast<int64_t>(x_rows_.size());
    for (int64_t i = 0; i < tile.filters; ++i) {
      const int64_t filter = tile.group * filters_ + tile.first_filter + i;
      BlendRun(scratch.result + i * tile.width, 1, w_ + filter * depth + tile.first_row, 1,
               tile.width, alpha_, beta_);
    }
    return true;
  }

  const int64_t channels_, filters_, groups_;
  const std::array<int64_t, 5> x_strides_, y_strides_;
  const bool columns_, y_columns_;
  const bool y_in_place_;  // contiguous fp32 planes are multiplied without a copy
  const PatchGeometry patches_of_x_, pixels_of_y_;
  const std::vector<PatchRow> x_rows_, y_rows_;
  const Acc alpha_, beta_;
  const T* x_;
  const T* y_;
  T* w_;
};

template <class R>
bool RunInt8To(const ConvolutionShape& shape, double alpha, void* x, void* w, void* y,
               double beta) {
  const GatheringProduct<int8_t, R> product(shape, alpha, static_cast<int8_t*>(x),
                                            static_cast<int8_t*>(w), beta, static_cast<R*>(y));
  return product.Run(ForwardGeometry(shape));
}

bool RunInt8(const ConvolutionShape& shape, double alpha, void* x, void* w, void* y, double beta) {
  if (shape.operation != Operation::kForward) return false;
  switch (shape.int8_result) {
    case DataType::kInt8:
      return RunInt8To<int8_t>(shape, alpha, x, w, y, beta);
    case DataType::kInt32:
      return RunInt8To<int32_t>(shape, alpha, x, w, y, beta);
    default:
      return RunInt8To<float>(shape, alpha, x, w, y, beta);
  }
}

}  // namespace

bool RunImplicitGemm(const ConvolutionShape& shape, double alpha, void* x, void* w, void* y,
                     double beta) {
  if (shape.type == DataType::kInt8) return RunInt8(shape, alpha, x, w, y, beta);
  return WithElement(shape.type, [&](auto element) {
    using T = decltype(element);
    using Acc = Accumulator<T>;
    const Acc a = static_cast<Acc>(alpha), b = static_cast<Acc>(beta);
    auto* tx = static_cast<T*>(x);
    auto* tw = static_cast<T*>(w);
    auto* ty = static_cast<T*>(y);
    switch (shape.operation) {
      case Operation::kForward:
        return GatheringProduct<T>(shape, a, tx, tw, b, ty).Run(ForwardGeometry(shape));
      case Operation::kBackwardData: {
        const GatheringProduct<T> product(shape, a, ty, tw, b, tx);
        for (const PatchGeometry& phase : BackwardDataPhases(shape)) {
          if (!product.Run(phase)) return false;
        }
        return true;
      }
      case Operation::kBackwardFilter:
        return FilterProduct<T>(shape, a, tx, ty, b, tw).Run();
    }
    return false;
  });
}

}  // namespace hostgpu
