// Machines known by name. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/machine/machine.h"

namespace ucudnn::planner {

// Returns k80x16 and p100x4x4 (DeePa, sections 7.1 and 7.3), k20x8 ("One weird trick", section 5),
// h100x8 and h200x8 (HGX boards), v100x2-25g (TX-GAIA: Kirby et al., section IV). Their figures
// come from data sheets and the papers, not from measurements.
const std::vector<std::string>& MachineNames();

// Returns the MachineNames() that accept a number of nodes, as text: "h100x8:N, h200x8:N,
// v100x2-25g:N".
std::string ClusterNames();

// Returns the machine called `NAME`, or N nodes of it for `NAME:N` if the network between nodes is
// known. An unknown name is an error that lists the known names.
Result<Machine> MachineByName(const std::string& name);

}  // namespace ucudnn::planner
