// A World holds the answers to the questions of Decide: what was measured, what may replace a plan,
// which pieces are wrong, what cannot be built. It is a plain value.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "planning/decision/decide.h"

namespace ucudnn::planning {

// Names an engine and the number of images of its piece or, if negative, the number of its tiles.
using PieceName = std::pair<EngineId, int>;

struct World {
  Facts facts;
  std::vector<Candidate> rows;             // measured rows
  Tilings tilings;                         // measured grids of tiles
  bool settled = true;                     // no more rows will be measured
  bool late = false;                       // there is no time to measure more
  std::vector<MicroConfiguration> others;  // engines that may replace a plan, best first
  std::vector<PieceName> wrong;            // pieces that are compared and found wrong
  std::vector<PieceName> uncompared;       // pieces that cannot be compared now
  std::vector<PieceName> slower;           // tiles that are slower than the undivided engine
  bool is_too_large = false;         // too large to be compared undivided; tiles are compared alone
  bool breaks_pieces = false;        // no plan in pieces can be built
  bool breaks_whole = false;         // nothing undivided can be built
  std::optional<KeptPromise> rival;  // what another process promises first

  // The fallbacks that DecideIn reported on the way to the decision, and the decision's own notes.
  std::vector<Note> fallbacks;
  int steps = 0;
};

// Answers the questions of Decide until it decides, as Lifecycle::Decide does. Wrong pieces are
// removed from the rows, and what was measured is asked for again. If another process promised
// first, Decide begins again with that promise. Returns nullopt if kMostSteps steps lead to no
// decision.
std::optional<Decision> DecideIn(World& world);

}  // namespace ucudnn::planning
