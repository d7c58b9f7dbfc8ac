// One convolution as frameworks run it: descriptors, device buffers and the algorithm that
// cudnnFind...Ex returns first. The programs of tests/gpu that use this file know nothing of ucudnn
// and are linked with the real libraries. CUDA and cuDNN errors end the program, except
// NOT_SUPPORTED from cudnnFind...Ex and errors that TryToRun returns.
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

// The part of every image that a process holds. Images are cut into rows x columns equal cells; the
// process has the cell in row `row` and column `column`.
struct Cell {
  int rows = 1, columns = 1, row = 0, column = 0;
};

// Returns, for each element of the process's part of the output, its index in the uncut output, in
// the order of the part's memory. backward_filter does not cut its output: each process's part is
// the complete filter gradient.
std::vector<size_t> OutputPlaces(const Shape& shape, cudnnTensorFormat_t layout,
                                 Operation operation, const Cell& cell);

// A checksum of results that are rounded to whole numbers.
struct WholeNumbers {
  unsigned long long checksum = 1469598103934665603u;
  double off_whole = 0;  // the largest distance of a result from a whole number

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
  // Fills the buffer with -1, 0 and 1; on average one in `sparsity` values is not 0. Element i
  // depends only on `seed` and on places[i], or on i if `places` is empty.
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
  // Creates the convolution that a process runs on its `cell` of every image. The output equals a
  // part of the uncut images' output only if the stride divides the cell's height and width.
  Convolution(cudnnHandle_t handle, const Shape& shape, cudnnDataType_t type,
              cudnnTensorFormat_t layout, Operation operation, const Cell& cell = {});
  ~Convolution();
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  // Chooses the algorithm. Returns false if cuDNN has none for this convolution.
  bool Find(void* workspace, size_t bytes);
  // Computes output = alpha * result + beta * output.
  cudnnStatus_t TryToRun(void* workspace, float beta, float alpha = 1);
  // Does the same as TryToRun with alpha = 1, and ends the program if that fails.
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
// Calls `body` with each combination of a shape, a type, a layout and an operation.
void ForEachCase(std::span<const Shape> shapes, std::span<const cudnnDataType_t> types,
                 size_t workspace_bytes, const std::function<void(const Case&)>& body);

void Check(cudaError_t error, const char* what);
void Check(cudnnStatus_t status, const char* what);

}  // namespace ucudnn::gpu_tests
