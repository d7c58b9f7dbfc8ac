// CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR: the device for which plans are made. It comes from JSON, so
// that a machine without the device can make plans, or from a device of this process.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "shim/host/cudnn/graph/descriptor.h"

namespace hostgpu {

// The fields of the real library's profile, in its order.
using DeviceProfile = nlohmann::ordered_json;

// BAD_PARAM if `json` lacks a field or has one of another type; unknown fields are dropped.
cudnnStatus_t ReadDeviceProfile(const nlohmann::ordered_json& json, DeviceProfile* profile);

// The profile of device `ordinal`. NOT_INITIALIZED if there is no such device.
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

// Writes a text as an attribute: always the whole text, whatever type is requested.
cudnnStatus_t GiveText(const AttributeRequest& request, const std::string& text);

}  // namespace hostgpu
