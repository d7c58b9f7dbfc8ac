#include "interposer/pinned/confirm_configuration.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "convolution/engine_name.h"
#include "convolution/partial_sums.h"

namespace ucudnn::interposer {
namespace {

// Appends `run` to `confirmed`, as the library says of its piece. An error says what is wrong.
Status AppendConfirmed(const ConvolutionProblem& problem, const Run& run, cudnn::Engines& engines,
                       ConfirmedConfiguration& confirmed) {
  const MicroConfiguration& named = run.micro;
  ConvolutionProblem part = problem;
  part.n = named.micro_batch;
  const auto listed = engines.List(part);
  confirmed.unanswered = !listed.ok();
  const std::string piece = NameOfPiece(problem.operation, named);
  if (!listed.ok()) return Status::Error(piece + ": " + listed.message());
  const auto found = std::find_if(
      listed->begin(), listed->end(),
      [&](const cudnn::ListedEngine& other) { return other.choice.engine == named.engine; });
  if (found == listed->end()) return Status::Error(piece + ": the library has no such engine");
  const cudnn::EngineChoice& choice = found->choice;
  MicroConfiguration needed = {named.engine, named.micro_batch, named.time_ms,
                               choice.workspace_bytes, choice.deterministic};
  if (IsPartial(problem, named.micro_batch)) needed = AsPartial(problem, std::move(needed), 0);
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
  const int step = LegalStep(problem);
  for (size_t at = 0; at < configuration.runs.size() && confirmed.status.ok(); ++at) {
    const Run& run = configuration.runs[at];
    const bool last = at + 1 == configuration.runs.size() && run.count == 1;
    const bool legal = run.micro.micro_batch % step == 0 || last;
    confirmed.status =
        run.micro.tile != TileLengths{}
            ? Status::Error(NameOfPiece(problem.operation, run.micro) + ": tiles are not followed")
        : legal ? AppendConfirmed(problem, run, *engines[at], confirmed)
                : Status::Error(NameOfPiece(problem.operation, run.micro) +
                                ": pieces here have a multiple of " + std::to_string(step));
  }
  return confirmed;
}

}  // namespace ucudnn::interposer
