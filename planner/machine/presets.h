// Machines known by name. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// k80x16 and p100x4x4 (DeePa, sections 7.1 and 7.3), k20x8 ("One weird trick", section 5), h100x8
// and h200x8 (HGX boards), v100x2-25g (TX-GAIA: Kirby et al., section IV). Figures are nominal:
// data sheets and what the papers state, not measurements.
const std::vector<std::string>& MachineNames();

// The MachineNames() that take a number of nodes, as text: "h100x8:N, h200x8:N, v100x2-25g:N".
std::string ClusterNames();

// `NAME`, or `NAME:N` for N nodes where a network between nodes is known. An unknown name is an
// error that lists the known ones.
Result<Machine> MachineByName(const std::string& name);

}  // namespace ucudnn::planner
