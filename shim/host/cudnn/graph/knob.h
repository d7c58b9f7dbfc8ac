// CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR: the values that an engine's knob can have.
// CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR: the value of a knob; -1 lets the engine choose.
#pragma once

#include "shim/host/cudnn/graph/descriptor.h"

namespace hostgpu {

class KnobInfo final : public DescriptorOf<KnobInfo, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;
  cudnnStatus_t Complete() override;

  int type = -1;
  int64_t minimum = 0;
  int64_t maximum = 0;
  int64_t stride = 1;
};

class KnobChoice final : public DescriptorOf<KnobChoice, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR> {
 public:
  cudnnStatus_t Set(const Attribute& attribute) override;
  cudnnStatus_t Get(const AttributeRequest& request) const override;

  int type = 0;
  int64_t value = -1;
};

}  // namespace hostgpu
