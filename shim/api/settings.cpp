// Functions of <ucudnn/ucudnn.h> by which a program sets options instead of environment variables,
// declares an order of handles or the end of an iteration, and asks for ucudnn's version.
#include <initializer_list>
#include <string>

#include "api/process.h"
#include "api/refusal.h"
#include "base/version.h"
#include "options/options.h"
#include "ucudnn/ucudnn.h"

namespace ucudnn {
namespace {

// Changes the workspace limit after the options are fixed. No other option may change then. The new
// limit holds for later queries of the program, and for kernels that are first called later.
cudnnStatus_t ChangeLimit(const Options& asked) {
  if (interposer::Interposer* const interposer = ProcessInterposer()) {
    interposer->limit().Set(asked.workspace_limit.value_or(interposer::kNoLimit));
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Set(std::string_view name, std::string_view value) {
  const Variable* const variable = FindVariable(name);
  if (variable == nullptr) {
    return Refuse(CUDNN_STATUS_BAD_PARAM, "no option is called '" + std::string(name) + "'");
  }
  Options asked = ProcessOptions();
  const std::string given = std::string(name) + "='" + std::string(value) + "' ";
  if (const Status status = variable->Apply(value, asked); !status.ok()) {
    return Refuse(CUDNN_STATUS_BAD_PARAM, given + "is refused: " + status.message() +
                                              " (accepted: " + variable->accepted + ")");
  }
  // UCUDNN_REAL_CUDNN cannot change once the library is open, because layers may have been named by
  // descriptors of that library.
  const bool open = variable == FindVariable("UCUDNN_REAL_CUDNN") && RealIsOpen();
  if (!OptionsAreFixed() && !open) {
    const Status status = SetProcessOption(*variable, value);
    return status.ok() ? CUDNN_STATUS_SUCCESS : Refuse(CUDNN_STATUS_BAD_PARAM, status.message());
  }
  if (variable == FindVariable("UCUDNN_WORKSPACE_LIMIT") && !asked.workspace_limit_auto) {
    return ChangeLimit(asked);
  }
  return Refuse(CUDNN_STATUS_NOT_SUPPORTED,
                given + "comes too late: it must be set before the process's first cuDNN call");
}

// Checks that no handle is null, and returns the status of what(interposer). Succeeds without
// calling `what` if ucudnn is off. `function` is the API function's name for error messages.
template <typename What>
cudnnStatus_t Tell(const char* function, std::initializer_list<cudnnHandle_t> handles, What what) {
  return WithoutExceptions([&] {
    for (const cudnnHandle_t handle : handles) {
      if (handle != nullptr) continue;
      return Refuse(CUDNN_STATUS_BAD_PARAM, std::string(function) + ": a handle is a null pointer");
    }
    if (FixedOptions().mode != Mode::kOn) return CUDNN_STATUS_SUCCESS;
    interposer::Interposer* const interposer = ProcessInterposer();
    if (interposer == nullptr) {
      return Refuse(CUDNN_STATUS_NOT_INITIALIZED, "no real cuDNN 9 was found");
    }
    const Status status = what(*interposer);
    if (status.ok()) return CUDNN_STATUS_SUCCESS;
    return Refuse(CUDNN_STATUS_NOT_SUPPORTED, std::string(function) + ": " + status.message());
  });
}

}  // namespace
}  // namespace ucudnn

extern "C" {

const char* ucudnnGetVersionString() { return ucudnn::kVersion; }

cudnnStatus_t ucudnnSetOption(const char* variable, const char* value) {
  return ucudnn::WithoutExceptions([&] {
    if (variable == nullptr || value == nullptr) {
      return ucudnn::Refuse(CUDNN_STATUS_BAD_PARAM,
                            "ucudnnSetOption: variable or value is a null pointer");
    }
    return ucudnn::Set(variable, value);
  });
}

cudnnStatus_t ucudnnSetWorkspaceLimit(size_t bytes) {
  return ucudnn::WithoutExceptions([&] {
    return ucudnn::Set("UCUDNN_WORKSPACE_LIMIT",
                       bytes == UCUDNN_NO_LIMIT ? "caller" : std::to_string(bytes));
  });
}

cudnnStatus_t ucudnnSetTotalWorkspace(size_t bytes) {
  return ucudnn::WithoutExceptions(
      [&] { return ucudnn::Set("UCUDNN_TOTAL_WORKSPACE", std::to_string(bytes)); });
}

cudnnStatus_t ucudnnDeclareOrder(cudnnHandle_t first, cudnnHandle_t second) {
  return ucudnn::Tell("ucudnnDeclareOrder", {first, second}, [&](auto& interposer) {
    return interposer.sessions().DeclareOrder(first, second);
  });
}

cudnnStatus_t ucudnnEndRecording(cudnnHandle_t handle) {
  return ucudnn::Tell("ucudnnEndRecording", {handle},
                      [&](auto& interposer) { return interposer.sessions().EndRecording(handle); });
}

cudnnStatus_t ucudnnSetBatchSizePolicy(ucudnnBatchSizePolicy_t policy) {
  return ucudnn::WithoutExceptions([&] {
    constexpr ucudnn::BatchSizePolicy kPolicies[] = {
        ucudnn::BatchSizePolicy::kAuto, ucudnn::BatchSizePolicy::kUndivided,
        ucudnn::BatchSizePolicy::kPowerOfTwo, ucudnn::BatchSizePolicy::kAll};
    const auto index = static_cast<unsigned>(policy);
    if (index >= std::size(kPolicies)) {
      return ucudnn::Refuse(CUDNN_STATUS_BAD_PARAM,
                            "ucudnnSetBatchSizePolicy: no policy has the number " +
                                std::to_string(static_cast<int>(policy)));
    }
    return ucudnn::Set("UCUDNN_BATCH_SIZE_POLICY", ucudnn::BatchSizePolicyName(kPolicies[index]));
  });
}

}  // extern "C"
