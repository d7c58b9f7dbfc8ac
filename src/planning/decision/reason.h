// Why a kernel runs as it does, and what did not go as planned. Each reason and each cause has one
// sentence, for the report and the log. Plain values.
#pragma once

#include <cstddef>
#include <string>

namespace ucudnn::planning {

enum class ReasonKind {
  kObserved,
  kDoesNotServe,    // the real library refuses the algorithm
  kNotMeasured,     // not measured, and this process will never measure it
  kNotMeasuredYet,  // a later call may know more
  kNoTime,          // the time for measuring was used up before this kernel was measured
  // The time was used up before anything that may fit was measured, so the caller's own call runs.
  kNoTimeToFit,
  kNoTimeForDivisions,     // the time was used up before divisions of a graph plan were measured
  kAskedNotMeasured,       // other engines were measured, the named algorithm was not
  kNothingFaster,          // nothing is faster within a limit that excludes engines
  kNothingFasterAnywhere,  // nothing is faster, and no limit excludes an engine
  kNothingFasterInTime,    // nothing is faster among the engines that could be measured in time
  kNothingFits,  // no engine that is as exact and as deterministic fits; the caller's own call runs
  kNoSubstituteFits,  // no engine that is as exact and as deterministic as a graph plan fits
  kDivisionsNotMeasured,
  kNoDivisionFits,
  kAllDivisionsWrong,
  kNoSubstituteReady,  // no substitute could be built
  kCannotBeDivided,    // the mini-batch is a single image, and tiles gain nothing
  kNotDeterministic,   // not deterministic, so the plan is refused
  kOverStrictLimit,    // over a strict limit, so the call is refused
  kDivided,
  kDividedByAnother,  // no pieces of the algorithm `detail` fit, so pieces of another algorithm run
  kInPlaceOf,         // a faster engine that fits runs in place of `detail`
  kSubstituted,       // an engine that fits runs in place of `detail`
  kGraphEngine,
  kOwnWorkspace,  // undivided, in ucudnn's own workspace
  kAsTold,        // undivided, as the caller was told when it asked
  // The caller was told more workspace than this call uses, because an identity activation needs
  // it.
  kAsToldForIdentity,
  kAskedAfterFailure,  // the caller's own call, because a piece failed
  kAskedNotCompared,   // the caller's own call, because the plan was not compared yet
  kUndividedAfterFailure,
  kUndividedNotCompared,
  kNotPrepared,      // the pieces could not be built
  kBrokenInvariant,  // the decision contradicted itself
  kWorkspacePlan,
  kWorkspacePlanOwnEngine,  // the file's micro-batches, with the plan's own engine
  // The plan's own engine runs undivided, because in the file's micro-batches it needs no less
  // workspace.
  kWorkspacePlanNoGain,
  kWorkspacePlanWrong,  // the file's micro-batches were found wrong
};

// The reason of a decision. Its sentence shows the members for which the text has a placeholder.
// `detail` is an engine or a message.
struct Reason {
  ReasonKind because = ReasonKind::kNotMeasured;
  int pieces = 1;
  size_t bytes = 0, limit_bytes = 0;
  std::string detail;
  bool in_tiles = false;  // the pieces are tiles
  std::string no_tiles;   // why no tiles run; empty if no tiles were sought

  bool operator==(const Reason&) const = default;
};
std::string Sentence(const Reason& reason);

// The cause of an entry in the report's `fallbacks`.
enum class FallbackCause {
  kNotMeasuredOverLimit,
  kNotMeasuredNotDeterministic,
  kOverLimit,
  kNoDeterministicEngine,
  kOverStrictLimit,
  kDivisionWrong,
  kGraphEngineWrong,
  kNotPrepared,
  kCannotBeMeasured,
  kPromiseLost,  // an earlier promise cannot be kept
  kWorkspacePlanDoesNotHold,
  kWorkspacePlanUnanswered,
  kWorkspacePlanLacksIt,
  kPieceFailed,
  kPieceFailedAlone,  // a piece failed, and nothing else keeps the promise
  kPieceFailedAsAsked,
  kCheckFailed,  // UCUDNN_CHECK found the plan wrong
  kScarceWorkspace,
  kNothingUndividedFits,
  kNothingKnownFits,
  kNoShare,
  kLeftAlone,
  kRefused,
  kTooManyKernels,
  kRanksShareNoStore,
  kHostsShareNoStore,
  kBrokenInvariant,
};
const char* Sentence(FallbackCause cause);

// Texts that become the `detail` of a note or of a reason.
enum class Detail {
  kServesIdentity,  // why no algorithm below the limit may replace the named one
  kNoRoomInTotal,   // the total workspace has nothing left to set aside
  kNothingUndivided,
  kPromisedBefore,  // this process gave another promise before, which must not grow
  kPromiseOverLimit,
  kNotDeterministic,
  kStaysWhole,
  kUnfamiliarShapes,
  kNoEngine,         // the engine of a substitute is not known
  kEngineNeedsMore,  // the engine needs more than is promised
  kWorkspacePlanEmpty,
  kWorkspacePlanWithoutTotal,
  kWorkspacePlanTooLarge,
  kWorkspacePlanOfOtherBatches,
  kTilesNeedMore,  // even the grid with the smallest need exceeds the limit
  // Tiles fit, but no undivided engine fits for the calls that tiles cannot serve.
  kOnlyTilesFit,
};
// The values that a sentence shows. `words` are an engine, a message or a list.
struct Particulars {
  size_t bytes = 0, limit_bytes = 0;
  int images = 0;
  std::string words;
};
std::string Sentence(Detail detail, const Particulars& particulars = {});

struct Note {
  FallbackCause cause = FallbackCause::kOverLimit;
  std::string detail;  // the part of the message that differs between kernels; may be empty

  bool operator==(const Note&) const = default;
};

}  // namespace ucudnn::planning
