// Functions of <ucudnn/ucudnn.h> for images that are split over ranks.
#include <algorithm>
#include <string>

#include "api/process.h"
#include "api/refusal.h"
#include "convolution/axis_cut.h"
#include "interposer/spatial/row_exchange.h"
#include "options/options.h"
#include "ucudnn/ucudnn.h"

namespace ucudnn {
namespace {

// Calls say(splitter) and converts the Status that it returns; does nothing if no images are split.
template <typename Say>
cudnnStatus_t ToSplitter(const char* name, Say say) noexcept {
  return WithoutExceptions([&] {
    if (!FixedOptions().spatial.grid) return CUDNN_STATUS_SUCCESS;
    interposer::Interposer* const interposer = ProcessInterposer();
    if (interposer == nullptr) {
      return Refuse(CUDNN_STATUS_NOT_INITIALIZED,
                    std::string(name) + ": no real cuDNN 9 was found");
    }
    const Status said = say(interposer->splitter());
    if (said.ok()) return CUDNN_STATUS_SUCCESS;
    return Refuse(CUDNN_STATUS_NOT_SUPPORTED, std::string(name) + ": " + said.message());
  });
}

// Returns what is wrong with the arguments of ucudnnSpatialGetRows; empty if they are right.
std::string WrongIn(const ucudnnSpatialAxis_t* axis, int part, const ucudnnSpatialRows_t* rows) {
  if (axis == nullptr || axis->struct_size != sizeof *axis) {
    return "it takes an axis whose struct_size is " + std::to_string(sizeof *axis);
  }
  if (rows == nullptr || rows->struct_size != sizeof *rows) {
    return "it takes rows whose struct_size is " + std::to_string(sizeof *rows);
  }
  if (axis->operation < UCUDNN_FORWARD || axis->operation > UCUDNN_BACKWARD_FILTER) {
    return std::to_string(axis->operation) + " is no operation";
  }
  if (axis->filter < 1 || axis->stride < 1 || axis->dilation < 1 || axis->pad < 0) {
    return "filter, stride and dilation are at least 1, and pad at least 0";
  }
  if (axis->parts < 1 || axis->extents == nullptr || part < 0 || part >= axis->parts) {
    return "there is no part " + std::to_string(part) + " of " + std::to_string(axis->parts);
  }
  return "";
}

}  // namespace
}  // namespace ucudnn

extern "C" {

cudnnStatus_t ucudnnSpatialEnable(int enabled) {
  return ucudnn::ToSplitter("ucudnnSpatialEnable",
                            [&](auto& splitter) { return splitter.Enable(enabled != 0); });
}

cudnnStatus_t ucudnnSpatialEnableThread(int enabled) {
  return ucudnn::ToSplitter("ucudnnSpatialEnableThread", [&](auto& splitter) {
    splitter.EnableThread(enabled != 0);
    return ucudnn::Status::Ok();
  });
}

cudnnStatus_t ucudnnSpatialDeclareReplicated(int replicated) {
  return ucudnn::ToSplitter("ucudnnSpatialDeclareReplicated", [&](auto& splitter) {
    splitter.declared().is_replicated = replicated != 0;
    return ucudnn::Status::Ok();
  });
}

cudnnStatus_t ucudnnSpatialDeclareReplicatedTensor(cudnnTensorDescriptor_t tensor, int replicated) {
  const char* const name = "ucudnnSpatialDeclareReplicatedTensor";
  if (tensor == nullptr) {
    return ucudnn::WithoutExceptions([&] {
      return ucudnn::Refuse(CUDNN_STATUS_BAD_PARAM,
                            std::string(name) + ": the descriptor is a null pointer");
    });
  }
  return ucudnn::ToSplitter(name, [&](auto& splitter) {
    splitter.DeclareReplicated(tensor, replicated != 0);
    return ucudnn::Status::Ok();
  });
}

cudnnStatus_t ucudnnSpatialSetReduce(int sums) {
  return ucudnn::ToSplitter("ucudnnSpatialSetReduce",
                            [&](auto& splitter) { return splitter.SetReduce(sums != 0); });
}

cudnnStatus_t ucudnnSpatialSameGradient(void) {
  return ucudnn::ToSplitter("ucudnnSpatialSameGradient", [&](auto& splitter) {
    splitter.declared().pair = ucudnn::spatial::CallDeclarations::Pair::kFirst;
    return ucudnn::Status::Ok();
  });
}

cudnnStatus_t ucudnnSpatialDefer(int deferred) {
  return ucudnn::ToSplitter("ucudnnSpatialDefer", [&](auto& splitter) {
    splitter.declared().is_deferred = deferred != 0;
    return ucudnn::Status::Ok();
  });
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
    const ucudnn::interposer::Session* const session = interposer->sessions().Of(handle);
    if (session == nullptr) {
      return ucudnn::Refuse(CUDNN_STATUS_BAD_PARAM, name + "the handle is of no known device");
    }
    const ucudnn::Status awaited = interposer->splitter().Await(handle, *session);
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
        interposer->split_context(), {handle, xDesc, x, yDesc, y}, why);
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
    const ucudnn::Status joined = interposer->splitter().Join(handle, rank);
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
    int rank = spatial.rank;
    if (spatial.in_process) {
      auto* const interposer = ucudnn::ProcessInterposer();
      rank = interposer == nullptr ? -1 : interposer->splitter().ThisRank();
    }
    if (!spatial.grid || !spatial.refusal.empty() || rank < 0) {
      const char* const nobody = spatial.in_process
                                     ? "the calling thread has made no split call yet"
                                     : "this process is no rank";
      return ucudnn::Refuse(
          CUDNN_STATUS_NOT_SUPPORTED,
          "ucudnnSpatialGetCell: " + (spatial.refusal.empty() ? nobody : spatial.refusal));
    }
    const ucudnn::SpatialGrid& grid = *spatial.grid;
    const ucudnn::GridCell own = grid.CellOf(rank);
    *cell = {sizeof *cell, rank,  spatial.size, grid.n, grid.d, grid.h,
             grid.w,       own.n, own.d,        own.h,  own.w};
    return CUDNN_STATUS_SUCCESS;
  });
}

cudnnStatus_t ucudnnSpatialGetRows(const ucudnnSpatialAxis_t* axis, int part,
                                   ucudnnSpatialRows_t* rows) {
  return ucudnn::WithoutExceptions([&] {
    const std::string name = "ucudnnSpatialGetRows: ";
    const std::string wrong = ucudnn::WrongIn(axis, part, rows);
    if (!wrong.empty()) return ucudnn::Refuse(CUDNN_STATUS_BAD_PARAM, name + wrong);
    const ucudnn::SlidingWindow window = {axis->filter, axis->dilation, axis->stride, axis->pad};
    const auto cut = ucudnn::CutAxis(
        'h', window, {axis->extents, axis->extents + static_cast<size_t>(axis->parts)});
    if (!cut.ok()) return ucudnn::Refuse(CUDNN_STATUS_NOT_SUPPORTED, name + cut.message());
    const auto at = static_cast<size_t>(part);
    const ucudnn::Interval& own_x = cut->elements[at];
    const ucudnn::Interval& own_y = cut->windows[at];
    const bool is_forward = axis->operation == UCUDNN_FORWARD;
    const ucudnn::Interval& own = is_forward ? own_x : own_y;
    const ucudnn::Interval read =
        is_forward ? ucudnn::UnderWindows(window, own_y, cut->elements.back().end)
                   : ucudnn::WindowsOver(window, own_x, cut->windows.back().end);
    *rows = {sizeof *rows, own_x.begin, own_x.end, own_y.begin, own_y.end, own.begin, own.end};
    if (read.Length() > 0) {
      rows->needed_begin = std::min(own.begin, read.begin);
      rows->needed_end = std::max(own.end, read.end);
    }
    return CUDNN_STATUS_SUCCESS;
  });
}

}  // extern "C"
