// What a program says and reads of images that are split over ranks.
#include <string>

#include "api/process.h"
#include "api/refusal.h"
#include "base/options.h"
#include "interposer/spatial/row_exchange.h"
#include "ucudnn/ucudnn.h"

namespace ucudnn {
namespace {

// `say` to the process's splitter; nobody listens where nothing is split.
template <typename Say>
cudnnStatus_t ToSplitter(Say say) noexcept {
  return WithoutExceptions([&] {
    if (!FixedOptions().spatial.grid) return CUDNN_STATUS_SUCCESS;
    interposer::Interposer* const interposer = ProcessInterposer();
    if (interposer == nullptr) {
      return Refuse(CUDNN_STATUS_NOT_INITIALIZED, "no real cuDNN 9 was found");
    }
    say(interposer->process().splitter);
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // namespace
}  // namespace ucudnn

extern "C" {

cudnnStatus_t ucudnnSpatialEnable(int enabled) {
  return ucudnn::ToSplitter([&](auto& splitter) { splitter.Enable(enabled != 0); });
}

cudnnStatus_t ucudnnSpatialDeclareReplicated(int replicated) {
  return ucudnn::ToSplitter(
      [&](auto& splitter) { splitter.declared().is_replicated = replicated != 0; });
}

cudnnStatus_t ucudnnSpatialSameGradient(void) {
  return ucudnn::ToSplitter(
      [&](auto& splitter) { splitter.declared().pair = ucudnn::spatial::Declared::Pair::kFirst; });
}

cudnnStatus_t ucudnnSpatialDefer(int deferred) {
  return ucudnn::ToSplitter(
      [&](auto& splitter) { splitter.declared().is_deferred = deferred != 0; });
}

cudnnStatus_t ucudnnSpatialAwait(cudnnHandle_t handle) {
  return ucudnn::WithoutExceptions([&] {
    const std::string name = "ucudnnSpatialAwait: ";
    if (handle == nullptr) {
      return ucudnn::Refuse(CUDNN_STATUS_BAD_PARAM, name + "the handle is a null pointer");
    }
    if (!ucudnn::FixedOptions().spatial.grid) return CUDNN_STATUS_SUCCESS;
    auto* const interposer = ucudnn::ProcessInterposer();
    if (interposer == nullptr) {
      return ucudnn::Refuse(CUDNN_STATUS_NOT_INITIALIZED, name + "no real cuDNN 9 was found");
    }
    auto& process = interposer->process();
    const ucudnn::interposer::Session* const session = process.sessions.Of(handle);
    if (session == nullptr) {
      return ucudnn::Refuse(CUDNN_STATUS_BAD_PARAM, name + "the handle is of no known device");
    }
    if (process.sessions.Capturing(*session)) {
      return ucudnn::Refuse(CUDNN_STATUS_NOT_SUPPORTED, name + "the handle's stream is captured");
    }
    const ucudnn::Status awaited = process.splitter.Await(handle, *session);
    if (awaited.ok()) return CUDNN_STATUS_SUCCESS;
    return ucudnn::Refuse(CUDNN_STATUS_EXECUTION_FAILED, name + awaited.message());
  });
}

cudnnStatus_t ucudnnSpatialExchange(cudnnHandle_t handle, cudnnTensorDescriptor_t xDesc,
                                    const void* x, cudnnTensorDescriptor_t yDesc, void* y) {
  return ucudnn::WithoutExceptions([&] {
    const std::string name = "ucudnnSpatialExchange: ";
    if (handle == nullptr || xDesc == nullptr || x == nullptr || yDesc == nullptr || y == nullptr) {
      return ucudnn::Refuse(CUDNN_STATUS_BAD_PARAM, name + "an argument is a null pointer");
    }
    auto* const interposer = ucudnn::ProcessInterposer();
    if (interposer == nullptr) {
      return ucudnn::Refuse(CUDNN_STATUS_NOT_INITIALIZED, name + "no real cuDNN 9 was found");
    }
    std::string why;
    const cudnnStatus_t status = ucudnn::interposer::RunRowExchange(
        interposer->process(), {handle, xDesc, x, yDesc, y}, why);
    return why.empty() ? status : ucudnn::Refuse(status, name + why);
  });
}

cudnnStatus_t ucudnnSpatialJoin(cudnnHandle_t handle, int rank) {
  return ucudnn::WithoutExceptions([&] {
    const std::string name = "ucudnnSpatialJoin: ";
    if (handle == nullptr) {
      return ucudnn::Refuse(CUDNN_STATUS_BAD_PARAM, name + "the handle is a null pointer");
    }
    const ucudnn::SpatialOptions& spatial = ucudnn::FixedOptions().spatial;
    auto* const interposer = ucudnn::ProcessInterposer();
    if (!spatial.grid || !spatial.refusal.empty() || interposer == nullptr) {
      return ucudnn::Refuse(
          CUDNN_STATUS_NOT_SUPPORTED,
          name + (spatial.refusal.empty() ? "nothing is split" : spatial.refusal));
    }
    const ucudnn::Status joined = interposer->process().splitter.Join(handle, rank);
    if (joined.ok()) return CUDNN_STATUS_SUCCESS;
    return ucudnn::Refuse(CUDNN_STATUS_NOT_SUPPORTED, name + joined.message());
  });
}

cudnnStatus_t ucudnnSpatialGetCell(ucudnnSpatialCell_t* cell) {
  return ucudnn::WithoutExceptions([&] {
    if (cell == nullptr || cell->struct_size != sizeof *cell) {
      return ucudnn::Refuse(CUDNN_STATUS_BAD_PARAM,
                            "ucudnnSpatialGetCell: it takes a struct whose struct_size is " +
                                std::to_string(sizeof *cell));
    }
    const ucudnn::SpatialOptions& spatial = ucudnn::FixedOptions().spatial;
    if (!spatial.grid || !spatial.refusal.empty() || spatial.rank < 0) {
      return ucudnn::Refuse(
          CUDNN_STATUS_NOT_SUPPORTED,
          "ucudnnSpatialGetCell: " +
              (spatial.refusal.empty() ? "this process is no rank" : spatial.refusal));
    }
    const ucudnn::SpatialGrid& grid = *spatial.grid;
    const ucudnn::GridCell own = grid.CellOf(spatial.rank);
    *cell = {sizeof *cell, spatial.rank, spatial.size, grid.n, grid.d, grid.h,
             grid.w,       own.n,        own.d,        own.h,  own.w};
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // extern "C"
