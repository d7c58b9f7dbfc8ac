// Workspace plans of one kernel, as JSON, and options of a program that follows one.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "convolution/columns.h"
#include "program_parts.h"
#include "tests/support/stand_in.h"

namespace ucudnn::test {

// The division of a kernel in a workspace plan: the API and the engine of its micro-batches, and
// the number of images and the bytes of workspace of each micro-batch.
struct PinnedPieces {
  const char* api = "legacy";
  std::string engine = "legacy:1";
  int images = 2;
  size_t bytes = 0;
};

inline nlohmann::json WorkspacePlanEntry(const ConvolutionProblem& of, const PinnedPieces& pieces) {
  nlohmann::json problem;
  for (const auto& [column, text] : ToColumns(of)) {
    if (!text.empty()) problem[column] = text;
  }
  problem["n"] = of.n;
  return {{"op", OperationName(of.operation)},
          {"problem", problem},
          {"api", pieces.api},
          {"plan",
           {{{"engine", pieces.engine},
             {"workspace_bytes", pieces.bytes},
             {"piece_ms", 0.25},
             {"micro_batch", pieces.images},
             {"count", of.n / pieces.images}}}},
          {"segment", nullptr},
          {"order_after", nlohmann::json::array()}};
}

inline nlohmann::json WorkspacePlanFile(const nlohmann::json& kernel) {
  const planning::Platform platform = PlatformOf(StandIn());
  return {{"format", "ucudnn-workspace-plan"},
          {"version", 2},
          {"cudnn", platform.cudnn},
          {"device", platform.device},
          {"limit_bytes", nullptr},
          {"division", "concurrent"},
          {"kernels", {kernel}}};
}

// Returns `file` with a total workspace, in which each kernel has a segment of its own.
inline nlohmann::json Totalled(nlohmann::json file, size_t total_bytes) {
  file.erase("limit_bytes");
  file["total_bytes"] = total_bytes;
  int segment = 0;
  for (auto& kernel : file["kernels"]) kernel["segment"] = segment++;
  return file;
}

// Writes `file` to the process's only plan file and returns its path.
inline std::string Written(const nlohmann::json& file) {
  const std::string path = ::testing::TempDir() + "plan" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << file.dump();
  return path;
}

inline Options Following(const nlohmann::json& file) {
  Options options;
  options.policy = BatchSizePolicy::kPowerOfTwo;
  options.workspace_plan = Written(file);
  options.lock_folder = "/dev/null";  // no lock file can be made there
  return options;
}

}  // namespace ucudnn::test
