// Images of digits with their labels, from files of MNIST's IDX format, plain or compressed by
// gzip. FORMAT.md describes the files. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::multigrid {

struct Images {
  int64_t count = 0, rows = 0, columns = 0;  // each at least 1
  std::vector<uint8_t> pixels;               // [count, rows, columns]
};

// A label is a number from 0 to kLabels - 1.
inline constexpr int kLabels = 10;

struct LabelledImages {
  Images images;
  std::vector<uint8_t> labels;  // [images.count]
};

struct DataSet {
  LabelledImages training, test;  // of equal rows and columns
  int full_scale = 0;             // the largest pixel of the training images: 255 in MNIST
};

// Read one file. An error is one line with the file, the value found and the value expected. A file
// that ends early and damaged compressed data are errors, too. If the file is too small for the
// size in its header, the functions fail before they allocate memory.
Result<Images> ReadIdxImages(const std::string& path);
Result<std::vector<uint8_t>> ReadIdxLabels(const std::string& path);

// Returns the paths of the four files of `folder`, named as MNIST's: {train,t10k}-images-idx3-ubyte
// and {train,t10k}-labels-idx1-ubyte. Each file may have ".gz" appended. Training comes first, and
// images come before their labels.
Result<std::vector<std::string>> DataSetFiles(const std::string& folder);
// Reads these files.
Result<DataSet> LoadDataSet(const std::string& folder);

}  // namespace ucudnn::multigrid
