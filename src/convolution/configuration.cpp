#include "convolution/configuration.h"

#include <algorithm>
#include <cassert>

namespace ucudnn {

int Configuration::Pieces() const {
  int pieces = 0;
  for (const Run& run : runs) pieces += run.count;
  return pieces;
}

int Configuration::Images() const {
  int images = 0;
  for (const Run& run : runs) images += run.micro.micro_batch * run.count;
  return images / grid.PartsOfImages();
}

double Configuration::TimeMs() const {
  double time_ms = 0;
  for (const Run& run : runs) time_ms += run.micro.time_ms * run.count;
  return time_ms;
}

size_t Configuration::WorkspaceBytes() const {
  size_t bytes = 0;
  for (const Run& run : runs) bytes = std::max(bytes, run.micro.workspace_bytes);
  return bytes;
}

bool Configuration::Deterministic() const {
  return std::all_of(runs.begin(), runs.end(),
                     [](const Run& run) { return run.micro.deterministic; });
}

const MicroConfiguration& Configuration::Largest() const {
  assert(!runs.empty());
  return std::max_element(
             runs.begin(), runs.end(),
             [](const Run& a, const Run& b) { return a.micro.micro_batch < b.micro.micro_batch; })
      ->micro;
}

}  // namespace ucudnn
