// One attribute that a caller sets or gets. The status codes are the real 9.19 library's. They were
// found by experiment; tests/unit/host/cudnn/graph_conformance_test.cpp compares them with the real
// library's.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "shim/host/cudnn/api.h"
#include "shim/host/cudnn/refusal.h"

namespace hostgpu {

// An attribute that is being set. Values of enumerations are stored as int, because a caller may
// pass any number.
struct Attribute {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t count;
  const void* values;

  template <class T>
  T Value(int64_t index = 0) const {
    if constexpr (std::is_same_v<T, bool>) {
      return static_cast<const unsigned char*>(values)[index] != 0;
    } else {
      return static_cast<const T*>(values)[index];
    }
  }

  // Reads one value of type `wanted`. Returns `wrong_type` if the attribute has another type.
  template <class T>
  cudnnStatus_t One(cudnnBackendAttributeType_t wanted, T* value,
                    cudnnStatus_t wrong_type = CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE) const {
    HOSTGPU_REFUSE_IF(type != wanted, wrong_type);
    HOSTGPU_REFUSE_IF(count != 1, CUDNN_STATUS_BAD_PARAM);
    *value = Value<T>();
    return CUDNN_STATUS_SUCCESS;
  }

  // Reads one number, which is a float or a double.
  cudnnStatus_t Number(double* number) const {
    if (type == CUDNN_TYPE_DOUBLE) return One(CUDNN_TYPE_DOUBLE, number);
    float value = 0;
    if (auto status = One(CUDNN_TYPE_FLOAT, &value, CUDNN_STATUS_BAD_PARAM)) return status;
    *number = value;
    return CUDNN_STATUS_SUCCESS;
  }

  // Reads a list. If the list has more than N values, `kept_count` becomes N + 1; then finalizing
  // the descriptor fails.
  template <size_t N>
  cudnnStatus_t List(std::array<int64_t, N>* kept, int* kept_count) const {
    HOSTGPU_REFUSE_IF(type != CUDNN_TYPE_INT64, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    HOSTGPU_REFUSE_IF(count < 1, CUDNN_STATUS_BAD_PARAM);
    *kept_count = static_cast<int>(std::min<int64_t>(count, N + 1));
    for (size_t i = 0; i < std::min<size_t>(*kept_count, N); ++i) (*kept)[i] = Value<int64_t>(i);
    return CUDNN_STATUS_SUCCESS;
  }
};

struct AttributeRequest {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t requested;
  int64_t* count;  // the number of values to return; may be null
  void* values;    // null if the caller asks only for the count

  void Return(int64_t number) const {
    if (count != nullptr) *count = number;
  }

  template <class T>
  cudnnStatus_t One(cudnnBackendAttributeType_t given, T value,
                    cudnnStatus_t wrong_type = CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE) const {
    HOSTGPU_REFUSE_IF(type != given, wrong_type);
    HOSTGPU_REFUSE_IF(values != nullptr && requested != 1, CUDNN_STATUS_BAD_PARAM);
    if (values != nullptr) *static_cast<T*>(values) = value;
    Return(1);
    return CUDNN_STATUS_SUCCESS;
  }

  // Writes at most `requested` of the `number` values, and returns the number of values written.
  // Without an array, returns only `number` in *count.
  template <class T>
  cudnnStatus_t Array(cudnnBackendAttributeType_t given, const T* from, int64_t number) const {
    HOSTGPU_REFUSE_IF(type != given, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    if (values != nullptr) {
      number = std::min(number, requested);
      std::copy_n(from, number, static_cast<T*>(values));
    }
    Return(number);
    return CUDNN_STATUS_SUCCESS;
  }
};

}  // namespace hostgpu
