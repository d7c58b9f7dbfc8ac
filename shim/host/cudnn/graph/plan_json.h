// Writes and reads plans as JSON in the form of the real 9.19 library (schema 4), so that code that
// edits plans of the real library can edit the stand-in's too. Engine numbers and knobs differ
// between the two libraries.
#pragma once

#include <string>

#include "shim/host/cudnn/graph/engine.h"

namespace hostgpu {

// REQUIRES: the configuration is finalized.
std::string PlanToJson(const EngineConfig& config, const DeviceProfile& profile);

// Reads a finalized configuration for `device` from JSON. Returns BAD_PARAM if the text is no plan,
// SUBLIBRARY_VERSION_MISMATCH or SERIALIZATION_VERSION_MISMATCH if another version wrote it,
// NOT_SUPPORTED_ARCH_MISMATCH if it is for another architecture, and otherwise the status of
// building the same plan from descriptors.
cudnnStatus_t PlanFromJson(const std::string& text, const DeviceProperties& device,
                           EngineConfig* config);

}  // namespace hostgpu
