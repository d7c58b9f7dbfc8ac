#include "caffe_layer.h"

namespace caffe {
namespace {

const float kZero = 0, kOne = 1;

}  // namespace

void ConvolutionLayer::LayerSetUp(int bottoms) {
  const int handles = shape_.group * kStreamsPerGroup;
  stream_ = new cudaStream_t[handles];
  handle_ = new Handle[handles];
  workspace_.assign(handles, nullptr);
  for (int g = 0; g < handles; ++g) {
    CHECK_CUDA(cudaStreamCreate(&stream_[g]));
    CHECK_CUDNN(cudnnCreate(&handle_[g]));
    CHECK_CUDNN(cudnnSetStream(handle_[g], stream_[g]));
  }
  CHECK_CUDNN(cudnnCreateFilterDescriptor(&filter_));
  CHECK_CUDNN(cudnnCreateTensorDescriptor(&bias_));
  inputs_.resize(bottoms);
  for (Input& input : inputs_) {
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&input.bottom));
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&input.top));
    CHECK_CUDNN(cudnnCreateConvolutionDescriptor(&input.convolution));
  }
  CHECK_CUDA(cudaMalloc(&sync_, 1));
}

void ConvolutionLayer::Reshape(const std::string& name, size_t limit_bytes) {
  const int channels = shape_.channels / shape_.group, outputs = shape_.outputs / shape_.group;
  const int area = shape_.height * shape_.width;
  const int out_area = shape_.OutHeight() * shape_.OutWidth();
  bottom_offset_ = size_t{1} * channels * area;
  top_offset_ = size_t{1} * outputs * out_area;
  weight_offset_ = shape_.WeightCount() / shape_.group;
  bias_offset_ = outputs;
  CHECK_CUDNN(cudnnSetFilter4dDescriptor(filter_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, outputs,
                                         channels, shape_.kernel, shape_.kernel));
  CHECK_CUDNN(
      cudnnSetTensor4dDescriptor(bias_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, outputs, 1, 1));
  for (Input& input : inputs_) {
    CHECK_CUDNN(cudnnSetTensor4dDescriptorEx(input.bottom, CUDNN_DATA_FLOAT, shape_.num, channels,
                                             shape_.height, shape_.width, shape_.channels * area,
                                             area, shape_.width, 1));
    CHECK_CUDNN(cudnnSetTensor4dDescriptorEx(
        input.top, CUDNN_DATA_FLOAT, shape_.num, outputs, shape_.OutHeight(), shape_.OutWidth(),
        shape_.outputs * out_area, out_area, shape_.OutWidth(), 1));
    CHECK_CUDNN(cudnnSetConvolution2dDescriptor(input.convolution, shape_.pad, shape_.pad, 1, 1, 1,
                                                1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
#ifdef CAFFE_WITH_UCUDNN
    CHECK_CUDNN(
        ucudnnSetLayerName(name.c_str(), input.bottom, filter_, input.convolution, input.top));
#endif
    ChooseAlgorithms(input, limit_bytes);
    workspace_bytes_ = std::max({workspace_bytes_, input.forward_bytes, input.backward_filter_bytes,
                                 input.backward_data_bytes});
  }
  (void)name;
  if (workspace_bytes_ == 0) return;
  CHECK_CUDA(
      cudaMalloc(reinterpret_cast<void**>(&workspace_data_), workspace_bytes_ * workspace_.size()));
  for (size_t g = 0; g < workspace_.size(); ++g) {
    workspace_[g] = workspace_data_ + g * workspace_bytes_;
  }
}

void ConvolutionLayer::ChooseAlgorithms(Input& input, size_t limit_bytes) {
  const bool fastest = limit_bytes == 0;
  CHECK_CUDNN(cudnnGetConvolutionForwardAlgorithm(
      handle_[0], input.bottom, filter_, input.convolution, input.top,
      fastest ? CUDNN_CONVOLUTION_FWD_PREFER_FASTEST
              : CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT,
      limit_bytes, &input.forward));
  CHECK_CUDNN(cudnnGetConvolutionForwardWorkspaceSize(handle_[0], input.bottom, filter_,
                                                      input.convolution, input.top, input.forward,
                                                      &input.forward_bytes));
  CHECK_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm(
      handle_[0], input.bottom, input.top, input.convolution, filter_,
      fastest ? CUDNN_CONVOLUTION_BWD_FILTER_PREFER_FASTEST
              : CUDNN_CONVOLUTION_BWD_FILTER_SPECIFY_WORKSPACE_LIMIT,
      limit_bytes, &input.backward_filter));
  CHECK_CUDNN(cudnnGetConvolutionBackwardFilterWorkspaceSize(
      handle_[0], input.bottom, input.top, input.convolution, filter_, input.backward_filter,
      &input.backward_filter_bytes));
  CHECK_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm(
      handle_[0], filter_, input.top, input.convolution, input.bottom,
      fastest ? CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST
              : CUDNN_CONVOLUTION_BWD_DATA_SPECIFY_WORKSPACE_LIMIT,
      limit_bytes, &input.backward_data));
  CHECK_CUDNN(cudnnGetConvolutionBackwardDataWorkspaceSize(
      handle_[0], filter_, input.top, input.convolution, input.bottom, input.backward_data,
      &input.backward_data_bytes));
}

void ConvolutionLayer::Forward(const std::vector<float*>& bottom, const float* weight,
                               const float* bias, const std::vector<float*>& top) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    for (int g = 0; g < shape_.group; ++g) {
      CHECK_CUDNN(cudnnConvolutionForward(
          handle_[g], &kOne, input.bottom, bottom[i] + bottom_offset_ * g, filter_,
          weight + weight_offset_ * g, input.convolution, input.forward, workspace_[g],
          input.forward_bytes, &kZero, input.top, top[i] + top_offset_ * g));
      CHECK_CUDNN(cudnnAddTensor(handle_[g], &kOne, bias_, bias + bias_offset_ * g, &kOne,
                                 input.top, top[i] + top_offset_ * g));
    }
    SyncGroups();
  }
}

void ConvolutionLayer::Backward(const std::vector<float*>& top_diff,
                                const std::vector<float*>& bottom, const float* weight,
                                float* weight_diff, float* bias_diff,
                                const std::vector<float*>& bottom_diff) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    for (int g = 0; g < shape_.group; ++g) {
      const int bias_at = 0 * shape_.group + g;
      const int filter_at = 1 * shape_.group + g;
      const int data_at = 2 * shape_.group + g;
      CHECK_CUDNN(cudnnConvolutionBackwardBias(handle_[bias_at], &kOne, input.top,
                                               top_diff[i] + top_offset_ * g, &kOne, bias_,
                                               bias_diff + bias_offset_ * g));
      CHECK_CUDNN(cudnnConvolutionBackwardFilter(
          handle_[filter_at], &kOne, input.bottom, bottom[i] + bottom_offset_ * g, input.top,
          top_diff[i] + top_offset_ * g, input.convolution, input.backward_filter,
          workspace_[filter_at], input.backward_filter_bytes, &kOne, filter_,
          weight_diff + weight_offset_ * g));
      CHECK_CUDNN(cudnnConvolutionBackwardData(
          handle_[data_at], &kOne, filter_, weight + weight_offset_ * g, input.top,
          top_diff[i] + top_offset_ * g, input.convolution, input.backward_data,
          workspace_[data_at], input.backward_data_bytes, &kZero, input.bottom,
          bottom_diff[i] + bottom_offset_ * g));
    }
    SyncGroups();
  }
}

std::string ConvolutionLayer::PlanOf(int operation) const {
  std::string text;
#ifdef CAFFE_WITH_UCUDNN
  ucudnnMicroBatches_t batches[16] = {};
  batches[0].struct_size = sizeof batches[0];
  int kinds = 0;
  const Input& input = inputs_[0];
  CHECK_CUDNN(ucudnnGetPlan(static_cast<ucudnnOperation_t>(operation), input.bottom, filter_,
                            input.convolution, input.top, 16, &kinds, batches));
  for (int i = 0; i < std::min(kinds, 16); ++i) {
    text += (i > 0 ? " + " : "") + std::to_string(batches[i].micro_batch) + "x" +
            std::to_string(batches[i].count) + " " + batches[i].engine;
  }
#endif
  (void)operation;
  return text;
}

ConvolutionLayer::~ConvolutionLayer() {
  for (Input& input : inputs_) {
    cudnnDestroyTensorDescriptor(input.bottom);
    cudnnDestroyTensorDescriptor(input.top);
    cudnnDestroyConvolutionDescriptor(input.convolution);
  }
  cudnnDestroyTensorDescriptor(bias_);
  cudnnDestroyFilterDescriptor(filter_);
  for (int g = 0; g < shape_.group * kStreamsPerGroup; ++g) {
    cudaStreamSynchronize(stream_[g]);
    cudaStreamDestroy(stream_[g]);
    cudnnDestroy(handle_[g]);
  }
  cudaFree(workspace_data_);
  cudaFree(sync_);
  delete[] stream_;
  delete[] handle_;
}

}  // namespace caffe
