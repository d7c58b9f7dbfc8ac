// Scales images to the input of a network: to another size, and to values in [0, 1] if no pixel
// exceeds the full scale.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ucudnn::multigrid {

struct ImageSize {
  int64_t rows = 0, columns = 0;
};

// Interpolates bilinearly, with pixel centres at halves. Output pixel i of an axis is the value at
// s = (i + 1/2) * from / to - 1/2, clamped to [0, from - 1], on the straight line between the
// pixels floor(s) and floor(s) + 1. All sums are whole numbers, and only the final division rounds,
// so every result is the double nearest to the exact value. Immutable; several threads may use it.
class ImageScaler {
 public:
  // `full_scale` is the pixel value that becomes 1. REQUIRES: from, to and full_scale are at least
  // 1, full_scale is at most 255, to is at most 2^15 and from is below 2^32.
  ImageScaler(ImageSize from, ImageSize to, int full_scale);

  // Scales `image` [from.rows, from.columns] into `scaled` [to.rows, to.columns], without
  // allocating memory. A pixel above the full scale becomes more than 1.
  void Scale(std::span<const uint8_t> image, std::span<double> scaled) const;

 private:
  // The two pixels of the image between which an output pixel lies. Their weights are whole numbers
  // with the sum 2 * to.
  struct Place {
    int64_t first = 0, second = 0;
    int64_t first_weight = 0, second_weight = 0;
  };
  static std::vector<Place> Places(int64_t from, int64_t to);

  const int64_t image_columns_;
  const std::vector<Place> rows_, columns_;
  const double one_;  // the weighted sum of pixels for which the result is 1
};

}  // namespace ucudnn::multigrid
