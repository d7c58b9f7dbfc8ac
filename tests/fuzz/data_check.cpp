#include "data_check.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "planner/multigrid/data/byte_source.h"
#include "planner/multigrid/data/chain_weights.h"
#include "planner/multigrid/data/labelled_images.h"
#include "planner/multigrid/data/npz.h"
#include "tests/support/zip_file.h"

namespace ucudnn::fuzz {
namespace {

using multigrid::MemoryBytes;
using multigrid::NpzArray;

constexpr uint64_t kMostBytes = uint64_t{64} << 20;

std::string CheckImages(const multigrid::Images& images, const std::string& bytes) {
  if (images.count < 1 || images.rows < 1 || images.columns < 1) return "images without a pixel";
  if (images.pixels.size() != static_cast<size_t>(images.count * images.rows * images.columns)) {
    return "images with pixels of other ones";
  }
  if (bytes.front() != 0) return "";  // they were compressed
  const std::string packed = test::GzipOf(bytes);
  const auto unpacked = multigrid::ReadIdxImages(MemoryBytes(kFuzzedFile, packed));
  if (!unpacked.ok()) return "images that are refused compressed: " + unpacked.message();
  return unpacked->pixels == images.pixels ? "" : "images that are others when compressed";
}

std::string CheckLabels(const std::vector<uint8_t>& labels) {
  const bool digits = std::all_of(labels.begin(), labels.end(),
                                  [](uint8_t label) { return label < multigrid::kLabels; });
  return digits && !labels.empty() ? "" : "labels that are no digits";
}

bool Same(const NpzArray& a, const NpzArray& b) {
  return a.name == b.name && a.shape == b.shape && a.values.size() == b.values.size() &&
         (a.values.empty() ||
          std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(double)) == 0);
}

std::string CheckComesBack(const std::vector<NpzArray>& arrays) {
  std::vector<test::ZipPart> parts;
  for (const NpzArray& array : arrays) {
    parts.push_back(
        {array.name + ".npy", test::NpyOf(array.shape, array.values), parts.size() % 2 == 1});
  }
  const std::string file = test::ZipOf(parts);
  const auto read = multigrid::ReadNpz(MemoryBytes(kFuzzedFile, file), 2 * kMostBytes);
  if (!read.ok()) return "arrays that another file does not bring back: " + read.message();
  const bool same = std::equal(read->begin(), read->end(), arrays.begin(), arrays.end(), Same);
  return same ? "" : "arrays that another file brings back otherwise";
}

std::string CheckArrays(const std::vector<NpzArray>& arrays) {
  std::set<std::string> names;
  for (const NpzArray& array : arrays) {
    if (array.name.empty() || !names.insert(array.name).second) return "a name of two arrays";
    // A zero first: other extents of an empty array may overflow.
    const bool is_empty = std::count(array.shape.begin(), array.shape.end(), 0) > 0;
    size_t count = is_empty ? 0 : 1;
    for (const int64_t extent : array.shape) count *= static_cast<size_t>(extent);
    if (array.values.size() != count) return "an array of another shape";
  }
  if (const std::string fault = CheckComesBack(arrays); !fault.empty()) return fault;
  const auto weights = multigrid::TakeChainWeights(arrays, kFuzzedFile);
  if (!weights.ok()) return CheckLine(weights.status(), "a chain");
  const bool fits =
      weights->kernels.size() ==
          static_cast<size_t>(weights->layers * weights->channels * weights->channels *
                              weights->kernel * weights->kernel) &&
      weights->biases.size() == static_cast<size_t>(weights->layers * weights->channels) &&
      weights->state.size() ==
          static_cast<size_t>(weights->channels * weights->rows * weights->columns);
  return fits ? "" : "weights of another chain";
}

}  // namespace

ImportCheck CheckData(FileFormat format, const std::string& bytes) {
  const MemoryBytes file(kFuzzedFile, bytes);
  if (format == FileFormat::kImages) {
    const auto images = multigrid::ReadIdxImages(file);
    return {images.ok(),
            images.ok() ? CheckImages(*images, bytes) : CheckLine(images.status(), "the file")};
  }
  if (format == FileFormat::kLabels) {
    const auto labels = multigrid::ReadIdxLabels(file);
    return {labels.ok(),
            labels.ok() ? CheckLabels(*labels) : CheckLine(labels.status(), "the file")};
  }
  const auto arrays = multigrid::ReadNpz(file, kMostBytes);
  return {arrays.ok(), arrays.ok() ? CheckArrays(*arrays) : CheckLine(arrays.status(), "the file")};
}

}  // namespace ucudnn::fuzz
