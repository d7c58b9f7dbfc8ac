// Prints one line for each of a set of convolutions: its name, a checksum of its result rounded to
// whole numbers, how far the result is from whole numbers, the algorithm and the workspace. Runs
// with and without ucudnn must print equal checksums. The data are whole numbers whose sums are
// exact in every type, and algorithms that round intermediate values (Winograd, FFT) have errors
// far below one half. A displaced, missing or doubled micro-batch changes the checksum.
//
//   convolution_cases [WORKSPACE_MIB [SHAPES]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <span>

#include "convolution.h"

namespace {

using namespace ucudnn::gpu_tests;  // NOLINT: a short program

// Micro-batches of 13 images leave remainders. In 16-bit types an image of `odd_image` is an odd
// multiple of 8 bytes (4 * 15 * 15 * 2 = 1800), so micro-batches must be even to begin at multiples
// of 16 bytes.
constexpr Shape kShapes[] = {{"odd_image", 13, 4, 15, 8, 3, 1, 1, 1},
                             {"5x5_stride_2", 13, 16, 27, 32, 5, 2, 2, 1},
                             {"3x3", 32, 64, 14, 64, 3, 1, 1, 1},
                             {"grouped", 13, 32, 14, 32, 3, 1, 1, 4},
                             {"1x1", 32, 64, 14, 128, 1, 0, 1, 1}};

void Add(const Buffer& buffer, WholeNumbers& result) {
  for (const float value : buffer.Values()) result.Add(value);
}

void RunCase(Convolution& convolution, void* workspace, size_t bytes) {
  if (!convolution.Find(workspace, bytes)) {
    std::printf("unsupported\n");
    return;
  }
  WholeNumbers result;
  convolution.output().FillWithNan();  // with beta = 0 the output must not be read
  convolution.Run(workspace, 0);
  Add(convolution.output(), result);
  convolution.Run(workspace, 1);
  Add(convolution.output(), result);
  std::printf("%016llx %.4f %d %zu\n", result.checksum, result.off_whole, convolution.algorithm(),
              convolution.workspace_bytes());
}

}  // namespace

int main(int argc, char** argv) {
  const size_t bytes = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 256) << 20;
  const size_t shapes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::size(kShapes);
  constexpr cudnnDataType_t kTypes[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
  const auto some = std::span(kShapes).first(std::min(shapes, std::size(kShapes)));
  ForEachCase(some, kTypes, bytes, [&](const Case& of) {
    Convolution convolution(of.handle, of.shape, of.type, of.layout, of.operation);
    std::printf("%s/%s/%s/%s ", of.shape.name, Name(of.type), Name(of.layout), Name(of.operation));
    RunCase(convolution, of.workspace, bytes);
  });
  return 0;
}
