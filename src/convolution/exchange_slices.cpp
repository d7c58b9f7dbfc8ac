#include "convolution/exchange_slices.h"

#include <algorithm>
#include <string>

#include "base/byte_size.h"
#include "convolution/partition.h"

namespace ucudnn {

Result<int64_t> ImagesPerSlice(int64_t images, int64_t step, std::span<const SliceDemand> ranks) {
  const int64_t least = std::min(step, images);
  int64_t most = images;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto [bytes, limit] = ranks[rank];
    if (bytes <= 0) continue;
    if (limit / bytes < least) {
      return Status::Error("rank " + std::to_string(rank) + " of the group needs " +
                           FormatByteSize(static_cast<size_t>(bytes)) +
                           " for each image of an exchange of at least " + std::to_string(least) +
                           ", but its limit is " +
                           FormatByteSize(static_cast<size_t>(std::max<int64_t>(0, limit))));
    }
    most = std::min(most, limit / bytes);
  }
  if (most == images) return images;
  const int64_t slices = CeilDivide(images, most / step * step);
  return std::min(images, CeilDivide(CeilDivide(images, slices), step) * step);
}

}  // namespace ucudnn
