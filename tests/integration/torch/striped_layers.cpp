// An ordinary cuDNN program that knows nothing of ucudnn. It runs the layers in a file on its
// stripe of each image, forward and backward, in fp64. exchanges_test.py compares the program's
// results with a converted PyTorch model that has the same layers.
//
//   striped_layers FOLDER
//
// FOLDER/layers has words separated by blanks: "images" and the extents N C H W of the whole
// images; "stripes", the number of rows of each process, and "end"; then, for each layer, "relu",
// or "conv" with filters, size, stride, padding, dilation and groups. FOLDER/numbers has doubles in
// this machine's byte order: the whole images, the filters and bias of each convolution, and the
// whole gradient of the output. Process RANK writes doubles to FOLDER/rows.RANK: its rows of the
// output and of the images' gradient, then the gradients of filters and bias of each convolution.
#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "../programs/check_calls.h"

namespace {

constexpr double kOne = 1, kZero = 0;
constexpr size_t kWorkspaceBytes = size_t{8} << 20;

cudnnHandle_t handle;
void* workspace = nullptr;

using Numbers = std::vector<double>;

struct Extents {
  int n = 0, c = 0, h = 0, w = 0;

  size_t count() const { return static_cast<size_t>(n) * static_cast<size_t>(c * h * w); }
};

class Tensor {
 public:
  explicit Tensor(Extents extents) : extents_(extents) {
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&descriptor_));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(descriptor_, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE,
                                           extents.n, extents.c, extents.h, extents.w));
    CHECK_CUDA(cudaMalloc(&data_, extents.count() * sizeof(double)));
  }

  Extents extents() const { return extents_; }
  cudnnTensorDescriptor_t descriptor() const { return descriptor_; }
  double* data() const { return data_; }

  void Fill(const Numbers& numbers) {
    CHECK_CUDA(
        cudaMemcpy(data_, numbers.data(), numbers.size() * sizeof(double), cudaMemcpyHostToDevice));
  }
  Numbers Read() const {
    Numbers numbers(extents_.count());
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(
        cudaMemcpy(numbers.data(), data_, numbers.size() * sizeof(double), cudaMemcpyDeviceToHost));
    return numbers;
  }

 private:
  Extents extents_;
  cudnnTensorDescriptor_t descriptor_ = nullptr;
  double* data_ = nullptr;
};

struct ConvolutionShape {
  int filters = 0, size = 0, stride = 0, pad = 0, dilation = 0, groups = 0;
};

// One layer: a ReLU if `shape` has no filters, otherwise a convolution with bias. REQUIRES: `x`
// outlives the layer.
class Layer {
 public:
  Layer(const Tensor& x, const ConvolutionShape& shape) : x_(x) {
    if (shape.filters == 0) {
      CHECK_CUDNN(cudnnCreateActivationDescriptor(&relu_));
      CHECK_CUDNN(
          cudnnSetActivationDescriptor(relu_, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
      y_ = std::make_unique<Tensor>(x.extents());
    } else {
      MakeConvolution(shape);
    }
    dy_ = std::make_unique<Tensor>(y_->extents());
  }

  Tensor& y() { return *y_; }
  Tensor& dy() { return *dy_; }
  // filters() and bias() return null for a ReLU. FilterGradient and BiasGradient REQUIRE a
  // convolution.
  Tensor* filters() { return filters_.get(); }
  Tensor* bias() { return bias_.get(); }
  Numbers FilterGradient() const { return filter_gradient_->Read(); }
  Numbers BiasGradient() const { return bias_gradient_->Read(); }

  void Forward() {
    if (relu_ != nullptr) {
      CHECK_CUDNN(cudnnActivationForward(handle, relu_, &kOne, x_.descriptor(), x_.data(), &kZero,
                                         y_->descriptor(), y_->data()));
      return;
    }
    cudnnConvolutionFwdAlgoPerf_t found;
    int count = 0;
    CHECK_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(
        handle, x_.descriptor(), filter_, convolution_, y_->descriptor(), 1, &count, &found));
    CHECK_CUDNN(cudnnConvolutionForward(handle, &kOne, x_.descriptor(), x_.data(), filter_,
                                        filters_->data(), convolution_, found.algo, workspace,
                                        kWorkspaceBytes, &kZero, y_->descriptor(), y_->data()));
    CHECK_CUDNN(cudnnAddTensor(handle, &kOne, bias_->descriptor(), bias_->data(), &kOne,
                               y_->descriptor(), y_->data()));
  }

  void Backward(Tensor& dx) {
    if (relu_ != nullptr) {
      CHECK_CUDNN(cudnnActivationBackward(handle, relu_, &kOne, y_->descriptor(), y_->data(),
                                          dy_->descriptor(), dy_->data(), x_.descriptor(),
                                          x_.data(), &kZero, dx.descriptor(), dx.data()));
      return;
    }
    cudnnConvolutionBwdFilterAlgoPerf_t filter;
    cudnnConvolutionBwdDataAlgoPerf_t data;
    int count = 0;
    CHECK_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        handle, x_.descriptor(), dy_->descriptor(), convolution_, filter_, 1, &count, &filter));
    CHECK_CUDNN(cudnnConvolutionBackwardFilter(
        handle, &kOne, x_.descriptor(), x_.data(), dy_->descriptor(), dy_->data(), convolution_,
        filter.algo, workspace, kWorkspaceBytes, &kZero, filter_, filter_gradient_->data()));
    CHECK_CUDNN(cudnnConvolutionBackwardBias(handle, &kOne, dy_->descriptor(), dy_->data(), &kZero,
                                             bias_->descriptor(), bias_gradient_->data()));
    CHECK_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(
        handle, filter_, dy_->descriptor(), convolution_, dx.descriptor(), 1, &count, &data));
    CHECK_CUDNN(cudnnConvolutionBackwardData(
        handle, &kOne, filter_, filters_->data(), dy_->descriptor(), dy_->data(), convolution_,
        data.algo, workspace, kWorkspaceBytes, &kZero, dx.descriptor(), dx.data()));
  }

 private:
  void MakeConvolution(const ConvolutionShape& shape) {
    CHECK_CUDNN(cudnnCreateConvolutionDescriptor(&convolution_));
    CHECK_CUDNN(cudnnSetConvolution2dDescriptor(convolution_, shape.pad, shape.pad, shape.stride,
                                                shape.stride, shape.dilation, shape.dilation,
                                                CUDNN_CROSS_CORRELATION, CUDNN_DATA_DOUBLE));
    CHECK_CUDNN(cudnnSetConvolutionGroupCount(convolution_, shape.groups));
    const Extents of_filters{shape.filters, x_.extents().c / shape.groups, shape.size, shape.size};
    CHECK_CUDNN(cudnnCreateFilterDescriptor(&filter_));
    CHECK_CUDNN(cudnnSetFilter4dDescriptor(filter_, CUDNN_DATA_DOUBLE, CUDNN_TENSOR_NCHW,
                                           of_filters.n, of_filters.c, of_filters.h, of_filters.w));
    Extents of_y;
    CHECK_CUDNN(cudnnGetConvolution2dForwardOutputDim(convolution_, x_.descriptor(), filter_,
                                                      &of_y.n, &of_y.c, &of_y.h, &of_y.w));
    y_ = std::make_unique<Tensor>(of_y);
    filters_ = std::make_unique<Tensor>(of_filters);
    filter_gradient_ = std::make_unique<Tensor>(of_filters);
    bias_ = std::make_unique<Tensor>(Extents{1, shape.filters, 1, 1});
    bias_gradient_ = std::make_unique<Tensor>(Extents{1, shape.filters, 1, 1});
  }

  const Tensor& x_;
  cudnnActivationDescriptor_t relu_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  cudnnFilterDescriptor_t filter_ = nullptr;
  std::unique_ptr<Tensor> y_, dy_, filters_, bias_, filter_gradient_, bias_gradient_;
};

// The contents of FOLDER/layers.
struct Network {
  Extents images;
  std::vector<int> stripes;
  std::vector<ConvolutionShape> layers;
};

Network ReadNetwork(const std::string& path) {
  Network network;
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (word == "images") {
      file >> network.images.n >> network.images.c >> network.images.h >> network.images.w;
    } else if (word == "stripes") {
      while (file >> word && word != "end") network.stripes.push_back(std::atoi(word.c_str()));
    } else {
      ConvolutionShape shape;
      if (word == "conv") {
        file >> shape.filters >> shape.size >> shape.stride >> shape.pad >> shape.dilation >>
            shape.groups;
      }
      network.layers.push_back(shape);
    }
  }
  return network;
}

Numbers ReadNumbers(std::ifstream& file, size_t count) {
  Numbers numbers(count);
  file.read(reinterpret_cast<char*>(numbers.data()),
            static_cast<std::streamsize>(count * sizeof(double)));
  if (!file) {
    std::fprintf(stderr, "striped_layers: the file of numbers is too short\n");
    std::exit(2);
  }
  return numbers;
}

// Returns own.h rows of every plane of `whole`, from row `first` on.
Numbers RowsOf(const Numbers& whole, int whole_rows, const Extents& own, int first) {
  Numbers rows;
  rows.reserve(own.count());
  for (int plane = 0; plane < own.n * own.c; ++plane) {
    const auto begin = whole.begin() + (plane * whole_rows + first) * own.w;
    rows.insert(rows.end(), begin, begin + own.h * own.w);
  }
  return rows;
}

// The first row of a rank's output in the whole output, and the number of rows in the whole output.
struct OutputRows {
  int first, rows;
};

// Returns the place of this rank's output in the whole output. `own` rows of the image give
// `outputs` rows of the output. Other ranks' stripes give rows in the same proportion.
OutputRows PlaceOfOutput(const Network& network, int rank, int own, int outputs) {
  OutputRows place{0, 0};
  for (size_t i = 0; i < network.stripes.size(); ++i) {
    const int rows = network.stripes[i] * outputs / own;
    if (static_cast<int>(i) < rank) place.first += rows;
    place.rows += rows;
  }
  return place;
}

void Write(std::ofstream& file, const Numbers& numbers) {
  file.write(reinterpret_cast<const char*>(numbers.data()),
             static_cast<std::streamsize>(numbers.size() * sizeof(double)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const char* const number = std::getenv("RANK");
  const int rank = number != nullptr ? std::atoi(number) : 0;
  const Network network = ReadNetwork(folder + "/layers");
  std::ifstream numbers(folder + "/numbers", std::ios::binary);
  if (static_cast<size_t>(rank) >= network.stripes.size()) return 2;
  CHECK_CUDNN(cudnnCreate(&handle));
  CHECK_CUDA(cudaMalloc(&workspace, kWorkspaceBytes));

  int first = 0;
  for (int i = 0; i < rank; ++i) first += network.stripes[static_cast<size_t>(i)];
  Extents own = network.images;
  own.h = network.stripes[static_cast<size_t>(rank)];
  Tensor x(own), dx(own);
  x.Fill(RowsOf(ReadNumbers(numbers, network.images.count()), network.images.h, own, first));
  std::vector<std::unique_ptr<Layer>> layers;
  for (const ConvolutionShape& shape : network.layers) {
    layers.push_back(std::make_unique<Layer>(layers.empty() ? x : layers.back()->y(), shape));
    if (shape.filters == 0) continue;
    for (Tensor* parameter : {layers.back()->filters(), layers.back()->bias()}) {
      parameter->Fill(ReadNumbers(numbers, parameter->extents().count()));
    }
  }
  Layer& last = *layers.back();
  const Extents output = last.y().extents();
  const OutputRows place = PlaceOfOutput(network, rank, own.h, output.h);
  const Extents whole_output{output.n, output.c, place.rows, output.w};
  last.dy().Fill(
      RowsOf(ReadNumbers(numbers, whole_output.count()), place.rows, output, place.first));

  for (auto& layer : layers) layer->Forward();
  for (size_t i = layers.size(); i-- > 0;) layers[i]->Backward(i > 0 ? layers[i - 1]->dy() : dx);

  std::ofstream rows(folder + "/rows." + std::to_string(rank), std::ios::binary);
  Write(rows, last.y().Read());
  Write(rows, dx.Read());
  for (auto& layer : layers) {
    if (layer->filters() == nullptr) continue;
    Write(rows, layer->FilterGradient());
    Write(rows, layer->BiasGradient());
  }
  CHECK_CUDNN(cudnnDestroy(handle));
  return rows.flush() ? 0 : 1;
}
