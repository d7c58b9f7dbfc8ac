// Why a kernel runs in its way, and what did not go as planned: values, each with its one sentence
// for the report and the log. Plain values.
#pragma once

#include <cstddef>
#include <string>

namespace ucudnn::planning {

enum class Because {
  kObserved,
  kDoesNotServe,    // the real library refuses the algorithm
  kNotMeasured,     // not measured, and never will be
  kNotMeasuredYet,  // a later call may know more
  kNoTime,          // the time for measuring was used up before
  // The time was used up before anything that may fit was measured; the caller's own call runs.
  kNoTimeToFit,
  kNoTimeForDivisions,     // the time was used up before divisions of a graph plan were measured
  kAskedNotMeasured,       // other engines are measured, the algorithm asked for is not
  kNothingFaster,          // within a limit that excludes engines
  kNothingFasterAnywhere,  // no limit excludes an engine, and still nothing is faster
  kNothingFasterInTime,    // nothing is faster among the engines that there was time to measure
  kNothingFits,            // no engine as exact and deterministic fits; the caller's own call runs
  kNoSubstituteFits,       // no engine as exact and deterministic as a graph plan fits
  kDivisionsNotMeasured,
  kNoDivisionFits,
  kAllDivisionsWrong,
  kNoSubstituteReady,  // no substitute could be built
  kCannotBeDivided,    // the mini-batch is a single image
  kNotDeterministic,   // the plan is refused
  kOverStrictLimit,    // the call is refused
  kDivided,
  kDividedByAnother,  // `detail` has no pieces that fit, so pieces of another algorithm run
  kInPlaceOf,         // a faster engine that fits, in place of `detail`
  kSubstituted,       // an engine that fits, in place of `detail`
  kGraphEngine,
  kOwnWorkspace,       // undivided, in ucudnn's own workspace
  kAsTold,             // undivided, as ucudnn answered when it was asked
  kAsToldForIdentity,  // more was told than it uses, so that an identity activation can also run
  kAskedAfterFailure,  // as the caller asked, because a piece failed
  kAskedNotCompared,   // as the caller asked, because the plan was not compared yet
  kUndividedAfterFailure,
  kUndividedNotCompared,
  kNotPrepared,      // it could not be built
  kBrokenInvariant,  // the decision contradicted itself
  kWorkspacePlan,
  kWorkspacePlanOwnEngine,  // the file's micro-batches, with the plan's own engine
  kWorkspacePlanNoGain,     // with the plan's own engine, the file's micro-batches need no less
                            // workspace
  kWorkspacePlanWrong,      // the file's micro-batches were found wrong
};

// Besides `because`, a sentence uses those members that it has a place for. `detail` is an engine
// or a message.
struct Reason {
  Because because = Because::kNotMeasured;
  int pieces = 1;
  size_t bytes = 0, limit_bytes = 0;
  std::string detail;
  bool in_tiles = false;  // the pieces are tiles
  std::string no_tiles;   // why no tiles run; empty if none were sought

  bool operator==(const Reason&) const = default;
};
std::string Sentence(const Reason& reason);

// An entry of the report's `fallbacks`.
enum class Cause {
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
const char* Sentence(Cause cause);

// The detail of a cause or a reason, if the words are ucudnn's own.
enum class Detail {
  kServesIdentity,  // why the workspace of a named algorithm exceeds the limit
  kNoRoomInTotal,   // nothing of the total workspace can be set aside
  kNothingUndivided,
  kPromisedBefore,  // a promise was given before and must not grow
  kPromiseOverLimit,
  kNotDeterministic,
  kStaysWhole,
  kUnfamiliarShapes,
  kNoEngine,         // a substitute's engine is not known
  kEngineNeedsMore,  // than is promised
  kWorkspacePlanEmpty,
  kWorkspacePlanWithoutTotal,
  kWorkspacePlanTooLarge,
  kWorkspacePlanOfOtherBatches,
  kTilesNeedMore,  // even the grid that needs least exceeds the limit
  kOnlyTilesFit,   // no undivided engine fits that serves other calls
};
// The values that fill the places of a sentence. `words` are an engine, a message or a list.
struct Particulars {
  size_t bytes = 0, limit_bytes = 0;
  int images = 0;
  std::string words;
};
std::string Sentence(Detail detail, const Particulars& particulars = {});

struct Note {
  Cause cause = Cause::kOverLimit;
  std::string detail;  // the part that differs between kernels; may be empty

  bool operator==(const Note&) const = default;
};

}  // namespace ucudnn::planning
