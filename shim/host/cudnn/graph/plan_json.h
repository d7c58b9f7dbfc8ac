// A plan as JSON, in the form of the real 9.19 library (schema 4): what edits one library's
// plans edits the other's. Engine numbers and knobs are each library's own.
#pragma once

#include <string>

#include "shim/host/cudnn/graph/engine.h"

namespace hostgpu {

// The configuration must be finalized.
std::string PlanToJson(const EngineConfig& config, const DeviceProfile& profile);

// A finalized configuration from JSON, for `device`. BAD_PARAM where the text is no plan,
// SUBLIBRARY_VERSION_MISMATCH and SERIALIZATION_VERSION_MISMATCH where another version wrote it,
// NOT_SUPPORTED_ARCH_MISMATCH where it is for another architecture, else what building the same
// plan from descriptors answers.
cudnnStatus_t PlanFromJson(const std::string& text, const DeviceProperties& device,
                           EngineConfig* config);

}  // namespace hostgpu
