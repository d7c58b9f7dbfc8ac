/* A stand-in for libcuda.so.1 on a machine without a GPU. While cuDNN makes a plan for a
   described device, it may compile kernels and load them with the driver. This driver accepts the
   kernels and reports that there is no device. Functions omit the parameters that they do not read,
   so cuda.h, which declares them with all parameters, must not be included. */
#include <stddef.h>

enum { kSuccess = 0, kNotInitialized = 3, kNoDevice = 100 };

/* Stores an arbitrary pointer that is not null. */
static int Give(void** out) {
  static int something;
  *out = &something;
  return kSuccess;
}
static int GiveNumber(int* out, int number) {
  *out = number;
  return kSuccess;
}

int cuInit(void) { return kNoDevice; }
int cuDriverGetVersion(int* version) { return GiveNumber(version, 13000); }
int cuDeviceGetCount(int* count) { return GiveNumber(count, 0); }
int cuGetErrorString(int error, const char** text) {
  (void)error;
  *text = "there is no device";
  return kSuccess;
}
int cuGetErrorName(int error, const char** text) { return cuGetErrorString(error, text); }

int cuLibraryLoadData(void** library) { return Give(library); }
int cuLibraryGetKernel(void** kernel) { return Give(kernel); }
int cuLibraryUnload(void) { return kSuccess; }
int cuModuleLoadData(void** module) { return Give(module); }
int cuModuleGetFunction(void** function) { return Give(function); }
int cuModuleUnload(void) { return kSuccess; }
int cuKernelGetAttribute(int* value) { return GiveNumber(value, 0); }
int cuKernelSetAttribute(void) { return kSuccess; }

/* cuDNN looks up the functions below when it loads the driver, and does not call them while it
   makes plans. */
int cuCtxGetCurrent(void) { return kNotInitialized; }
int cuCtxGetLimit(void) { return kNotInitialized; }
int cuCtxPopCurrent(void) { return kNotInitialized; }
int cuCtxPushCurrent(void) { return kNotInitialized; }
int cuDeviceGet(void) { return kNotInitialized; }
int cuLaunchCooperativeKernel(void) { return kNotInitialized; }
int cuLaunchKernel(void) { return kNotInitialized; }
int cuLaunchKernelEx(void) { return kNotInitialized; }
int cuLibraryLoadFromFile(void) { return kNotInitialized; }
int cuLinkAddData(void) { return kNotInitialized; }
int cuLinkComplete(void) { return kNotInitialized; }
int cuLinkCreate(void) { return kNotInitialized; }
int cuLinkDestroy(void) { return kNotInitialized; }
int cuOccupancyMaxPotentialClusterSize(void) { return kNotInitialized; }
int cuStreamGetCtx(void) { return kNotInitialized; }
int cuTensorMapEncodeTiled(void) { return kNotInitialized; }
int cuTensorMapEncodeIm2col(void) { return kNotInitialized; }
