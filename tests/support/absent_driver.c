/* A libcuda.so.1 for a machine without a GPU. Since 9.28 cuDNN's runtime-compiled engines link the
 * driver, but they make plans for a described device without calling it. */
#include <cuda.h>
#include <stddef.h>

CUresult cuGetErrorString(CUresult error, const char** text) {
  (void)error;
  *text = NULL;
  return CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  (void)module, (void)image;
  return CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  (void)function, (void)module, (void)name;
  return CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuModuleUnload(CUmodule module) {
  (void)module;
  return CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* dim, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  (void)map, (void)type, (void)rank, (void)address, (void)dim, (void)strides, (void)box;
  (void)element_strides, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  return CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                 void* address, const cuuint64_t* dim, const cuuint64_t* strides,
                                 const int* lower, const int* upper, cuuint32_t channels,
                                 cuuint32_t pixels, const cuuint32_t* element_strides,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  (void)map, (void)type, (void)rank, (void)address, (void)dim, (void)strides, (void)lower;
  (void)upper, (void)channels, (void)pixels, (void)element_strides, (void)interleave;
  (void)swizzle, (void)promotion, (void)fill;
  return CUDA_ERROR_NOT_INITIALIZED;
}
