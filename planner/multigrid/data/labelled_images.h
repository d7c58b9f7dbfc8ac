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

// Labels are 0 to kLabels - 1.
inline constexpr int kLabels = 10;

struct LabelledImages {
  Images images;
  std::vector<uint8_t> labels;  // [images.count]
};

struct DataSet {
  LabelledImages training, test;  // of equal rows and columns
  int full_scale = 0;             // the largest pixel of the training images: 255 in MNIST
};

// Reads one file. Errors are one line with the file, what it holds and what would be right; among
// them are a file that ends early and compressed data that is damaged. If the file's size cannot
// hold what its header promises, the file is refused before memory is taken.
Result<Images> ReadIdxImages(const std::string& path);
Result<std::vector<uint8_t>> ReadIdxLabels(const std::string& path);

// Reads the four files of `folder`, named like MNIST's: {train,t10k}-images-idx3-ubyte and
// {train,t10k}-labels-idx1-ubyte. If a file is missing, its name with ".gz" appended is tried.
Result<DataSet> LoadDataSet(const std::string& folder);

}  // namespace ucudnn::multigrid
