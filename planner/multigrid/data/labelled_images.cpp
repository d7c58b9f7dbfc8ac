#include "planner/multigrid/data/labelled_images.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "planner/multigrid/data/data_file.h"

namespace ucudnn::multigrid {
namespace {

// The first four bytes of a file: two zeros, the type (8: unsigned bytes) and the number of axes.
constexpr uint32_t kIdxMagicOfImages = 0x00000803;
constexpr uint32_t kIdxMagicOfLabels = 0x00000801;

constexpr uint64_t kMostIdxBytes = uint64_t{16} << 30;
// Deflate needs at least two bits for at most 258 bytes, so a byte of compressed data holds at most
// 258 * 8 / 2 = 1032 bytes.
constexpr uint64_t kMostInflation = 1032;

std::string IdxMagicText(uint32_t magic) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", magic);
  return text;
}

// Reads a file once from beginning to end. The file may be compressed by gzip.
class IdxStream {
 public:
  static Result<IdxStream> Open(const std::string& path) {
    UCUDNN_ASSIGN_OR_RETURN(DataFile file, DataFile::Open(path));
    IdxStream made(path, file.size());
    const int descriptor = file.Release();
    made.file_.reset(gzdopen(descriptor, "rb"));
    if (made.file_) return made;
    close(descriptor);
    return made.Fault("zlib has no memory to read it");
  }

  uint64_t file_bytes() const { return file_bytes_; }
  bool is_plain() const { return gzdirect(file_.get()) != 0; }
  Status Fault(const std::string& what) const { return Status::Error(path_ + ": " + what); }

  Status Read(std::span<char> bytes) {
    constexpr size_t kMostAtOnce = size_t{1} << 30;
    while (!bytes.empty()) {
      const auto most = static_cast<unsigned>(std::min(bytes.size(), kMostAtOnce));
      const int length = gzread(file_.get(), bytes.data(), most);
      if (length <= 0) return Damage(std::to_string(bytes.size()) + " bytes are missing");
      bytes = bytes.subspan(static_cast<size_t>(length));
    }
    return Status::Ok();
  }

  // Returns Ok if all data was read and the compressed data is complete.
  Status Close() {
    char beyond = 0;
    const int length = gzread(file_.get(), &beyond, 1);
    if (length > 0) return Fault("holds more bytes than its header says");
    if (length < 0) return Damage("");
    return gzclose_r(file_.release()) == Z_OK ? Status::Ok() : Fault(kTruncated);
  }

 private:
  struct Closer {
    void operator()(gzFile file) const { gzclose_r(file); }
  };
  static constexpr const char* kTruncated = "its compressed data is truncated";

  IdxStream(std::string path, uint64_t bytes) : path_(std::move(path)), file_bytes_(bytes) {}

  // Returns an error that says why zlib gives no more bytes. The reason is `end` if the file simply
  // ends.
  Status Damage(const std::string& end) const {
    int state = Z_OK;
    gzerror(file_.get(), &state);
    if (state == Z_OK) return Fault(end);
    if (state == Z_BUF_ERROR) return Fault(kTruncated);
    if (state == Z_ERRNO) return Fault(std::string("cannot be read: ") + std::strerror(errno));
    return Fault("its compressed data is damaged");
  }

  std::string path_;
  uint64_t file_bytes_;
  std::unique_ptr<gzFile_s, Closer> file_;
};

Result<uint32_t> ReadBigEndian(IdxStream& file) {
  std::array<char, 4> bytes;
  UCUDNN_RETURN_IF_ERROR(file.Read(bytes));
  uint32_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

struct IdxArray {
  std::vector<int64_t> extents;
  std::vector<uint8_t> values;
};

// Fails if the size in the header is empty or too large. Also fails if a plain file has another
// size, or if a compressed file is too short to hold that many bytes.
Status CheckIdxSize(const IdxStream& file, const IdxArray& array) {
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
  const uint64_t bytes = 4 + 4 * array.extents.size() + values;
  const bool is_plain = file.is_plain();
  if (is_plain ? file.file_bytes() == bytes : bytes / kMostInflation <= file.file_bytes()) {
    return Status::Ok();
  }
  return file.Fault(std::to_string(file.file_bytes()) + " bytes; expected " +
                    (is_plain ? "" : "compressed ") + std::to_string(bytes) +
                    " for its header and " + text + " values");
}

Result<IdxArray> ReadIdx(const std::string& path, uint32_t expected, const char* of) {
  UCUDNN_ASSIGN_OR_RETURN(IdxStream file, IdxStream::Open(path));
  const uint64_t header = 4 + 4 * (expected & 0xff);
  if (file.file_bytes() < header) {
    return file.Fault(std::to_string(file.file_bytes()) + " bytes; expected more than the " +
                      std::to_string(header) + " of an IDX file's header, with " + of);
  }
  UCUDNN_ASSIGN_OR_RETURN(const uint32_t magic, ReadBigEndian(file));
  if (magic != expected) {
    return file.Fault("magic number " + IdxMagicText(magic) + "; expected " +
                      IdxMagicText(expected) + ", that of IDX files of " + of);
  }
  IdxArray array;
  for (uint32_t axis = 0; axis < (expected & 0xff); ++axis) {
    UCUDNN_ASSIGN_OR_RETURN(const uint32_t extent, ReadBigEndian(file));
    array.extents.push_back(extent);
  }
  UCUDNN_RETURN_IF_ERROR(CheckIdxSize(file, array));
  size_t values = 1;
  for (const int64_t extent : array.extents) values *= static_cast<size_t>(extent);
  array.values.resize(values);
  UCUDNN_RETURN_IF_ERROR(file.Read({reinterpret_cast<char*>(array.values.data()), values}));
  UCUDNN_RETURN_IF_ERROR(file.Close());
  return array;
}

// Returns the path of the file `name` in `folder`, or of `name`.gz if only that exists.
Result<std::string> FindIdx(const std::string& folder, const std::string& name) {
  const std::string path = (std::filesystem::path(folder) / name).string();
  std::error_code unknown;
  for (const std::string& found : {path, path + ".gz"}) {
    if (std::filesystem::exists(found, unknown)) return found;
  }
  return Status::Error(path + ": cannot be opened: " + std::strerror(ENOENT) + "; expected it or " +
                       name + ".gz, two of the names of MNIST's files");
}

Result<LabelledImages> LoadLabelledImages(const std::string& image_file,
                                          const std::string& label_file) {
  LabelledImages data;
  UCUDNN_ASSIGN_OR_RETURN(data.images, ReadIdxImages(image_file));
  UCUDNN_ASSIGN_OR_RETURN(data.labels, ReadIdxLabels(label_file));
  const auto labels = static_cast<int64_t>(data.labels.size());
  if (labels != data.images.count) {
    return Status::Error(label_file + ": " + std::to_string(labels) + " labels; expected " +
                         std::to_string(data.images.count) + ", one for each image of " +
                         image_file);
  }
  return data;
}

std::string IdxImageSize(const Images& images) {
  return std::to_string(images.rows) + " x " + std::to_string(images.columns);
}

}  // namespace

Result<Images> ReadIdxImages(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(IdxArray array, ReadIdx(path, kIdxMagicOfImages, "images"));
  return Images{array.extents[0], array.extents[1], array.extents[2], std::move(array.values)};
}

Result<std::vector<uint8_t>> ReadIdxLabels(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(IdxArray array, ReadIdx(path, kIdxMagicOfLabels, "labels"));
  const auto beyond = std::find_if(array.values.begin(), array.values.end(),
                                   [](uint8_t label) { return label >= kLabels; });
  if (beyond != array.values.end()) {
    return Status::Error(path + ": label " + std::to_string(*beyond) + " of image " +
                         std::to_string(beyond - array.values.begin()) + "; expected 0 to 9");
  }
  return std::move(array.values);
}

Result<std::vector<std::string>> DataSetFiles(const std::string& folder) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(folder, unknown)) {
    return Status::Error(
        folder +
        (std::filesystem::exists(folder, unknown) ? ": a file" : ": there is no such folder") +
        "; expected a folder with the four files of MNIST, or with others so called");
  }
  std::vector<std::string> files;
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    UCUDNN_ASSIGN_OR_RETURN(files.emplace_back(), FindIdx(folder, name));
  }
  return files;
}

Result<DataSet> LoadDataSet(const std::string& folder) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> files, DataSetFiles(folder));
  DataSet data;
  UCUDNN_ASSIGN_OR_RETURN(data.training, LoadLabelledImages(files[0], files[1]));
  UCUDNN_ASSIGN_OR_RETURN(data.test, LoadLabelledImages(files[2], files[3]));
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
