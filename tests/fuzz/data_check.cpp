#include "data_check.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "planner/multigrid/data/chain_weights.h"
#include "planner/multigrid/data/labelled_images.h"
#include "planner/multigrid/data/safetensors.h"
#include "tests/support/made_file.h"

namespace ucudnn::fuzz {
namespace {

using multigrid::NamedArray;

constexpr uint64_t kMostBytes = uint64_t{64} << 20;

std::string CheckImages(const multigrid::Images& images, const std::string& bytes) {
  if (images.count < 1 || images.rows < 1 || images.columns < 1) return "images without a pixel";
  if (images.pixels.size() != static_cast<size_t>(images.count * images.rows * images.columns)) {
    return "images with pixels of other ones";
  }
  if (bytes.front() != 0) return "";  // IDX files begin with 0 unless they are compressed
  const test::MadeFile packed(test::GzipOf(bytes));
  const auto unpacked = multigrid::ReadIdxImages(packed.path());
  if (!unpacked.ok()) return "images that are refused compressed: " + unpacked.message();
  return unpacked->pixels == images.pixels ? "" : "images that are others when compressed";
}

std::string CheckLabels(const std::vector<uint8_t>& labels) {
  const bool digits = std::all_of(labels.begin(), labels.end(),
                                  [](uint8_t label) { return label < multigrid::kLabels; });
  return digits && !labels.empty() ? "" : "labels that are no digits";
}

bool Same(const NamedArray& a, const NamedArray& b) {
  return a.name == b.name && a.shape == b.shape && a.values.size() == b.values.size() &&
         (a.values.empty() ||
          std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(double)) == 0);
}

Result<std::vector<NamedArray>> ReadArrays(const std::string& path, uint64_t most_bytes) {
  UCUDNN_ASSIGN_OR_RETURN(const multigrid::DataFile file, multigrid::DataFile::Open(path));
  return multigrid::ReadSafetensors(file, most_bytes);
}

std::string CheckComesBack(const std::vector<NamedArray>& arrays) {
  std::vector<test::MadeArray> made;
  for (const NamedArray& array : arrays) {
    made.push_back(test::DoublesOf(array.name, array.shape, array.values));
  }
  const test::MadeFile file(test::SafetensorsOf(made));
  const auto read = ReadArrays(file.path(), 2 * kMostBytes);
  if (!read.ok()) return "arrays that another file does not bring back: " + read.message();
  const bool same = std::equal(read->begin(), read->end(), arrays.begin(), arrays.end(), Same);
  return same ? "" : "arrays that another file brings back otherwise";
}

std::string CheckArrays(const std::vector<NamedArray>& arrays) {
  std::set<std::string> names;
  for (const NamedArray& array : arrays) {
    if (!names.insert(array.name).second) return "a name of two arrays";
    // Empty arrays are a separate case, because the product of their other extents may overflow.
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
  const test::MadeFile file(bytes);
  // Returns whether `read` succeeded, and what is wrong with its result.
  const auto checked = [&](const auto& read, const auto& check) -> ImportCheck {
    if (read.ok()) return {true, check(*read)};
    return {false, CheckLine(read.status(), "the file", file.path())};
  };
  if (format == FileFormat::kImages) {
    return checked(multigrid::ReadIdxImages(file.path()),
                   [&](const multigrid::Images& images) { return CheckImages(images, bytes); });
  }
  if (format == FileFormat::kLabels) {
    return checked(multigrid::ReadIdxLabels(file.path()), CheckLabels);
  }
  return checked(ReadArrays(file.path(), kMostBytes), CheckArrays);
}

}  // namespace ucudnn::fuzz
