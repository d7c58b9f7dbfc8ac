#include "decision_lines.h"

#include <iterator>
#include <variant>

namespace ucudnn::planning {
namespace {

// kReasons[i] is the name of the i-th enumerator of ReasonKind.
const char* const kReasons[] = {"Observed",
                                "DoesNotServe",
                                "NotMeasured",
                                "NotMeasuredYet",
                                "NoTime",
                                "NoTimeToFit",
                                "NoTimeForDivisions",
                                "AskedNotMeasured",
                                "NothingFaster",
                                "NothingFasterAnywhere",
                                "NothingFasterInTime",
                                "NothingFits",
                                "NoSubstituteFits",
                                "DivisionsNotMeasured",
                                "NoDivisionFits",
                                "AllDivisionsWrong",
                                "NoSubstituteReady",
                                "CannotBeDivided",
                                "NotDeterministic",
                                "OverStrictLimit",
                                "Divided",
                                "DividedByAnother",
                                "InPlaceOf",
                                "Substituted",
                                "GraphEngine",
                                "OwnWorkspace",
                                "AsTold",
                                "AsToldForIdentity",
                                "AskedAfterFailure",
                                "AskedNotCompared",
                                "UndividedAfterFailure",
                                "UndividedNotCompared",
                                "NotPrepared",
                                "BrokenInvariant",
                                "PlanFile",
                                "PlanFileOwnEngine",
                                "PlanFileNoGain",
                                "PlanFileWrong"};
static_assert(std::size(kReasons) == static_cast<size_t>(ReasonKind::kWorkspacePlanWrong) + 1);

// kCauses[i] is the name of the i-th enumerator of FallbackCause.
const char* const kCauses[] = {"NotMeasuredOverLimit",
                               "NotMeasuredNotDeterministic",
                               "OverLimit",
                               "NoDeterministicEngine",
                               "OverStrictLimit",
                               "DivisionWrong",
                               "GraphEngineWrong",
                               "NotPrepared",
                               "CannotBeMeasured",
                               "PromiseLost",
                               "PlanFileDoesNotHold",
                               "PlanFileUnanswered",
                               "PlanFileLacksIt",
                               "PieceFailed",
                               "PieceFailedAlone",
                               "PieceFailedAsAsked",
                               "CheckFailed",
                               "ScarceWorkspace",
                               "NothingUndividedFits",
                               "NothingKnownFits",
                               "NoShare",
                               "LeftAlone",
                               "Refused",
                               "TooManyKernels",
                               "RanksShareNoStore",
                               "HostsShareNoStore",
                               "BrokenInvariant"};
static_assert(std::size(kCauses) == static_cast<size_t>(FallbackCause::kBrokenInvariant) + 1);

std::string NameOf(const World& world, const EngineId& engine) {
  const std::string text = engine.Text();
  const std::string number = text.substr(text.find(':') + 1);
  const bool foreign =
      std::holds_alternative<CallFacts>(world.facts.program) && engine.of_graph_api();
  return (foreign ? "g" : "") + number;
}

std::string NameOf(const World& world, const MicroConfiguration& micro) {
  return NameOf(world, micro.engine) + "@" + std::to_string(micro.micro_batch);
}

std::string NameOf(const World& world, const Configuration& configuration) {
  std::string text;
  for (const Run& run : configuration.runs) {
    if (!text.empty()) text += "+";
    if (configuration.IsTiled()) {
      text += NameOf(world, run.micro.engine) + "#" + std::to_string(run.count);
      continue;
    }
    text += NameOf(world, run.micro);
    if (run.count > 1) text += "x" + std::to_string(run.count);
  }
  return text;
}

std::string RunsOf(const World& world, const Decision& decision) {
  if (decision.action == CallAction::kReal) return "asked";
  if (decision.action == CallAction::kRefusal) return "refused";
  const std::string plan = NameOf(world, decision.configuration);
  switch (decision.fallback) {
    case FallbackKind::kReal:
      return plan + " else asked";
    case FallbackKind::kPieces:
      return plan + " or fails";
    case FallbackKind::kUndivided:
      break;
  }
  const std::string whole = NameOf(world, decision.undivided);
  return whole == plan ? plan : plan + " else " + whole;
}

// Reads the engine from its name in a report, "IMPLICIT_PRECOMP_GEMM (legacy:1)" or just
// "legacy:1".
EngineId NamedEngine(const std::string& name) {
  const size_t open = name.find(" (");
  return open == std::string::npos ? name : name.substr(open + 2, name.size() - open - 3);
}

std::string NameOf(const World& world, const Reason& reason) {
  std::string text = Name(reason.because);
  if (reason.in_tiles) text += " InTiles";
  if (reason.pieces > 1) text += " " + std::to_string(reason.pieces);
  if (reason.bytes > 0) text += " " + std::to_string(reason.bytes);
  if (reason.limit_bytes > 0) text += " <=" + std::to_string(reason.limit_bytes);
  const bool of_engine =
      reason.because == ReasonKind::kInPlaceOf || reason.because == ReasonKind::kSubstituted;
  if (of_engine) text += " " + NameOf(world, NamedEngine(reason.detail));
  if (!reason.no_tiles.empty()) text += " (" + reason.no_tiles + ")";
  return text;
}

}  // namespace

std::string Describe(const World& world, const Decision& decision) {
  std::string text;
  if (decision.standing) {
    text = "stands";
  } else {
    text = RunsOf(world, decision) + "; " + std::to_string(decision.promised_bytes);
    if (decision.owned_bytes > 0) text += "+" + std::to_string(decision.owned_bytes);
    text += "; " + NameOf(world, decision.reason);
    if (decision.promise) {
      const char* const how = decision.replaces_promise ? "replaces "
                              : decision.gives_promise  ? "gives "
                                                        : "keeps ";
      text += "; " + (how + std::to_string(decision.promise->workspace_bytes)) + "/" +
              NameOf(world, decision.promise->undivided) +
              (decision.promise->any_engine ? "*" : "");
    }
  }
  if (decision.look_again == When::kNextCall) text += "; next";
  if (decision.look_again == When::kLater) text += "; later";
  for (const Note& note : world.fallbacks) text += std::string("; !") + Name(note.cause);
  return text;
}

const char* Name(ReasonKind kind) { return kReasons[static_cast<size_t>(kind)]; }
const char* Name(FallbackCause cause) { return kCauses[static_cast<size_t>(cause)]; }

}  // namespace ucudnn::planning
