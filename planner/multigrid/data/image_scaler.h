// Images as a network takes them: of another size, with values in [0, 1]. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ucudnn::multigrid {

struct ImageSize {
  int64_t rows = 0, columns = 0;
};

// Bilinear interpolation with pixel centres at halves: output pixel i of an axis is the value at
// s = (i + 1/2) * from / to - 1/2, held in [0, from - 1], on the straight line between the pixels
// floor(s) and floor(s) + 1. Sums are of whole numbers, divided and so rounded once: every result
// is the double nearest to the exact value. Immutable; may be used by several threads.
class ImageScaler {
 public:
  static constexpr int64_t kMostPixels = int64_t{1} << 15;  // of an axis of the result

  // `full_scale` is the pixel that becomes 1. REQUIRES: from, to and full_scale at least 1, full
  // scale at most 255, to at most kMostPixels, from below 2^32.
  ImageScaler(ImageSize from, ImageSize to, int full_scale);

  // `image` is [from.rows, from.columns], `scaled` [to.rows, to.columns]. Allocates nothing. A
  // pixel above the full scale becomes more than 1.
  void Scale(std::span<const uint8_t> image, std::span<double> scaled) const;

 private:
  // An output pixel lies between two of the image: their weights are whole and sum to 2 * to.
  struct Place {
    int64_t first = 0, second = 0;
    int64_t first_weight = 0, second_weight = 0;
  };
  static std::vector<Place> Places(int64_t from, int64_t to);

  const int64_t image_columns_;
  const std::vector<Place> rows_, columns_;
  const double one_;  // the sum of weights times pixels that becomes 1
};

}  // namespace ucudnn::multigrid
