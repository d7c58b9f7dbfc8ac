#include "planner/multigrid/data/labelled_images.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "planner/multigrid/data/byte_stream.h"

namespace ucudnn::multigrid {
namespace {

// Two zero bytes, the type (8: unsigned bytes) and the number of axes.
constexpr uint32_t kIdxMagicOfImages = 0x00000803;
constexpr uint32_t kIdxMagicOfLabels = 0x00000801;

constexpr uint64_t kMostIdxBytes = uint64_t{16} << 30;

std::string IdxMagicText(uint32_t magic) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", magic);
  return text;
}

Result<uint32_t> ReadBigEndian(ByteStream& stream) {
  std::array<char, 4> bytes;
  UCUDNN_RETURN_IF_ERROR(stream.Read(bytes));
  uint32_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

Result<Packing> IdxPacking(const ByteSource& file) {
  std::array<char, 2> first = {};
  UCUDNN_RETURN_IF_ERROR(file.Read(0, first));
  return first[0] == '\x1f' && first[1] == '\x8b' ? Packing::kGzip : Packing::kNone;
}

struct IdxArray {
  std::vector<int64_t> extents;
  std::vector<uint8_t> values;
};

// Checks what the header promises against the size of the file.
Status CheckIdxSize(const ByteSource& file, Packing packing, const IdxArray& array) {
  const uint64_t header = 4 + 4 * array.extents.size();
  std::string text;
  for (const int64_t extent : array.extents) {
    text += (text.empty() ? "" : " x ") + std::to_string(extent);
  }
  uint64_t values = 1;
  for (const int64_t extent : array.extents) {
    if (extent < 1) return file.Fault(text + " values; expected at least one");
    if (static_cast<uint64_t>(extent) > kMostIdxBytes / values) {
      return file.Fault(text + " values; expected at most " + std::to_string(kMostIdxBytes));
    }
    values *= static_cast<uint64_t>(extent);
  }
  if (CanHold(packing, file.size(), header + values)) return Status::Ok();
  return file.Fault(std::to_string(file.size()) + " bytes; expected " +
                    (packing == Packing::kNone ? "" : "compressed ") +
                    std::to_string(header + values) + " for its header and " + text + " values");
}

Result<IdxArray> ReadIdx(const ByteSource& file, uint32_t expected, const char* of) {
  const uint64_t header = 4 + 4 * (expected & 0xff);
  if (file.size() < header) {
    return file.Fault(std::to_string(file.size()) + " bytes; expected more than the " +
                      std::to_string(header) + " of an IDX file's header, with " + of);
  }
  UCUDNN_ASSIGN_OR_RETURN(const Packing packing, IdxPacking(file));
  const std::unique_ptr<ByteStream> stream = MakeByteStream(file, packing);
  UCUDNN_ASSIGN_OR_RETURN(const uint32_t magic, ReadBigEndian(*stream));
  if (magic != expected) {
    return file.Fault("magic number " + IdxMagicText(magic) + "; expected " +
                      IdxMagicText(expected) + ", that of IDX files of " + of);
  }
  IdxArray array;
  for (uint32_t axis = 0; axis < (expected & 0xff); ++axis) {
    UCUDNN_ASSIGN_OR_RETURN(const uint32_t extent, ReadBigEndian(*stream));
    array.extents.push_back(extent);
  }
  UCUDNN_RETURN_IF_ERROR(CheckIdxSize(file, packing, array));
  size_t values = 1;
  for (const int64_t extent : array.extents) values *= static_cast<size_t>(extent);
  array.values.resize(values);
  UCUDNN_RETURN_IF_ERROR(stream->Read({reinterpret_cast<char*>(array.values.data()), values}));
  UCUDNN_RETURN_IF_ERROR(stream->Finish());
  return array;
}

// The file that MNIST calls `name`, or its compressed form.
Result<std::unique_ptr<ByteSource>> OpenIdx(const std::string& folder, const std::string& name) {
  const std::string path = (std::filesystem::path(folder) / name).string();
  Result<std::unique_ptr<ByteSource>> file = OpenByteSource(path);
  if (file.ok()) return file;
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown)) return file.status();
  if (std::filesystem::exists(path + ".gz", unknown)) return OpenByteSource(path + ".gz");
  return Status::Error(file.message() + "; expected it or " + name +
                       ".gz, two of the names of MNIST's files");
}

Result<LabelledImages> LoadLabelledImages(const std::string& folder, const std::string& part) {
  UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> image_file,
                          OpenIdx(folder, part + "-images-idx3-ubyte"));
  UCUDNN_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> label_file,
                          OpenIdx(folder, part + "-labels-idx1-ubyte"));
  LabelledImages data;
  UCUDNN_ASSIGN_OR_RETURN(data.images, ReadIdxImages(*image_file));
  UCUDNN_ASSIGN_OR_RETURN(data.labels, ReadIdxLabels(*label_file));
  const auto labels = static_cast<int64_t>(data.labels.size());
  if (labels != data.images.count) {
    return label_file->Fault(std::to_string(labels) + " labels; expected " +
                             std::to_string(data.images.count) + ", one for each image of " +
                             image_file->name());
  }
  return data;
}

std::string IdxImageSize(const Images& images) {
  return std::to_string(images.rows) + " x " + std::to_string(images.columns);
}

}  // namespace

Result<Images> ReadIdxImages(const ByteSource& file) {
  UCUDNN_ASSIGN_OR_RETURN(IdxArray array, ReadIdx(file, kIdxMagicOfImages, "images"));
  return Images{array.extents[0], array.extents[1], array.extents[2], std::move(array.values)};
}

Result<std::vector<uint8_t>> ReadIdxLabels(const ByteSource& file) {
  UCUDNN_ASSIGN_OR_RETURN(IdxArray array, ReadIdx(file, kIdxMagicOfLabels, "labels"));
  const auto beyond = std::find_if(array.values.begin(), array.values.end(),
                                   [](uint8_t label) { return label >= kLabels; });
  if (beyond != array.values.end()) {
    return file.Fault("label " + std::to_string(*beyond) + " of image " +
                      std::to_string(beyond - array.values.begin()) + "; expected 0 to 9");
  }
  return std::move(array.values);
}

Result<DataSet> LoadDataSet(const std::string& folder) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(folder, unknown)) {
    return Status::Error(
        folder +
        (std::filesystem::exists(folder, unknown) ? ": a file" : ": there is no such folder") +
        "; expected a folder with the four files of MNIST, or with others so called");
  }
  DataSet data;
  UCUDNN_ASSIGN_OR_RETURN(data.training, LoadLabelledImages(folder, "train"));
  UCUDNN_ASSIGN_OR_RETURN(data.test, LoadLabelledImages(folder, "t10k"));
  const Images& training = data.training.images;
  const Images& test = data.test.images;
  if (test.rows != training.rows || test.columns != training.columns) {
    return Status::Error(folder + ": test images of " + IdxImageSize(test) + " pixels; expected " +
                         IdxImageSize(training) + " as the training images have");
  }
  data.full_scale = *std::max_element(training.pixels.begin(), training.pixels.end());
  if (data.full_scale == 0) {
    return Status::Error(folder + ": every pixel of the training images is 0; expected images");
  }
  return data;
}

}  // namespace ucudnn::multigrid
