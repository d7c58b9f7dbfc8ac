// How an exchange is sliced over the images of a batch. Pure function; thread-compatible.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"

namespace ucudnn {

// What one rank says of an exchange when the ranks agree on it.
struct SliceDemand {
  int64_t bytes_per_image = 0;  // of all its buffers for one image; 0 where it exchanges nothing
  int64_t limit_bytes = 0;      // what all buffers of a slice may take
};

// How many images are exchanged at a time, so that no rank exceeds its limit: a multiple of
// `step`, or all `images`. There are no more slices than that demands, and they are as equal as
// that allows; the last one has what is left. Every rank gets the same from what all have said,
// and nothing else counts. An error names the rank whose limit is less than a slice of `step`
// images. REQUIRES: images and step > 0.
Result<int64_t> ImagesPerSlice(int64_t images, int64_t step, std::span<const SliceDemand> ranks);

}  // namespace ucudnn
