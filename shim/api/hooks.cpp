#include "api/hooks.h"

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <vector>

#include "api/process.h"
#include "api/split_hooks.h"
#include "api/split_refusals.h"
#include "base/log.h"
#include "cudnn/descriptors.h"
#include "options/options.h"

// The hooks of cuDNN's handles, convolutions and graph API. They call src/interposer; hooks of
// convolutions first convert their arguments to ConvolutionCall and Descriptors. No hook lets an
// exception pass. If memory runs out, a hook calls the real function, except in two cases: the call
// is split, or the real function could use more workspace than ucudnn promised.

namespace ucudnn {
namespace {

using cudnn::AlgorithmPerformance;
using cudnn::ConvolutionCall;
using cudnn::Descriptors;
using interposer::GraphPlans;
using interposer::Interposer;
using interposer::Sessions;

Interposer& Ucudnn() { return *ProcessInterposer(); }
const cudnn::Functions& Real() { return Ucudnn().functions(); }

// Removes const: cuDNN's inputs are const pointers, but all pointers of ConvolutionCall are
// non-const.
void* Mutable(const void* pointer) { return const_cast<void*>(pointer); }

// A hook that calls `method` of the interposer's `part`. If `method` runs out of memory, the hook
// calls or returns `otherwise`: usually the real function. Where the real function could use or
// report more workspace than was promised, `otherwise` is another method of the part, or an error
// status.
template <auto part, auto method, auto otherwise, typename Signature>
struct EntryPoint;
template <auto part, auto method, auto otherwise, typename... Arguments>
struct EntryPoint<part, method, otherwise, cudnnStatus_t(Arguments...)> {
  static cudnnStatus_t Call(Arguments... arguments) {
    return Guarded([&] { return ((Ucudnn().*part)().*method)(arguments...); },
                   [&] {
                     if constexpr (std::is_enum_v<decltype(otherwise)>) {
                       return otherwise;
                     } else if constexpr (std::is_member_function_pointer_v<decltype(otherwise)>) {
                       return ((Ucudnn().*part)().*otherwise)(arguments...);
                     } else {
                       return (Real().*otherwise)(arguments...);
                     }
                   });
  }
};

cudnnStatus_t GuardedConvolve(const ConvolutionCall& call) {
  return Guarded([&] { return Ucudnn().legacy().Convolve(call); },
                 [&] {
                   interposer::Splitter& splitter = Ucudnn().splitter();
                   if (splitter.splits()) return splitter.Fail("out of memory in a split call");
                   return cudnn::Convolve(Real(), call);
                 });
}

// Returns whether the caller's arguments can receive results. If they cannot, the hook forwards the
// call, and the real library returns the error.
bool MayDeliver(int requested, const int* returned, const void* results) {
  return requested > 0 && returned != nullptr && results != nullptr;
}

// Writes `answer` into cuDNN's result arrays and returns the status. Returns none if there is no
// `answer`; the caller then forwards the call to the real library. An empty list means that no
// algorithm meets the user's options.
template <typename Performance>
std::optional<cudnnStatus_t> Deliver(const std::optional<std::vector<AlgorithmPerformance>>& answer,
                                     int requested, int* returned, Performance* results) {
  if (!answer) return std::nullopt;
  const int count = std::min(requested, static_cast<int>(answer->size()));
  for (int i = 0; i < count; ++i) {
    results[i] = cudnn::ToPerformance<Performance>((*answer)[i]);
  }
  *returned = count;
  return count > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t Forward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                      const void* x, cudnnFilterDescriptor_t w_desc, const void* w,
                      cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
                      void* workspace, size_t workspace_bytes, const void* beta,
                      cudnnTensorDescriptor_t y_desc, void* y) {
  return GuardedConvolve({Operation::kForward,
                          handle,
                          {x_desc, w_desc, y_desc, convolution},
                          alpha,
                          beta,
                          Mutable(x),
                          Mutable(w),
                          y,
                          algorithm,
                          workspace,
                          workspace_bytes});
}

cudnnStatus_t BiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, cudnnTensorDescriptor_t x_desc, const void* x,
    cudnnFilterDescriptor_t w_desc, const void* w, cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes,
    const void* alpha2, cudnnTensorDescriptor_t z_desc, const void* z,
    cudnnTensorDescriptor_t bias_desc, const void* bias, cudnnActivationDescriptor_t activation,
    cudnnTensorDescriptor_t y_desc, void* y) {
  const cudnn::BiasActivation extra{alpha2, z_desc, z, bias_desc, bias, activation};
  return GuardedConvolve({Operation::kForward,
                          handle,
                          {x_desc, w_desc, y_desc, convolution},
                          alpha1,
                          nullptr,
                          Mutable(x),
                          Mutable(w),
                          y,
                          algorithm,
                          workspace,
                          workspace_bytes,
                          &extra});
}

cudnnStatus_t BackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_desc,
                           const void* w, cudnnTensorDescriptor_t dy_desc, const void* dy,
                           cudnnConvolutionDescriptor_t convolution,
                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                           size_t workspace_bytes, const void* beta,
                           cudnnTensorDescriptor_t dx_desc, void* dx) {
  return GuardedConvolve({Operation::kBackwardData,
                          handle,
                          {dx_desc, w_desc, dy_desc, convolution},
                          alpha,
                          beta,
                          dx,
                          Mutable(w),
                          Mutable(dy),
                          algorithm,
                          workspace,
                          workspace_bytes});
}

cudnnStatus_t BackwardFilter(cudnnHandle_t handle, const void* alpha,
                             cudnnTensorDescriptor_t x_desc, const void* x,
                             cudnnTensorDescriptor_t dy_desc, const void* dy,
                             cudnnConvolutionDescriptor_t convolution,
                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                             size_t workspace_bytes, const void* beta,
                             cudnnFilterDescriptor_t dw_desc, void* dw) {
  return GuardedConvolve({Operation::kBackwardFilter,
                          handle,
                          {x_desc, dw_desc, dy_desc, convolution},
                          alpha,
                          beta,
                          Mutable(x),
                          dw,
                          Mutable(dy),
                          algorithm,
                          workspace,
                          workspace_bytes});
}

// The three operations pass the same four kinds of descriptors in different orders. Each Order's
// Sort returns them as Descriptors.
struct ForwardOrder {
  static constexpr Operation kOperation = Operation::kForward;
  static Descriptors Sort(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                          cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y) {
    return {x, w, y, convolution};
  }
};
struct BackwardDataOrder {
  static constexpr Operation kOperation = Operation::kBackwardData;
  static Descriptors Sort(cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
                          cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t dx) {
    return {dx, w, dy, convolution};
  }
};
struct BackwardFilterOrder {
  static constexpr Operation kOperation = Operation::kBackwardFilter;
  static Descriptors Sort(cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
                          cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t dw) {
    return {x, dw, dy, convolution};
  }
};

// Hook of cudnnGetConvolution*WorkspaceSize(handle, four descriptors, algorithm, bytes).
template <typename Order, auto real, typename Signature>
struct WorkspaceSizeHook;
template <typename Order, auto real, typename A, typename B, typename C, typename D,
          typename Algorithm>
struct WorkspaceSizeHook<Order, real,
                         cudnnStatus_t(cudnnHandle_t, A, B, C, D, Algorithm, size_t*)> {
  static cudnnStatus_t Call(cudnnHandle_t handle, A a, B b, C c, D d, Algorithm algorithm,
                            size_t* bytes) {
    const auto forward = [&] { return (Real().*real)(handle, a, b, c, d, algorithm, bytes); };
    if (bytes == nullptr) return forward();
    return Guarded(
        [&] {
          return Ucudnn().legacy().WorkspaceSize(Order::kOperation, handle, Order::Sort(a, b, c, d),
                                                 algorithm, bytes);
        },
        forward);
  }
};

// Hook of cudnnGetConvolution*Algorithm_v7 (is_find = false) and cudnnFindConvolution*Algorithm
// (is_find = true). Both take (handle, four descriptors, requested, returned, results).
template <typename Order, auto real, bool is_find, typename Signature>
struct ListHook;
template <typename Order, auto real, bool is_find, typename A, typename B, typename C, typename D,
          typename Performance>
struct ListHook<Order, real, is_find,
                cudnnStatus_t(cudnnHandle_t, A, B, C, D, int, int*, Performance*)> {
  static cudnnStatus_t Call(cudnnHandle_t handle, A a, B b, C c, D d, int requested, int* returned,
                            Performance* results) {
    const auto forward = [&] {
      return (Real().*real)(handle, a, b, c, d, requested, returned, results);
    };
    if (!MayDeliver(requested, returned, results)) return forward();
    return Guarded(
        [&] {
          const Descriptors descriptors = Order::Sort(a, b, c, d);
          const auto answer =
              is_find ? Ucudnn().legacy().FindAlgorithms(Order::kOperation, handle, descriptors, {})
                      : Ucudnn().legacy().GetAlgorithms(Order::kOperation, handle, descriptors);
          const auto delivered = Deliver(answer, requested, returned, results);
          return delivered ? *delivered : forward();
        },
        forward);
  }
};

// Hook of cudnnFindConvolution*AlgorithmEx. Each tensor's or filter's descriptor is followed by its
// pointer; the last pointer is the output's.
template <typename Order, auto real, typename Signature>
struct FindExHook;
template <typename Order, auto real, typename A, typename B, typename C, typename D,
          typename Performance>
struct FindExHook<Order, real,
                  cudnnStatus_t(cudnnHandle_t, A, const void*, B, const void*, C, D, void*, int,
                                int*, Performance*, void*, size_t)> {
  static cudnnStatus_t Call(cudnnHandle_t handle, A a, const void* a_data, B b, const void* b_data,
                            C c, D d, void* d_data, int requested, int* returned,
                            Performance* results, void* workspace, size_t workspace_bytes) {
    const auto forward = [&] {
      return (Real().*real)(handle, a, a_data, b, b_data, c, d, d_data, requested, returned,
                            results, workspace, workspace_bytes);
    };
    if (a_data == nullptr || b_data == nullptr || d_data == nullptr) return forward();
    if (!MayDeliver(requested, returned, results)) return forward();
    // Not every algorithm accepts unaligned pointers, and only the real library knows which
    // algorithms do.
    const bool aligned = cudnn::IsAligned(a_data) && cudnn::IsAligned(b_data) &&
                         cudnn::IsAligned(d_data) && cudnn::IsAligned(workspace);
    if (!aligned) return forward();
    return Guarded(
        [&] {
          const auto answer =
              Ucudnn().legacy().FindAlgorithms(Order::kOperation, handle, Order::Sort(a, b, c, d),
                                               workspace == nullptr ? 0 : workspace_bytes);
          const auto delivered = Deliver(answer, requested, returned, results);
          return delivered ? *delivered : forward();
        },
        forward);
  }
};

// The program may have declared this descriptor replicated. The declaration ends here, because a
// new descriptor may get the same address.
cudnnStatus_t DestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  Ucudnn().splitter().DeclareReplicated(tensor, false);
  return Real().cudnnDestroyTensorDescriptor(tensor);
}

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

// Defines a hook; the static_cast makes the compiler compare its type with the real function's.
#define UCUDNN_HOOK(name, function) \
  Hook { #name, Address(static_cast <decltype(&::name)>(function)) }
#define UCUDNN_ENTRY(name, part, method, otherwise) \
  UCUDNN_HOOK(name, (EntryPoint<part, method, otherwise, decltype(::name)>::Call))
#define UCUDNN_SESSION_HOOK(name, method) \
  UCUDNN_ENTRY(name, &Interposer::sessions, &Sessions::method, &cudnn::Functions::name)
#define UCUDNN_GRAPH_HOOK(name, method) \
  UCUDNN_ENTRY(name, &Interposer::graph, &GraphPlans::method, &cudnn::Functions::name)
// Defines a hook whose fallback is not the real function, because the real function might use or
// report more workspace than was promised.
#define UCUDNN_PROMISED_HOOK(name, method, otherwise) \
  UCUDNN_ENTRY(name, &Interposer::graph, &GraphPlans::method, otherwise)
#define UCUDNN_WORKSPACE_HOOK(name, order) \
  UCUDNN_HOOK(name, (WorkspaceSizeHook<order, &cudnn::Functions::name, decltype(::name)>::Call))
#define UCUDNN_LIST_HOOK(name, order, is_find) \
  UCUDNN_HOOK(name, (ListHook<order, &cudnn::Functions::name, is_find, decltype(::name)>::Call))
#define UCUDNN_FIND_EX_HOOK(name, order) \
  UCUDNN_HOOK(name, (FindExHook<order, &cudnn::Functions::name, decltype(::name)>::Call))

// Without an interposer no call can be split. A call that ran on this rank's stripe alone would
// give wrong results, so it is refused.
cudnnStatus_t NotSplit() {
  WarnOnce("not split",
           "convolutions should be split over ranks, but ucudnn cannot serve this cuDNN: "
           "they are refused");
  return CUDNN_STATUS_NOT_SUPPORTED;
}

std::span<const Hook> RefusalsWithoutInterposer() {
  const SpatialOptions& spatial = FixedOptions().spatial;
  if (!spatial.grid && spatial.refusal.empty()) return {};
  static const std::vector<Hook> refusals = [] {
    // By the x86-64 ABI the caller removes the arguments from the stack. So one function without
    // parameters can replace functions with any parameters.
    std::vector<Hook> all = {{"cudnnConvolutionForward", Address(NotSplit)},
                             {"cudnnConvolutionBiasActivationForward", Address(NotSplit)},
                             {"cudnnConvolutionBackwardData", Address(NotSplit)},
                             {"cudnnConvolutionBackwardFilter", Address(NotSplit)},
                             {"cudnnBackendExecute", Address(NotSplit)},
                             {"cudnnBackendPopulateCudaGraph", Address(NotSplit)},
                             {"cudnnBackendUpdateCudaGraph", Address(NotSplit)}};
    for (const std::span<const Hook> hooks : {SplitHooks(), SplitRefusals()}) {
      for (const Hook& hook : hooks) all.push_back({hook.name, Address(NotSplit)});
    }
    return all;
  }();
  return refusals;
}

}  // namespace

void WarnOutOfMemory() {
  WarnOnce("exception", Ucudnn().splitter().splits()
                            ? "out of memory inside ucudnn: split calls fail"
                            : "out of memory inside ucudnn: calls run as the caller asked");
}

std::span<const Hook> Hooks() {
  if (ProcessInterposer() == nullptr) return RefusalsWithoutInterposer();
  // In a split process the convolutions must not reach the real library unsplit, even with
  // UCUDNN_MODE=off.
  const bool split = Ucudnn().splitter().active();
  if (FixedOptions().mode == Mode::kOff && !split) return {};
  static const std::array legacy = {
      UCUDNN_SESSION_HOOK(cudnnCreate, Create),
      UCUDNN_SESSION_HOOK(cudnnDestroy, Destroy),
      UCUDNN_SESSION_HOOK(cudnnSetStream, SetStream),
      UCUDNN_HOOK(cudnnConvolutionForward, Forward),
      UCUDNN_HOOK(cudnnConvolutionBiasActivationForward, BiasActivationForward),
      UCUDNN_HOOK(cudnnConvolutionBackwardData, BackwardData),
      UCUDNN_HOOK(cudnnConvolutionBackwardFilter, BackwardFilter),
      UCUDNN_WORKSPACE_HOOK(cudnnGetConvolutionForwardWorkspaceSize, ForwardOrder),
      UCUDNN_WORKSPACE_HOOK(cudnnGetConvolutionBackwardDataWorkspaceSize, BackwardDataOrder),
      UCUDNN_WORKSPACE_HOOK(cudnnGetConvolutionBackwardFilterWorkspaceSize, BackwardFilterOrder),
      UCUDNN_LIST_HOOK(cudnnGetConvolutionForwardAlgorithm_v7, ForwardOrder, false),
      UCUDNN_LIST_HOOK(cudnnGetConvolutionBackwardDataAlgorithm_v7, BackwardDataOrder, false),
      UCUDNN_LIST_HOOK(cudnnGetConvolutionBackwardFilterAlgorithm_v7, BackwardFilterOrder, false),
      UCUDNN_LIST_HOOK(cudnnFindConvolutionForwardAlgorithm, ForwardOrder, true),
      UCUDNN_LIST_HOOK(cudnnFindConvolutionBackwardDataAlgorithm, BackwardDataOrder, true),
      UCUDNN_LIST_HOOK(cudnnFindConvolutionBackwardFilterAlgorithm, BackwardFilterOrder, true),
      UCUDNN_FIND_EX_HOOK(cudnnFindConvolutionForwardAlgorithmEx, ForwardOrder),
      UCUDNN_FIND_EX_HOOK(cudnnFindConvolutionBackwardDataAlgorithmEx, BackwardDataOrder),
      UCUDNN_FIND_EX_HOOK(cudnnFindConvolutionBackwardFilterAlgorithmEx, BackwardFilterOrder),
  };
  // These functions are missing from some real libraries. A function is hooked only if the real
  // library has it.
  static const std::array graph = {
      UCUDNN_GRAPH_HOOK(cudnnBackendCreateDescriptor, Create),
      UCUDNN_GRAPH_HOOK(cudnnBackendDestroyDescriptor, Destroy),
      UCUDNN_GRAPH_HOOK(cudnnBackendInitialize, Initialize),
      UCUDNN_GRAPH_HOOK(cudnnBackendSetAttribute, Set),
      UCUDNN_PROMISED_HOOK(cudnnBackendGetAttribute, Get, CUDNN_STATUS_ALLOC_FAILED),
      UCUDNN_GRAPH_HOOK(cudnnBackendFinalize, Finalize),
      UCUDNN_PROMISED_HOOK(cudnnBackendExecute, Execute, &GraphPlans::ExecuteUndivided),
      UCUDNN_PROMISED_HOOK(cudnnBackendPopulateCudaGraph, PopulateCudaGraph,
                           &GraphPlans::PopulateUndivided),
      UCUDNN_PROMISED_HOOK(cudnnBackendUpdateCudaGraph, UpdateCudaGraph, CUDNN_STATUS_ALLOC_FAILED),
      UCUDNN_PROMISED_HOOK(cudnnGetExecutionPlanWorkspaceSize, WorkspaceSize,
                           CUDNN_STATUS_ALLOC_FAILED),
  };
#define UCUDNN_ONE(name) +1
  static_assert(std::size(graph) == 0 UCUDNN_CUDNN_GRAPH_FUNCTIONS(UCUDNN_ONE)
                                        UCUDNN_CUDNN_NEWER_FUNCTIONS(UCUDNN_ONE));
#undef UCUDNN_ONE
  const bool graphs =
      Real().HasGraphApi() && (FixedOptions().engines != EngineSet::kLegacy || split);
  static const std::vector<Hook> hooks = [&] {
    std::vector<Hook> joined(legacy.begin(), legacy.end());
    if (graphs) joined.insert(joined.end(), graph.begin(), graph.end());
    if (split) {
      joined.insert(joined.end(), SplitHooks().begin(), SplitHooks().end());
      joined.push_back(UCUDNN_HOOK(cudnnDestroyTensorDescriptor, DestroyTensorDescriptor));
    }
    if (split) joined.insert(joined.end(), SplitRefusals().begin(), SplitRefusals().end());
    return joined;
  }();
  return hooks;
}

}  // namespace ucudnn
