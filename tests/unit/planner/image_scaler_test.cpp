#include "planner/multigrid/data/image_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "planner/multigrid/data/labelled_images.h"
#include "planner/multigrid/data/safetensors.h"

namespace ucudnn::multigrid {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<double> Scaled(ImageSize from, ImageSize to, int full_scale,
                           const std::vector<uint8_t>& image) {
  std::vector<double> scaled(static_cast<size_t>(to.rows * to.columns), -1);
  ImageScaler(from, to, full_scale).Scale(image, scaled);
  return scaled;
}

TEST(ImageScaler, TheSameSizeOnlyDivides) {
  EXPECT_THAT(Scaled({2, 3}, {2, 3}, 5, {0, 1, 2, 3, 4, 5}),
              ElementsAre(0, 0.2, 0.4, 3.0 / 5, 0.8, 1));
}

TEST(ImageScaler, OnePixelFillsAnImage) {
  EXPECT_THAT(Scaled({1, 1}, {3, 4}, 255, {51}), Each(0.2));
}

// If two pixels are scaled to four, the new centres lie at -1/4, 1/4, 3/4 and 5/4. The outer
// centres are moved to 0 and 1, the centres of the edge pixels.
TEST(ImageScaler, TwiceThePixelsLieOnTheLineBetweenTheirs) {
  EXPECT_THAT(Scaled({1, 2}, {1, 4}, 16, {0, 16}), ElementsAre(0, 0.25, 0.75, 1));
  EXPECT_THAT(Scaled({2, 1}, {4, 1}, 16, {0, 16}), ElementsAre(0, 0.25, 0.75, 1));
}

// If four pixels are scaled to two, the new centres lie at 1/2 and 5/2.
TEST(ImageScaler, HalfThePixelsAreMeansOfPairs) {
  EXPECT_THAT(Scaled({1, 4}, {1, 2}, 1, {0, 1, 1, 0}), ElementsAre(0.5, 0.5));
}

// The expected pixels come from hat functions: the weight of an old pixel is one minus its distance
// from the new pixel, or 0 if the distance exceeds one.
TEST(ImageScaler, AgreesWithHatFunctionsForAnySize) {
  const ImageSize from = {5, 7};
  std::vector<uint8_t> image;
  for (int i = 0; i < 35; ++i) image.push_back(static_cast<uint8_t>(i * i * 37 % 256));
  const auto weight = [](int64_t i, int64_t from, int64_t to, int64_t pixel) {
    const double place =
        (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    const double held = std::fmin(std::fmax(place, 0), static_cast<double>(from - 1));
    return std::fmax(0, 1 - std::fabs(held - static_cast<double>(pixel)));
  };
  for (const ImageSize to : {ImageSize{3, 28}, {28, 3}, {5, 7}, {11, 13}}) {
    const std::vector<double> scaled = Scaled(from, to, 255, image);
    for (int64_t i = 0; i < to.rows; ++i) {
      for (int64_t j = 0; j < to.columns; ++j) {
        double expected = 0;
        for (int64_t r = 0; r < from.rows; ++r) {
          for (int64_t c = 0; c < from.columns; ++c) {
            expected += weight(i, from.rows, to.rows, r) * weight(j, from.columns, to.columns, c) *
                        image[static_cast<size_t>(r * from.columns + c)] / 255.0;
          }
        }
        // A pixel is at most 1, and two weights multiply it. A weight is as wrong as the position
        // from which it is computed. A position is below 8, and is rounded about 4 times.
        const double tolerance = 2 * 4 * 8 * std::numeric_limits<double>::epsilon();
        EXPECT_NEAR(scaled[static_cast<size_t>(i * to.columns + j)], expected, tolerance)
            << to.rows << "x" << to.columns << " at " << i << ", " << j;
      }
    }
  }
}

// The expected pixels come from make_arrays.py, which uses NumPy's interpolation.
TEST(ImageScaler, DigitsAreAsNumPyScalesThem) {
  const auto digits = LoadDataSet(PLANNER_TEST_FOLDER "/digits");
  const auto file = DataFile::Open(PLANNER_TEST_FOLDER "/safetensors/scaled_digits.safetensors");
  ASSERT_TRUE(digits.ok() && file.ok());
  const auto arrays = ReadSafetensors(*file);
  ASSERT_TRUE(arrays.ok()) << arrays.message();
  const NamedArray& expected = arrays->front();
  ASSERT_THAT(expected.shape, ElementsAre(3, 28, 28));
  const ImageScaler scaler({8, 8}, {28, 28}, digits->full_scale);
  std::vector<double> scaled(28 * 28);
  for (size_t image = 0; image < 3; ++image) {
    scaler.Scale(std::span(digits->test.images.pixels).subspan(image * 64, 64), scaled);
    for (size_t i = 0; i < scaled.size(); ++i) {
      EXPECT_NEAR(scaled[i], expected.values[image * scaled.size() + i],
                  2 * 4 * 8 * std::numeric_limits<double>::epsilon());
    }
  }
}

}  // namespace
}  // namespace ucudnn::multigrid
