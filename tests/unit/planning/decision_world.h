// A world in which the questions of Decide have answers: what was measured, what may take a plan's
// place, which pieces are wrong, what cannot be built. Plain values.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "planning/decision/decide.h"

namespace ucudnn::planning {

// An engine and the number of images that a piece of it takes or, below zero, the number of tiles.
using PieceName = std::pair<EngineId, int>;

struct World {
  Facts facts;
  std::vector<Candidate> rows;             // measured
  Tilings tilings;                         // the same of grids of tiles
  bool settled = true;                     // no more will be
  bool late = false;                       // there is no time to measure more
  std::vector<MicroConfiguration> others;  // may take a plan's place, best first
  std::vector<PieceName> wrong;            // compared and found wrong
  std::vector<PieceName> uncompared;       // and not to be compared now
  bool is_too_large = false;               // the whole, to be compared with its tiles
  bool breaks_pieces = false;              // no plan in pieces can be built
  bool breaks_whole = false;               // nothing undivided can be
  std::optional<KeptPromise> rival;        // another process promises it first

  // What was found wrong on the way to the decision, and the decision's own notes.
  std::vector<Note> fallbacks;
  int steps = 0;
};

// Answers what Decide asks until it decides, as the interposer's life cycle does: wrong pieces
// leave the rows and clear what was measured, and what another process promised first is decided
// about anew. None where kMostSteps steps lead to no decision.
std::optional<Decision> DecideIn(World& world);

}  // namespace ucudnn::planning
