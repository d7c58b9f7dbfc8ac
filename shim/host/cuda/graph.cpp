#include "shim/host/cuda/graph.h"

#include <optional>
#include <utility>

#include "shim/host/cuda/address.h"

namespace hostgpu {

std::vector<Use> UsesOf(const std::vector<uintptr_t>& addresses) {
  std::vector<Use> uses;
  for (const uintptr_t address : addresses) {
    const std::optional<Place> place = Locate(address);
    if (place && place->memory == Memory::kDevice) {
      uses.push_back({address, place->allocation.number});
    }
  }
  return uses;
}

const Use* FindStaleUse(const Nodes& nodes) {
  for (const auto& node : nodes) {
    for (const Use& use : node->uses) {
      const std::optional<Place> place = Locate(use.address);
      if (!place || place->allocation.number != use.allocation) return &use;
    }
  }
  return nullptr;
}

std::function<void()> RunAll(Nodes nodes, std::vector<HeldObject> objects) {
  return [nodes = std::move(nodes), objects = std::move(objects)] {
    for (const auto& node : nodes) node->run();
  };
}

}  // namespace hostgpu
