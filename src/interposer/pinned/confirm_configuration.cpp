#include "interposer/pinned/confirm_configuration.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "convolution/engine_name.h"
#include "convolution/partial_sums.h"
#include "convolution/tiles.h"

namespace ucudnn::interposer {
namespace {

// Returns why an engine of the legacy API cannot run this tile of `problem`; empty if it can.
std::string LegacyRefusal(const ConvolutionProblem& problem, const ConvolutionProblem& tile) {
  if (!tile.HasEvenPads())
    return "descriptors of the legacy API have the same padding on both sides";
  if (tile.alignment >= problem.alignment) return {};
  return "it begins on " + std::to_string(tile.alignment) + " bytes, and an algorithm may expect " +
         std::to_string(problem.alignment);
}

// Appends `run` to `confirmed`, with the workspace and determinism that the library states for its
// piece. `kind` is the kind of the run's tiles; null: the run's pieces are whole images. The error
// says what contradicts the plan.
Status AppendConfirmed(const ConvolutionProblem& problem, const Run& run, const TileKind* kind,
                       cudnn::Engines& engines, ConfirmedConfiguration& confirmed) {
  const MicroConfiguration& named = run.micro;
  ConvolutionProblem part = problem;
  part.n = named.micro_batch;
  std::string piece = NameOfPiece(problem.operation, named);
  if (kind != nullptr) {
    part = kind->problem;
    piece = EngineName(problem.operation, named.engine) + " for tiles " + Describe(part);
    const bool legacy = named.engine.legacy() != nullptr;
    const std::string refusal = legacy ? LegacyRefusal(problem, part) : std::string();
    if (!refusal.empty()) return Status::Error(piece + ": " + refusal);
  }
  const auto listed = engines.List(part);
  confirmed.unanswered = !listed.ok();
  if (!listed.ok()) return Status::Error(piece + ": " + listed.message());
  const auto found = std::find_if(
      listed->begin(), listed->end(),
      [&](const cudnn::ListedEngine& other) { return other.choice.engine == named.engine; });
  if (found == listed->end()) return Status::Error(piece + ": the library has no such engine");
  const cudnn::EngineChoice& choice = found->choice;
  MicroConfiguration needed = {named.engine,           named.micro_batch,    named.time_ms,
                               choice.workspace_bytes, choice.deterministic, named.tile};
  if (kind != nullptr) needed.workspace_bytes += PackedBytes(*kind);
  if (IsPartial(problem, needed)) needed = AsPartial(problem, std::move(needed), 0);
  if (needed.workspace_bytes > named.workspace_bytes) {
    return Status::Error(piece + " needs " + std::to_string(needed.workspace_bytes) +
                         " bytes of workspace, not " + std::to_string(named.workspace_bytes));
  }
  confirmed.configuration.runs.push_back({std::move(needed), run.count});
  confirmed.numeric.push_back(choice.numeric);
  return Status::Ok();
}

}  // namespace

std::string NameOfPiece(Operation operation, const MicroConfiguration& micro) {
  return EngineName(operation, micro.engine) + " for " + std::to_string(micro.micro_batch) +
         " images";
}

ConfirmedConfiguration ConfirmConfiguration(const ConvolutionProblem& problem,
                                            const Configuration& configuration,
                                            std::span<cudnn::Engines* const> engines) {
  assert(configuration.runs.size() == engines.size());
  ConfirmedConfiguration confirmed;
  confirmed.configuration.grid = configuration.grid;
  const int step = LegalStep(problem);
  const Result<Division> division = DivisionOf(problem, configuration);
  confirmed.status = division.status();
  const Tiles* const tiles = division.ok() ? division->tiles.get() : nullptr;
  for (size_t at = 0; at < configuration.runs.size() && confirmed.status.ok(); ++at) {
    const Run& run = configuration.runs[at];
    const bool last = at + 1 == configuration.runs.size() && run.count == 1;
    const bool legal = tiles != nullptr || run.micro.micro_batch % step == 0 || last;
    const TileKind* const kind = tiles != nullptr ? &tiles->kinds[at] : nullptr;
    if (tiles == nullptr && run.micro.tile != TileLengths{}) {
      confirmed.status =
          Status::Error(NameOfPiece(problem.operation, run.micro) + ": its tiles are no grid's");
      break;
    }
    confirmed.status =
        legal ? AppendConfirmed(problem, run, kind, *engines[at], confirmed)
              : Status::Error(NameOfPiece(problem.operation, run.micro) +
                              ": pieces here have a multiple of " + std::to_string(step));
  }
  return confirmed;
}

}  // namespace ucudnn::interposer
