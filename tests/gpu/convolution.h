// One convolution as a framework holds it: descriptors, device buffers and the algorithm that
// cudnnFind...Ex returned first. It is for the programs of tests/gpu, which know nothing of ucudnn
// and are linked with the real libraries. Any CUDA or cuDNN error but NOT_SUPPORTED ends the
// program.
#pragma once

#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ucudnn::gpu_tests {

enum class Operation { kForward, kBackwardData, kBackwardFilter };
constexpr Operation kOperations[] = {Operation::kForward, Operation::kBackwardData,
                                     Operation::kBackwardFilter};
const char* Name(Operation operation);
const char* Name(cudnnDataType_t type);
const char* Name(cudnnTensorFormat_t layout);

struct Shape {
  const char* name;
  int n, c, size, k, filter, pad, stride, groups;
};

// The part of every image that a process holds: images are cut into rows x columns equal cells, and
// this is the one in row `row` and column `column`.
struct Cell {
  int rows = 1, columns = 1, row = 0, column = 0;
};

// Returns where the elements of the process's part of an output lie in the whole output, in the
// order of the part's memory. Filters do not depend on the cell, since every process has all of
// them.
std::vector<size_t> OutputPlaces(const Shape& shape, cudnnTensorFormat_t layout,
                                 Operation operation, const Cell& cell);

// Summarises results, rounded to whole numbers.
struct WholeNumbers {
  unsigned long long checksum = 1469598103934665603u;
  double off_whole = 0;  // the largest distance of a value from a whole number

  void Add(float value);
};

// Device memory of `count` elements of `type`.
class Buffer {
 public:
  Buffer(cudnnDataType_t type, size_t count);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* get() const { return device_; }
  // Fills with -1, 0 and 1, where one value in `sparsity` is not 0. Element i depends on places[i]
  // alone, or without places on i.
  void FillWithSmallIntegers(uint32_t seed, uint32_t sparsity, std::span<const size_t> places = {});
  void FillWithNan();
  std::vector<float> Values() const;

 private:
  cudnnDataType_t type_;
  size_t count_;
  void* device_ = nullptr;
};

class Convolution {
 public:
  // Computes the cell of every image. The outputs equal the whole image's if the stride divides the
  // cell's height and width.
  Convolution(cudnnHandle_t handle, const Shape& shape, cudnnDataType_t type,
              cudnnTensorFormat_t layout, Operation operation, const Cell& cell = {});
  ~Convolution();
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  // Chooses the algorithm. Returns false if cuDNN has none for this convolution.
  bool Find(void* workspace, size_t bytes);
  // Computes output = alpha * result + beta * output.
  cudnnStatus_t TryToRun(void* workspace, float beta, float alpha = 1);
  // Runs it, and ends the program if that fails.
  void Run(void* workspace, float beta);

  Buffer& output();
  int algorithm() const { return algorithm_; }
  size_t workspace_bytes() const { return workspace_bytes_; }

 private:
  template <typename Performance, typename FindFunction>
  bool TakeFirst(FindFunction find);

  cudnnHandle_t handle_;
  Operation operation_;
  cudnnDataType_t type_;
  Buffer x_, w_, y_;
  cudnnTensorDescriptor_t x_descriptor_ = nullptr, y_descriptor_ = nullptr;
  cudnnFilterDescriptor_t w_descriptor_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  int algorithm_ = 0;
  cudnnMathType_t math_ = CUDNN_DEFAULT_MATH;
  size_t workspace_bytes_ = 0;
};

struct Case {
  const Shape& shape;
  cudnnDataType_t type;
  cudnnTensorFormat_t layout;
  Operation operation;
  cudnnHandle_t handle;
  void* workspace;
};
// Calls `body` with each shape in each type, layout and operation.
void ForEachCase(std::span<const Shape> shapes, std::span<const cudnnDataType_t> types,
                 size_t workspace_bytes, const std::function<void(const Case&)>& body);

void Check(cudaError_t error, const char* what);
void Check(cudnnStatus_t status, const char* what);

}  // namespace ucudnn::gpu_tests
