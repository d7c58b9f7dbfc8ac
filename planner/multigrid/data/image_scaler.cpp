#include "planner/multigrid/data/image_scaler.h"

#include <algorithm>

namespace ucudnn::multigrid {

std::vector<ImageScaler::Place> ImageScaler::Places(int64_t from, int64_t to) {
  std::vector<Place> places;
  for (int64_t i = 0; i < to; ++i) {
    // `scaled` is 2 * to * s, with the s of image_scaler.h. Unlike s, it is always a whole number.
    const int64_t scaled = std::clamp<int64_t>((2 * i + 1) * from - to, 0, (from - 1) * 2 * to);
    const int64_t first = scaled / (2 * to);
    const int64_t second_weight = scaled % (2 * to);
    places.push_back({first, std::min(first + 1, from - 1), 2 * to - second_weight, second_weight});
  }
  return places;
}

ImageScaler::ImageScaler(ImageSize from, ImageSize to, int full_scale)
    : image_columns_(from.columns),
      rows_(Places(from.rows, to.rows)),
      columns_(Places(from.columns, to.columns)),
      one_(static_cast<double>(2 * to.rows * 2 * to.columns * full_scale)) {}

void ImageScaler::Scale(std::span<const uint8_t> image, std::span<double> scaled) const {
  auto out = scaled.begin();
  for (const Place& row : rows_) {
    const uint8_t* const above = image.data() + row.first * image_columns_;
    const uint8_t* const below = image.data() + row.second * image_columns_;
    for (const Place& column : columns_) {
      const int64_t left =
          row.first_weight * above[column.first] + row.second_weight * below[column.first];
      const int64_t right =
          row.first_weight * above[column.second] + row.second_weight * below[column.second];
      const int64_t sum = column.first_weight * left + column.second_weight * right;
      *out++ = static_cast<double>(sum) / one_;
    }
  }
}

}  // namespace ucudnn::multigrid
