/* Prints an answer of each kind of export (status, size, pointer, void). Then sets a tensor
 * descriptor and prints what the library reads back from it, which needs no GPU. */
#include <cudnn.h>
#include <stdio.h>

int main(void) {
  cudnnHandle_t handle = NULL;
  char message[128] = "untouched";
  printf("status=%d\n", (int)cudnnCreate(&handle));
  printf("size=%zu\n", cudnnGetVersion());
  const char* text = cudnnGetErrorString(CUDNN_STATUS_NOT_INITIALIZED);
  printf("pointer=%s\n", text != NULL ? text : "null");
  cudnnGetLastErrorString(message, sizeof message);
  printf("void=%s\n", message);

  cudnnTensorDescriptor_t descriptor = NULL;
  int n = 0, c = 0, h = 0, w = 0, strides[4];
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int status = (int)cudnnCreateTensorDescriptor(&descriptor);
  if (status == 0) {
    status =
        (int)cudnnSetTensor4dDescriptor(descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 5, 6, 7, 8);
  }
  if (status == 0) {
    status = (int)cudnnGetTensor4dDescriptor(descriptor, &type, &n, &c, &h, &w, &strides[0],
                                             &strides[1], &strides[2], &strides[3]);
  }
  printf("descriptor=%d %d %d %d %d\n", status, n, c, h, w);
  return 0;
}
