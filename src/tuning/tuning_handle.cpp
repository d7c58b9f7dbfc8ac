#include "tuning/tuning_handle.h"

#include "tuning/spare_handles.h"

namespace ucudnn::tuning {

TuningHandle::~TuningHandle() {
  if (handle_ != nullptr) KeepHandle(driver_, functions_, handle_);
}

Status TuningHandle::Create() {
  UCUDNN_RETURN_IF_ERROR(stream_.Create());
  UCUDNN_RETURN_IF_ERROR(memory_.Create(stream_.get()));
  UCUDNN_ASSIGN_OR_RETURN(handle_, TakeHandle(driver_, functions_));
  return cudnn::CudnnStatus(functions_, functions_.cudnnSetStream(handle_, stream_.get()),
                            "setting the stream for measuring");
}

}  // namespace ucudnn::tuning
