// Prints a device profile as JSON. cuDNN's graph API accepts it in place of a device, so that plans
// and their workspace sizes can be made on machines without the device.
//
//   device_profile             prints the profile of device 0; exit code 77 if there is no device
//   device_profile FILE.json   prints the profile in FILE as cuDNN reads it; needs no device
#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

constexpr int kSkipped = 77;

bool Succeeded(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  char message[1024] = {};
  cudnnGetLastErrorString(message, sizeof message);
  std::fprintf(stderr, "%s: %s %s\n", what, cudnnGetErrorString(status), message);
  return false;
}

bool ChooseDevice(cudnnBackendDescriptor_t profile) {
  const int32_t device = 0;
  return Succeeded(cudnnBackendSetAttribute(profile, CUDNN_ATTR_DEVICEPROP_DEVICE_ID,
                                            CUDNN_TYPE_INT32, 1, &device),
                   "CUDNN_ATTR_DEVICEPROP_DEVICE_ID");
}

bool ReadProfile(const char* path, cudnnBackendDescriptor_t profile) {
  std::ifstream file(path);
  std::string json(std::istreambuf_iterator<char>(file), {});
  if (json.empty()) {
    std::fprintf(stderr, "%s: cannot be read\n", path);
    return false;
  }
  return Succeeded(
      cudnnBackendSetAttribute(profile, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                               static_cast<int64_t>(json.size()), json.data()),
      "CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION");
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (argc < 2 && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
    std::fprintf(stderr, "device_profile: no NVIDIA GPU\n");
    return kSkipped;
  }
  cudnnBackendDescriptor_t profile = nullptr;
  if (!Succeeded(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &profile),
                 "CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR")) {
    return 1;
  }
  if (!(argc < 2 ? ChooseDevice(profile) : ReadProfile(argv[1], profile))) return 1;
  if (!Succeeded(cudnnBackendFinalize(profile), "cudnnBackendFinalize")) return 1;
  std::vector<char> json(size_t{1} << 16);
  int64_t written = 0;
  if (!Succeeded(cudnnBackendGetAttribute(profile, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                          CUDNN_TYPE_CHAR, static_cast<int64_t>(json.size()) - 1,
                                          &written, json.data()),
                 "cudnnBackendGetAttribute")) {
    return 1;
  }
  std::printf("%s\n", json.data());
  cudnnBackendDestroyDescriptor(profile);
  return 0;
}
