// CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR: the properties of the device for which plans are made. They
// come from a device of this process, or from JSON, so that plans can also be made on a machine
// without the device.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "shim/host/cudnn/graph/descriptor.h"

namespace hostgpu {

// The fields of the real library's profile of a device, in the same order.
using DeviceProfile = nlohmann::ordered_json;

// Reads a profile from JSON; ignores unknown fields. Returns BAD_PARAM if a field is missing or has
// another type.
cudnnStatus_t ReadDeviceProfile(const nlohmann::ordered_json& json, DeviceProfile* profile);

// Sets `profile` to the profile of device `ordinal`. Returns NOT_INITIALIZED if there is no such
// device.
cudnnStatus_t ProfileOfDevice(int ordinal, DeviceProfile* profile);

class DeviceProperties final
    : public DescriptorOf<DeviceProperties, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  const DeviceProfile& profile() const { return profile_; }

 private:
  int32_t device_ = 0;
  std::string json_;
  DeviceProfile profile_;
};

// Returns a text as the value of an attribute, whatever type the caller requested. Returns
// BAD_PARAM_SIZE_INSUFFICIENT, and writes nothing, if the caller's array is too small for the text.
cudnnStatus_t GiveText(const AttributeRequest& request, const std::string& text);

}  // namespace hostgpu
