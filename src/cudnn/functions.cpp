#include "cudnn/functions.h"

namespace ucudnn::cudnn {

Status CudnnStatus(const Functions& functions, cudnnStatus_t status, const char* action) {
  if (status == CUDNN_STATUS_SUCCESS) return Status::Ok();
  return Status::Error(std::string(action) + ": " + functions.cudnnGetErrorString(status));
}

}  // namespace ucudnn::cudnn
