// Images of digits with their labels, from files of the IDX format that MNIST has, plain or
// compressed by gzip. FORMAT.md describes them. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ucudnn::multigrid {

struct Images {
  int64_t count = 0, rows = 0, columns = 0;  // at least one each
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
  int full_scale = 0;             // the largest pixel of the training images: 255 of MNIST's
};

// Each error is one line with the file, what it holds, and what would be right: a file that ends
// early, or compressed data that is damaged, among others. A file whose size cannot hold what its
// header promises is refused before memory is taken for it.
Result<Images> ReadIdxImages(const std::string& path);
Result<std::vector<uint8_t>> ReadIdxLabels(const std::string& path);

// The four files of `folder`, named as MNIST's are: {train,t10k}-images-idx3-ubyte and
// {train,t10k}-labels-idx1-ubyte, each as it is or, where that is missing, with ".gz" appended.
Result<DataSet> LoadDataSet(const std::string& folder);

}  // namespace ucudnn::multigrid
