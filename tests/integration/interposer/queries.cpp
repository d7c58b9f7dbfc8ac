#include "queries.h"

namespace ucudnn::test {
namespace {

template <typename Performance, typename Call>
Answer Collect(int requested, Call call) {
  Answer answer;
  std::vector<Performance> results(requested > 0 ? requested : 1);
  int returned = 0;
  answer.status = call(&returned, results.data());
  if (answer.status != CUDNN_STATUS_SUCCESS) return answer;
  for (int i = 0; i < returned; ++i) {
    answer.algorithms.push_back(cudnn::FromPerformance(results[i]));
  }
  return answer;
}

}  // namespace

const cudnn::AlgorithmPerformance* Answer::FirstUpTo(int last) const {
  for (const cudnn::AlgorithmPerformance& told : algorithms) {
    if (told.status == CUDNN_STATUS_SUCCESS && told.algorithm <= last) return &told;
  }
  return nullptr;
}

Answer Ask(const cudnn::Functions& library, Question question, Convolution& convolution,
           int requested, void* workspace, size_t workspace_bytes) {
  const cudnn::Descriptors& d = convolution.descriptors();
  const cudnnHandle_t handle = convolution.handle();
  void* const x = convolution.x.memory.data();
  void* const w = convolution.w.memory.data();
  void* const y = convolution.y.memory.data();
  const auto ask = [&](auto get, auto find, auto find_ex, auto a, auto a_data, auto b, auto b_data,
                       auto c, auto c_data, int* returned, auto* results) {
    switch (question) {
      case Question::kGet:
        return get(handle, a, b, d.convolution, c, requested, returned, results);
      case Question::kFind:
        return find(handle, a, b, d.convolution, c, requested, returned, results);
      case Question::kFindEx:
        break;
    }
    return find_ex(handle, a, a_data, b, b_data, d.convolution, c, c_data, requested, returned,
                   results, workspace, workspace_bytes);
  };
  switch (convolution.problem().operation) {
    case Operation::kForward:
      return Collect<cudnnConvolutionFwdAlgoPerf_t>(requested, [&](int* returned, auto* results) {
        return ask(library.cudnnGetConvolutionForwardAlgorithm_v7,
                   library.cudnnFindConvolutionForwardAlgorithm,
                   library.cudnnFindConvolutionForwardAlgorithmEx, d.x, x, d.w, w, d.y, y, returned,
                   results);
      });
    case Operation::kBackwardData:
      return Collect<cudnnConvolutionBwdDataAlgoPerf_t>(
          requested, [&](int* returned, auto* results) {
            return ask(library.cudnnGetConvolutionBackwardDataAlgorithm_v7,
                       library.cudnnFindConvolutionBackwardDataAlgorithm,
                       library.cudnnFindConvolutionBackwardDataAlgorithmEx, d.w, w, d.y, y, d.x, x,
                       returned, results);
          });
    case Operation::kBackwardFilter:
      break;
  }
  return Collect<cudnnConvolutionBwdFilterAlgoPerf_t>(requested, [&](int* returned, auto* results) {
    return ask(library.cudnnGetConvolutionBackwardFilterAlgorithm_v7,
               library.cudnnFindConvolutionBackwardFilterAlgorithm,
               library.cudnnFindConvolutionBackwardFilterAlgorithmEx, d.x, x, d.y, y, d.w, w,
               returned, results);
  });
}

}  // namespace ucudnn::test
