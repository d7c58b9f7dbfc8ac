#include "shim/host/cudnn/graph/device_properties.h"

#include <cuda.h>

namespace hostgpu {
namespace {

enum class Kind { kNumber, kThree, kText };

// The source of a field: a device attribute, or, if `attribute` is 0, a value that ProfileOfDevice
// sets.
struct Field {
  const char* name;
  Kind kind;
  int attribute;
};

constexpr Field kFields[] = {
    {"maxGridSize", Kind::kThree, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
    {"maxBlockSize", Kind::kThree, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
    {"regsPerBlock", Kind::kNumber, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
    {"multiProcessorCount", Kind::kNumber, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {"warpSize", Kind::kNumber, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    {"maxSharedMemoryPerBlock", Kind::kNumber, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    {"maxSharedMemoryPerBlockOptin", Kind::kNumber,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    {"reservedSharedMemoryPerBlock", Kind::kNumber,
     CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK},
    {"maxRegistersPerSM", Kind::kNumber, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
    {"maxCtasPerSM", Kind::kNumber, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR},
    {"maxThreadsPerBlock", Kind::kNumber, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {"maxThreadsPerSM", Kind::kNumber, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {"pciDeviceId", Kind::kNumber, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
    {"isTccDriver", Kind::kNumber, CU_DEVICE_ATTRIBUTE_TCC_DRIVER},
    {"supportCoopLaunch", Kind::kNumber, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH},
    {"totalGlobalMem", Kind::kNumber, 0},
    {"smClockRateKHz", Kind::kNumber, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
    {"memClockRateKHz", Kind::kNumber, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
    {"l2CacheSize", Kind::kNumber, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {"cudaDeviceId", Kind::kNumber, 0},
    {"deviceVer", Kind::kNumber, 0},
    {"driverVer", Kind::kNumber, 0},
    {"deviceName", Kind::kText, 0},
};

int AttributeOf(int attribute, CUdevice device) {
  int value = 0;
  // If the stand-in's driver does not have the attribute, `value` stays 0.
  cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(attribute), device);
  return value;
}

bool Is(Kind kind, const nlohmann::ordered_json& value) {
  switch (kind) {
    case Kind::kNumber:
      return value.is_number_integer();
    case Kind::kThree:
      return value.is_array() && value.size() == 3 && value[0].is_number_integer() &&
             value[1].is_number_integer() && value[2].is_number_integer();
    case Kind::kText:
      return value.is_string();
  }
  return false;
}

}  // namespace

cudnnStatus_t ReadDeviceProfile(const nlohmann::ordered_json& json, DeviceProfile* profile) {
  HOSTGPU_REFUSE_IF(!json.is_object(), CUDNN_STATUS_BAD_PARAM);
  DeviceProfile read = nlohmann::ordered_json::object();
  for (const Field& field : kFields) {
    const auto found = json.find(field.name);
    HOSTGPU_REFUSE_IF(found == json.end(), CUDNN_STATUS_BAD_PARAM);
    HOSTGPU_REFUSE_IF(!Is(field.kind, *found), CUDNN_STATUS_BAD_PARAM);
    read[field.name] = *found;
  }
  *profile = std::move(read);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ProfileOfDevice(int ordinal, DeviceProfile* profile) {
  CUdevice device = 0;
  HOSTGPU_REFUSE_IF(cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, ordinal) != CUDA_SUCCESS,
                    CUDNN_STATUS_NOT_INITIALIZED);
  DeviceProfile read = nlohmann::ordered_json::object();
  for (const Field& field : kFields) {
    if (field.kind == Kind::kThree) {
      for (int i = 0; i < 3; ++i) {
        read[field.name].push_back(AttributeOf(field.attribute + i, device));
      }
    } else {
      read[field.name] = field.attribute == 0 ? 0 : AttributeOf(field.attribute, device);
    }
  }
  size_t memory = 0;
  char name[256] = "";
  int driver = 0;
  cuDeviceTotalMem(&memory, device);
  cuDeviceGetName(name, sizeof name, device);
  cuDriverGetVersion(&driver);
  read["totalGlobalMem"] = memory;
  read["cudaDeviceId"] = ordinal;
  read["deviceVer"] = 100 * AttributeOf(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) +
                      10 * AttributeOf(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  read["driverVer"] = driver;
  read["deviceName"] = name;
  *profile = std::move(read);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t GiveText(const AttributeRequest& request, const std::string& text) {
  const auto length = static_cast<int64_t>(text.size());
  if (request.values != nullptr && request.requested > 0) {
    HOSTGPU_REFUSE_IF(request.requested < length, CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    std::copy_n(text.data(), length, static_cast<char*>(request.values));
  }
  request.Return(length);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t DeviceProperties::Set(const Attribute& attribute) {
  switch (attribute.name) {
    case CUDNN_ATTR_DEVICEPROP_DEVICE_ID:
      return attribute.One(CUDNN_TYPE_INT32, &device_);
    case CUDNN_ATTR_DEVICEPROP_HANDLE: {
      // The handle's device does not matter, because all devices of the stand-in are equal.
      cudnnHandle_t handle = nullptr;
      return attribute.One(CUDNN_TYPE_HANDLE, &handle);
    }
    case CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION:
      HOSTGPU_REFUSE_IF(attribute.count < 0, CUDNN_STATUS_BAD_PARAM);
      json_.assign(static_cast<const char*>(attribute.values),
                   static_cast<size_t>(attribute.count));
      return CUDNN_STATUS_SUCCESS;
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a device's properties");
  }
}

cudnnStatus_t DeviceProperties::Get(const AttributeRequest& request) const {
  switch (request.name) {
    case CUDNN_ATTR_DEVICEPROP_DEVICE_ID:
      return request.One(CUDNN_TYPE_INT32, device_);
    case CUDNN_ATTR_DEVICEPROP_HANDLE:
      return Refuse(CUDNN_STATUS_NOT_SUPPORTED, "an attribute that is not read back");
    case CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION:
      return GiveText(request, profile_.dump());
    default:
      return Refuse(CUDNN_STATUS_BAD_PARAM, "no attribute of a device's properties");
  }
}

cudnnStatus_t DeviceProperties::Complete() {
  if (json_.empty()) return ProfileOfDevice(device_, &profile_);
  const auto json = nlohmann::ordered_json::parse(json_, nullptr, false);
  return ReadDeviceProfile(json, &profile_);
}

}  // namespace hostgpu
