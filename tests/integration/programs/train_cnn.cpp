// An ordinary cuDNN program that knows nothing of ucudnn. It trains a small network that classifies
// patterns:
//
//   5x5 convolution, batch normalisation, ReLU, max pooling, 3x3 convolution, bias, ReLU, average
//   pooling, whole-image convolution, bias, log-softmax and cross-entropy
//
// It uses gradient descent with momentum, and algorithms from cudnnFind...Ex that fit a workspace
// limit. The momentum is the beta of the backward calls, which add to the velocity of the previous
// step. The program prints the loss of every step with all digits, so that two runs can be
// compared. Images are integers, and initial weights are multiples of 1/8. So in fp64 without batch
// normalisation, the first step has no rounding errors before the softmax, whatever the order of
// additions is.
//
//   train_cnn [fp32|fp64] [nchw|nhwc] [norm|plain] [BATCH [STEPS [WORKSPACE_KIB]]]
#include <cuda_runtime.h>
#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "check_calls.h"
#include "descriptors.h"

namespace {

constexpr int kClasses = 4;
constexpr int kImage = 16;
constexpr int kColours = 3;
constexpr double kRate = 0.02;
constexpr double kMomentum = 0.5;
constexpr double kEpsilon = 1e-5;

// Defaults of the program's arguments.
cudnnDataType_t type = CUDNN_DATA_FLOAT;
cudnnTensorFormat_t layout = CUDNN_TENSOR_NCHW;
bool normalize = true;
int batch = 24;
int steps = 12;
size_t workspace_bytes = size_t{8} << 20;

cudnnHandle_t handle;
void* workspace = nullptr;

// A scaling factor: cuDNN reads a double for fp64 tensors, and a float for other types.
class Factor {
 public:
  explicit Factor(double value) : wide_(value), narrow_(static_cast<float>(value)) {}
  const void* get() const {
    return type == CUDNN_DATA_DOUBLE ? static_cast<const void*>(&wide_) : &narrow_;
  }

 private:
  double wide_;
  float narrow_;
};

class Random {
 public:
  explicit Random(uint32_t seed) : state_(seed) {}
  // Returns a number from 0 to count - 1.
  int Below(int count) {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<int>((state_ >> 16) % static_cast<uint32_t>(count));
  }

 private:
  uint32_t state_;
};

// Device memory for n x c x h x w elements in the program's layout, initialized to zero.
class Tensor {
 public:
  Tensor(int n, int c, int h, int w)
      : n(n), c(c), h(h), w(w), descriptor_(MakeTensor(type, n, c, h, w, layout)) {
    CHECK_CUDA(cudaMalloc(&data_, Bytes()));
    CHECK_CUDA(cudaMemset(data_, 0, Bytes()));
  }
  ~Tensor() {
    cudaFree(data_);
    cudnnDestroyTensorDescriptor(descriptor_);
  }
  Tensor(const Tensor&) = delete;

  // `values` are in the order n, c, h, w, whatever the layout is.
  void Upload(const std::vector<double>& values) {
    Convert([&](size_t from, size_t to, auto& host) {
      using Element = std::decay_t<decltype(host[0])>;
      host[to] = static_cast<Element>(values[from]);
    });
    CHECK_CUDA(cudaMemcpy(data_, Host(), Bytes(), cudaMemcpyHostToDevice));
  }
  std::vector<double> Download() {
    std::vector<double> values(Count());
    Convert([](size_t, size_t, auto&) {});
    CHECK_CUDA(cudaMemcpy(Host(), data_, Bytes(), cudaMemcpyDeviceToHost));
    Convert([&](size_t to, size_t from, auto& host) { values[to] = host[from]; });
    return values;
  }
  void Fill(double value) { Upload(std::vector<double>(Count(), value)); }

  size_t Count() const { return size_t{1} * n * c * h * w; }
  cudnnTensorDescriptor_t descriptor() const { return descriptor_; }
  void* data() const { return data_; }

  const int n, c, h, w;

 private:
  size_t Bytes() const { return Count() * (type == CUDNN_DATA_DOUBLE ? 8 : 4); }
  void* Host() {
    return type == CUDNN_DATA_DOUBLE ? static_cast<void*>(wide_.data()) : narrow_.data();
  }
  // Calls body(index in the order n, c, h, w; index in memory; host copy) for every element.
  template <class Body>
  void Convert(const Body& body) {
    wide_.resize(type == CUDNN_DATA_DOUBLE ? Count() : 0);
    narrow_.resize(type == CUDNN_DATA_DOUBLE ? 0 : Count());
    size_t plain = 0;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < c; ++j)
        for (int y = 0; y < h; ++y)
          for (int x = 0; x < w; ++x, ++plain) {
            const size_t at =
                layout == CUDNN_TENSOR_NHWC ? ((size_t{1} * i * h + y) * w + x) * c + j : plain;
            type == CUDNN_DATA_DOUBLE ? body(plain, at, wide_) : body(plain, at, narrow_);
          }
  }

  cudnnTensorDescriptor_t descriptor_;
  void* data_ = nullptr;
  std::vector<double> wide_;
  std::vector<float> narrow_;
};

// A learnt parameter and its velocity. The velocity is a weighted sum of all steps' gradients; the
// weight of a step's gradient decreases with every later step.
struct Parameter {
  Parameter(int n, int c, int h, int w) : value(n, c, h, w), velocity(n, c, h, w) {}
  Tensor value, velocity;
};

// Returns random integer multiples of `unit`, between -`most` * `unit` and `most` * `unit`.
std::vector<double> SmallNumbers(size_t count, int most, double unit, uint32_t seed) {
  Random random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = unit * (random.Below(2 * most + 1) - most);
  return values;
}

// A tensor, and its gradient.
struct Values {
  Values(int c, int size) : value(batch, c, size, size), gradient(batch, c, size, size) {}
  Tensor value, gradient;
};

// A layer. Forward computes y from x; Backward computes the gradient of x from the gradient of y.
class Layer {
 public:
  // A layer that works in place gets the same Values as x and y.
  Layer(Values& x, Values& y) : x_(x.value), dx_(x.gradient), y_(y.value), dy_(y.gradient) {}
  virtual ~Layer() = default;
  virtual void Forward() = 0;
  virtual void Backward() = 0;
  virtual void Learn() {}

 protected:
  Tensor &x_, &dx_, &y_, &dy_;
};

class Convolution : public Layer {
 public:
  // `is_first`: the first layer of a network, which needs no gradient of x.
  Convolution(Values& x, Values& y, int filter, int pad, uint32_t seed, bool is_first = false)
      : Layer(x, y), is_first_(is_first), weights_(y_.c, x_.c, filter, filter) {
    filter_ = MakeFilter(type, y_.c, x_.c, filter, layout);
    convolution_ = MakeConvolution(type, pad);
    CHECK_CUDNN(cudnnCreateOpTensorDescriptor(&sum_));
    CHECK_CUDNN(
        cudnnSetOpTensorDescriptor(sum_, CUDNN_OP_TENSOR_ADD, type, CUDNN_NOT_PROPAGATE_NAN));
    FindAlgorithms();
    weights_.velocity.Fill(0);  // FindAlgorithms has written gradients there
    weights_.value.Upload(SmallNumbers(weights_.value.Count(), 1, 0.125, seed));
  }
  ~Convolution() override {
    cudnnDestroyOpTensorDescriptor(sum_);
    cudnnDestroyConvolutionDescriptor(convolution_);
    cudnnDestroyFilterDescriptor(filter_);
  }

  void Forward() override {
    CHECK_CUDNN(cudnnConvolutionForward(handle, Factor(1).get(), x_.descriptor(), x_.data(),
                                        filter_, weights_.value.data(), convolution_, forward_.algo,
                                        workspace, forward_.memory, Factor(0).get(),
                                        y_.descriptor(), y_.data()));
  }
  void Backward() override {
    CHECK_CUDNN(cudnnConvolutionBackwardFilter(
        handle, Factor(1).get(), x_.descriptor(), x_.data(), dy_.descriptor(), dy_.data(),
        convolution_, backward_filter_.algo, workspace, backward_filter_.memory,
        Factor(kMomentum).get(), filter_, weights_.velocity.data()));
    if (is_first_) return;
    CHECK_CUDNN(cudnnConvolutionBackwardData(
        handle, Factor(1).get(), filter_, weights_.value.data(), dy_.descriptor(), dy_.data(),
        convolution_, backward_data_.algo, workspace, backward_data_.memory, Factor(0).get(),
        dx_.descriptor(), dx_.data()));
  }
  void Learn() override {
    const Tensor &w = weights_.value, &v = weights_.velocity;
    CHECK_CUDNN(cudnnOpTensor(handle, sum_, Factor(1).get(), w.descriptor(), w.data(),
                              Factor(-kRate).get(), v.descriptor(), v.data(), Factor(0).get(),
                              w.descriptor(), w.data()));
  }

 private:
  // Takes the first algorithm that cudnnFind...Ex returns, as frameworks do.
  void FindAlgorithms() {
    int count = 0;
    CHECK_CUDNN(cudnnFindConvolutionForwardAlgorithmEx(
        handle, x_.descriptor(), x_.data(), filter_, weights_.value.data(), convolution_,
        y_.descriptor(), y_.data(), 1, &count, &forward_, workspace, workspace_bytes));
    CHECK_CUDNN(cudnnFindConvolutionBackwardFilterAlgorithmEx(
        handle, x_.descriptor(), x_.data(), dy_.descriptor(), dy_.data(), convolution_, filter_,
        weights_.velocity.data(), 1, &count, &backward_filter_, workspace, workspace_bytes));
    if (is_first_) return;
    CHECK_CUDNN(cudnnFindConvolutionBackwardDataAlgorithmEx(
        handle, filter_, weights_.value.data(), dy_.descriptor(), dy_.data(), convolution_,
        dx_.descriptor(), dx_.data(), 1, &count, &backward_data_, workspace, workspace_bytes));
  }

  const bool is_first_;
  Parameter weights_;
  cudnnFilterDescriptor_t filter_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  cudnnOpTensorDescriptor_t sum_ = nullptr;
  cudnnConvolutionFwdAlgoPerf_t forward_ = {};
  cudnnConvolutionBwdDataAlgoPerf_t backward_data_ = {};
  cudnnConvolutionBwdFilterAlgoPerf_t backward_filter_ = {};
};

// Adds one value per channel, in place; the gradient passes unchanged.
class Bias : public Layer {
 public:
  explicit Bias(Values& y) : Layer(y, y), bias_(1, y_.c, 1, 1) {}
  void Forward() override {
    CHECK_CUDNN(cudnnAddTensor(handle, Factor(1).get(), bias_.value.descriptor(),
                               bias_.value.data(), Factor(1).get(), y_.descriptor(), y_.data()));
  }
  void Backward() override {
    CHECK_CUDNN(cudnnConvolutionBackwardBias(handle, Factor(1).get(), dy_.descriptor(), dy_.data(),
                                             Factor(kMomentum).get(), bias_.velocity.descriptor(),
                                             bias_.velocity.data()));
  }
  void Learn() override {
    CHECK_CUDNN(cudnnAddTensor(handle, Factor(-kRate).get(), bias_.velocity.descriptor(),
                               bias_.velocity.data(), Factor(1).get(), bias_.value.descriptor(),
                               bias_.value.data()));
  }

 private:
  Parameter bias_;
};

class Normalization : public Layer {
 public:
  Normalization(Values& x, Values& y)
      : Layer(x, y),
        scale_(1, x_.c, 1, 1),
        bias_(1, x_.c, 1, 1),
        running_mean_(1, x_.c, 1, 1),
        running_variance_(1, x_.c, 1, 1),
        mean_(1, x_.c, 1, 1),
        inverse_(1, x_.c, 1, 1) {
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&parameters_));
    CHECK_CUDNN(
        cudnnDeriveBNTensorDescriptor(parameters_, x_.descriptor(), CUDNN_BATCHNORM_SPATIAL));
    scale_.value.Fill(1);
  }
  ~Normalization() override { cudnnDestroyTensorDescriptor(parameters_); }

  void Forward() override {
    CHECK_CUDNN(cudnnBatchNormalizationForwardTraining(
        handle, CUDNN_BATCHNORM_SPATIAL, Factor(1).get(), Factor(0).get(), x_.descriptor(),
        x_.data(), y_.descriptor(), y_.data(), parameters_, scale_.value.data(), bias_.value.data(),
        1.0 / ++calls_, running_mean_.data(), running_variance_.data(), kEpsilon, mean_.data(),
        inverse_.data()));
  }
  void Backward() override {
    CHECK_CUDNN(cudnnBatchNormalizationBackward(
        handle, CUDNN_BATCHNORM_SPATIAL, Factor(1).get(), Factor(0).get(), Factor(1).get(),
        Factor(kMomentum).get(), x_.descriptor(), x_.data(), dy_.descriptor(), dy_.data(),
        dx_.descriptor(), dx_.data(), parameters_, scale_.value.data(), scale_.velocity.data(),
        bias_.velocity.data(), kEpsilon, mean_.data(), inverse_.data()));
  }
  void Learn() override {
    for (Parameter* parameter : {&scale_, &bias_}) {
      CHECK_CUDNN(cudnnAddTensor(handle, Factor(-kRate).get(), parameters_,
                                 parameter->velocity.data(), Factor(1).get(), parameters_,
                                 parameter->value.data()));
    }
  }

 private:
  Parameter scale_, bias_;
  Tensor running_mean_, running_variance_, mean_, inverse_;
  cudnnTensorDescriptor_t parameters_ = nullptr;
  int calls_ = 0;
};

// Works in place: sets negative elements of y to 0, and dy to 0 at the same positions.
class Relu : public Layer {
 public:
  explicit Relu(Values& y) : Layer(y, y) {
    CHECK_CUDNN(cudnnCreateActivationDescriptor(&activation_));
    CHECK_CUDNN(cudnnSetActivationDescriptor(activation_, CUDNN_ACTIVATION_RELU,
                                             CUDNN_NOT_PROPAGATE_NAN, 0));
  }
  ~Relu() override { cudnnDestroyActivationDescriptor(activation_); }
  void Forward() override {
    CHECK_CUDNN(cudnnActivationForward(handle, activation_, Factor(1).get(), y_.descriptor(),
                                       y_.data(), Factor(0).get(), y_.descriptor(), y_.data()));
  }
  void Backward() override {
    CHECK_CUDNN(cudnnActivationBackward(handle, activation_, Factor(1).get(), y_.descriptor(),
                                        y_.data(), dy_.descriptor(), dy_.data(), y_.descriptor(),
                                        y_.data(), Factor(0).get(), dy_.descriptor(), dy_.data()));
  }

 private:
  cudnnActivationDescriptor_t activation_ = nullptr;
};

// A pooling with a 2x2 window and stride 2.
class Pooling : public Layer {
 public:
  Pooling(cudnnPoolingMode_t mode, Values& x, Values& y) : Layer(x, y) {
    CHECK_CUDNN(cudnnCreatePoolingDescriptor(&pooling_));
    CHECK_CUDNN(
        cudnnSetPooling2dDescriptor(pooling_, mode, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
  }
  ~Pooling() override { cudnnDestroyPoolingDescriptor(pooling_); }
  void Forward() override {
    CHECK_CUDNN(cudnnPoolingForward(handle, pooling_, Factor(1).get(), x_.descriptor(), x_.data(),
                                    Factor(0).get(), y_.descriptor(), y_.data()));
  }
  void Backward() override {
    CHECK_CUDNN(cudnnPoolingBackward(handle, pooling_, Factor(1).get(), y_.descriptor(), y_.data(),
                                     dy_.descriptor(), dy_.data(), x_.descriptor(), x_.data(),
                                     Factor(0).get(), dx_.descriptor(), dx_.data()));
  }

 private:
  cudnnPoolingDescriptor_t pooling_ = nullptr;
};

// Each class has one pattern; an image is the pattern of its class plus noise.
class Images {
 public:
  Images() : patterns_(SmallNumbers(kClasses * Size(), 1, 1, 5)) {}

  // Makes a random batch. Fills `images`, and `truth` with a row for each image: 1 for its class, 0
  // for the others.
  void Next(std::vector<double>& images, std::vector<double>& truth) {
    images.clear();
    truth.assign(static_cast<size_t>(batch) * kClasses, 0);
    for (int i = 0; i < batch; ++i) {
      const int right = random_.Below(kClasses);
      truth[static_cast<size_t>(i) * kClasses + right] = 1;
      for (size_t at = 0; at < Size(); ++at) {
        images.push_back(patterns_[right * Size() + at] + random_.Below(3) - 1);
      }
    }
  }

 private:
  static size_t Size() { return size_t{kColours} * kImage * kImage; }
  std::vector<double> patterns_;
  Random random_{6};
};

void Train() {
  Values image(kColours, kImage), a(16, kImage), b(16, kImage), c(16, kImage / 2);
  Values d(24, kImage / 2), e(24, kImage / 4), scores(kClasses, 1);
  Tensor logs(batch, kClasses, 1, 1), truth(batch, kClasses, 1, 1);

  std::vector<std::unique_ptr<Layer>> layers;
  Values& hidden = normalize ? b : a;
  layers.push_back(std::make_unique<Convolution>(image, a, 5, 2, 1, true));
  if (normalize) layers.push_back(std::make_unique<Normalization>(a, b));
  layers.push_back(std::make_unique<Relu>(hidden));
  layers.push_back(std::make_unique<Pooling>(CUDNN_POOLING_MAX, hidden, c));
  layers.push_back(std::make_unique<Convolution>(c, d, 3, 1, 2));
  layers.push_back(std::make_unique<Bias>(d));
  layers.push_back(std::make_unique<Relu>(d));
  layers.push_back(std::make_unique<Pooling>(CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, d, e));
  layers.push_back(std::make_unique<Convolution>(e, scores, kImage / 4, 0, 3));
  layers.push_back(std::make_unique<Bias>(scores));

  Images images;
  std::vector<double> pixels, right;
  for (int step = 1; step <= steps; ++step) {
    images.Next(pixels, right);
    image.value.Upload(pixels);
    truth.Upload(right);
    for (auto& layer : layers) layer->Forward();
    CHECK_CUDNN(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL,
                                    Factor(1).get(), scores.value.descriptor(), scores.value.data(),
                                    Factor(0).get(), logs.descriptor(), logs.data()));
    // The loss is -sum(truth * logs) / batch, so its gradient with respect to `logs` is -truth /
    // batch.
    CHECK_CUDNN(cudnnSoftmaxBackward(handle, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL,
                                     Factor(-1.0 / batch).get(), logs.descriptor(), logs.data(),
                                     truth.descriptor(), truth.data(), Factor(0).get(),
                                     scores.gradient.descriptor(), scores.gradient.data()));
    for (size_t i = layers.size(); i-- > 0;) layers[i]->Backward();
    for (auto& layer : layers) layer->Learn();
    const std::vector<double> found = logs.Download();
    double loss = 0;
    for (size_t i = 0; i < found.size(); ++i) loss -= right[i] * found[i] / batch;
    std::printf("step %d loss %.17g\n", step, loss);
  }
}

bool ReadArguments(int argc, char** argv) {
  int at = 1;
  for (; at < argc; ++at) {
    const char* const word = argv[at];
    if (std::strcmp(word, "fp32") == 0) {
      type = CUDNN_DATA_FLOAT;
    } else if (std::strcmp(word, "fp64") == 0) {
      type = CUDNN_DATA_DOUBLE;
    } else if (std::strcmp(word, "nchw") == 0) {
      layout = CUDNN_TENSOR_NCHW;
    } else if (std::strcmp(word, "nhwc") == 0) {
      layout = CUDNN_TENSOR_NHWC;
    } else if (std::strcmp(word, "norm") == 0 || std::strcmp(word, "plain") == 0) {
      normalize = word[0] == 'n';
    } else {
      break;
    }
  }
  if (at < argc) batch = std::atoi(argv[at++]);
  if (at < argc) steps = std::atoi(argv[at++]);
  if (at < argc) workspace_bytes = std::strtoull(argv[at++], nullptr, 10) << 10;
  return at == argc && batch > 0 && steps > 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (!ReadArguments(argc, argv)) {
    std::fprintf(stderr,
                 "usage: train_cnn [fp32|fp64] [nchw|nhwc] [norm|plain] [BATCH [STEPS "
                 "[WORKSPACE_KIB]]]\n");
    return 2;
  }
  CHECK_CUDNN(cudnnCreate(&handle));
  if (workspace_bytes > 0) CHECK_CUDA(cudaMalloc(&workspace, workspace_bytes));
  Train();
  if (workspace != nullptr) CHECK_CUDA(cudaFree(workspace));
  CHECK_CUDNN(cudnnDestroy(handle));
  return 0;
}
