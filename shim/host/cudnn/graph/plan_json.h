// A plan as JSON, in the form of the real 9.19 library (schema 4), so that code that edits one
// library's plans edits the other's too. Engine numbers and knobs differ between the libraries.
#pragma once

#include <string>

#include "shim/host/cudnn/graph/engine.h"

namespace hostgpu {

// REQUIRES: the configuration is finalized.
std::string PlanToJson(const EngineConfig& config, const DeviceProfile& profile);

// Reads a finalized configuration from JSON, for `device`. BAD_PARAM if the text is no plan,
// SUBLIBRARY_VERSION_MISMATCH and SERIALIZATION_VERSION_MISMATCH if another version wrote it,
// NOT_SUPPORTED_ARCH_MISMATCH if it is for another architecture, else the status of building the
// same plan from descriptors.
cudnnStatus_t PlanFromJson(const std::string& text, const DeviceProperties& device,
                           EngineConfig* config);

}  // namespace hostgpu
