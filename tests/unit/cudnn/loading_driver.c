/* A libcuda.so.1 for a machine without a GPU. cuDNN compiles kernels for a described device, too,
   and hands them to the driver while it makes a plan: this driver accepts them, and has no device
   to launch them on. Functions omit arguments that they do not read, so no header that declares
   them may be included. */
#include <stddef.h>

enum { kSuccess = 0, kNotInitialized = 3, kNoDevice = 100 };

/* Stores a pointer that is not null. */
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

/* cuDNN looks these up when it loads the driver, and does not call them while it plans. */
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
