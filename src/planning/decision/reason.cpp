#include "planning/decision/reason.h"

#include "base/byte_size.h"

namespace ucudnn::planning {
namespace {

// Returns the sentence with the placeholders {bytes}, {limit}, {detail} and {divided}.
// Long because every reason has a sentence.
const char* Template(ReasonKind because) {
  switch (because) {
    case ReasonKind::kObserved:
      return "observed: runs as the caller asked";
    case ReasonKind::kDoesNotServe:
      return "the algorithm does not serve this kernel: runs as the caller asked";
    case ReasonKind::kNotMeasured:
      return "not measured: runs as the caller asked";
    case ReasonKind::kNotMeasuredYet:
      return "not measured yet: runs as the caller asked";
    case ReasonKind::kNoTime:
      return "measuring found no time for it: runs as the caller asked";
    case ReasonKind::kNoTimeToFit:
      return "measuring found no time for all that may fit {limit}: runs as the caller asked";
    case ReasonKind::kNoTimeForDivisions:
      return "measuring found no time for all its divisions, none is known to fit {limit}";
    case ReasonKind::kAskedNotMeasured:
      return "the algorithm itself is not measured: runs as the caller asked";
    case ReasonKind::kNothingFaster:
      return "nothing within the limit is faster than what the caller asked for";
    case ReasonKind::kNothingFasterAnywhere:
      return "nothing is faster than what the caller asked for";
    case ReasonKind::kNothingFasterInTime:
      return "nothing that measuring found time for is faster than what the caller asked for";
    case ReasonKind::kNothingFits:
      return "no engine as exact and deterministic fits {limit}: runs as the caller asked";
    case ReasonKind::kNoSubstituteFits:
      return "no engine as exact and deterministic fits {limit}";
    case ReasonKind::kDivisionsNotMeasured:
      return "its divisions are not measured, none is known to fit {limit}";
    case ReasonKind::kNoDivisionFits:
      return "no division fits {limit}";
    case ReasonKind::kAllDivisionsWrong:
      return "every division of it was found wrong";
    case ReasonKind::kNoSubstituteReady:
      return "nothing undivided is ready inside the promise";
    case ReasonKind::kCannotBeDivided:
      return "cannot be divided: runs as the caller asked";
    case ReasonKind::kNotDeterministic:
      return "not deterministic: refused";
    case ReasonKind::kOverStrictLimit:
      return "needs {bytes}, over the limit of {limit}: refused";
    case ReasonKind::kDivided:
      return "{divided}";
    case ReasonKind::kDividedByAnother:
      return "{divided} of an engine in place of {detail}, of which no pieces fit; pointers that "
             "are "
             "aligned to less than 16 bytes it may refuse";
    case ReasonKind::kInPlaceOf:
      return "a faster engine that fits, in place of {detail}";
    case ReasonKind::kSubstituted:
      return "an engine that fits, in place of {detail}";
    case ReasonKind::kGraphEngine:
      return "a faster engine of the graph API";
    case ReasonKind::kOwnWorkspace:
      return "undivided, in ucudnn's own workspace";
    case ReasonKind::kAsTold:
      return "undivided, as ucudnn answered when it was asked";
    case ReasonKind::kAsToldForIdentity:
      return "{divided}: the workspace told is the least that serves an identity activation, too";
    case ReasonKind::kAskedAfterFailure:
      return "as the caller asked, because a piece of a plan failed";
    case ReasonKind::kAskedNotCompared:
      return "as the caller asked, because the plan was not yet compared with it: {detail}";
    case ReasonKind::kUndividedAfterFailure:
      return "undivided, because a piece of a plan failed";
    case ReasonKind::kUndividedNotCompared:
      return "undivided, because the plan was not yet compared with it: {detail}";
    case ReasonKind::kNotPrepared:
      return "the plan could not be prepared: {detail}";
    case ReasonKind::kBrokenInvariant:
      return "a decision contradicted itself: runs as the caller asked";
    case ReasonKind::kWorkspacePlan:
      return "{divided}, as the workspace plan says";
    case ReasonKind::kWorkspacePlanOwnEngine:
      return "{divided}, as the workspace plan says, with its own engine";
    case ReasonKind::kWorkspacePlanNoGain:
      return "{divided}: the workspace plan's micro-batches need no less workspace with its own "
             "engine";
    case ReasonKind::kWorkspacePlanWrong:
      return "undivided, because the workspace plan's micro-batches were found wrong";
  }
  return "";
}

// Returns the sentence with the placeholders {bytes}, {limit}, {exact bytes}, {exact limit},
// {images} and {words}.
const char* Template(Detail detail) {
  switch (detail) {
    case Detail::kServesIdentity:
      return "it must serve an identity activation, too, which no other algorithm does";
    case Detail::kNoRoomInTotal:
      return "the total workspace has no room left";
    case Detail::kNothingUndivided:
      return "no engine as exact runs it undivided";
    case Detail::kPromisedBefore:
      return "another workspace was promised before";
    case Detail::kPromiseOverLimit:
      return "it exceeds the limit";
    case Detail::kNotDeterministic:
      return "not deterministic";
    case Detail::kStaysWhole:
      return "needs {bytes}, over the limit of {limit}, and stays whole: {words}";
    case Detail::kUnfamiliarShapes:
      return "a convolution of dynamic or ragged shapes";
    case Detail::kNoEngine:
      return "its engine is not known";
    case Detail::kEngineNeedsMore:
      return "{words} needs {exact bytes} bytes, not {exact limit}";
    case Detail::kWorkspacePlanEmpty:
      return "it names no kernel";
    case Detail::kWorkspacePlanWithoutTotal:
      return "it has no total_bytes, and a total workspace is set";
    case Detail::kWorkspacePlanTooLarge:
      return "its segments take {exact bytes} bytes, more than the total workspace of {exact "
             "limit}";
    case Detail::kWorkspacePlanOfOtherBatches:
      return "it has it for {words} images, not for {images}";
    case Detail::kTilesNeedMore:
      return "tiles need {bytes} at least";
    case Detail::kOnlyTilesFit:
      return "tiles fit, and no undivided algorithm that serves the calls which tiles cannot";
  }
  return "";
}

void Fill(std::string& words, const char* place, const std::string& value) {
  const size_t at = words.find(place);
  if (at != std::string::npos) words.replace(at, std::string(place).size(), value);
}

}  // namespace

std::string Sentence(const Reason& reason) {
  std::string words = Template(reason.because);
  const std::string divided = "divided into " + std::to_string(reason.pieces) +
                              (reason.in_tiles ? " tiles" : " micro-batches");
  Fill(words, "{divided}", reason.pieces > 1 ? divided : "undivided");
  Fill(words, "{bytes}", FormatByteSize(reason.bytes));
  Fill(words, "{limit}", FormatByteSize(reason.limit_bytes));
  Fill(words, "{detail}", reason.detail);
  if (!reason.no_tiles.empty()) words += "; " + reason.no_tiles;
  return words;
}

std::string Sentence(Detail detail, const Particulars& particulars) {
  std::string words = Template(detail);
  Fill(words, "{bytes}", FormatByteSize(particulars.bytes));
  Fill(words, "{limit}", FormatByteSize(particulars.limit_bytes));
  Fill(words, "{exact bytes}", std::to_string(particulars.bytes));
  Fill(words, "{exact limit}", std::to_string(particulars.limit_bytes));
  Fill(words, "{images}", std::to_string(particulars.images));
  Fill(words, "{words}", particulars.words);
  return words;
}

const char* Sentence(FallbackCause cause) {
  switch (cause) {
    case FallbackCause::kNotMeasuredOverLimit:
      return "not measured, so it cannot be brought under the workspace limit";
    case FallbackCause::kNotMeasuredNotDeterministic:
      return "not measured, so nothing deterministic can take its place";
    case FallbackCause::kOverLimit:
      return "cannot be brought under the workspace limit";
    case FallbackCause::kNoDeterministicEngine:
      return "no deterministic engine serves it";
    case FallbackCause::kOverStrictLimit:
      return "refused: it cannot be brought under the strict workspace limit";
    case FallbackCause::kDivisionWrong:
      return "a divided plan is wrong and never used";
    case FallbackCause::kGraphEngineWrong:
      return "a graph engine is wrong and never used";
    case FallbackCause::kNotPrepared:
      return "a plan could not be prepared";
    case FallbackCause::kCannotBeMeasured:
      return "cannot be measured";
    case FallbackCause::kPromiseLost:
      return "an earlier promise cannot be kept";
    case FallbackCause::kWorkspacePlanDoesNotHold:
      return "the workspace plan does not hold for it";
    case FallbackCause::kWorkspacePlanUnanswered:
      return "the workspace plan cannot be followed yet";
    case FallbackCause::kWorkspacePlanLacksIt:
      return "the workspace plan does not have it";
    case FallbackCause::kPieceFailed:
      return "a piece failed; this kernel runs undivided from now on";
    case FallbackCause::kPieceFailedAlone:
      return "a piece failed, and nothing else keeps what was promised: its error is returned";
    case FallbackCause::kPieceFailedAsAsked:
      return "a piece failed; the call runs as the caller asked";
    case FallbackCause::kCheckFailed:
      return "UCUDNN_CHECK found the plan wrong; it is never used again";
    case FallbackCause::kScarceWorkspace:
      return "the caller had less memory than it was told to use: the limit falls";
    case FallbackCause::kNothingUndividedFits:
      return "no undivided engine fits the workspace limit";
    case FallbackCause::kNothingKnownFits:
      return "not measured, and no algorithm is known that keeps what was asked for";
    case FallbackCause::kNoShare:
      return "not measured without workspace, so it has no part in the total";
    case FallbackCause::kLeftAlone:
      return "left alone";
    case FallbackCause::kRefused:
      return "refused";
    case FallbackCause::kTooManyKernels:
      return "too many different kernels: others run as the caller asked";
    case FallbackCause::kRanksShareNoStore:
      return "measured for this process alone: ranks that share no store may choose different "
             "plans; name one that all can write with UCUDNN_DATABASE";
    case FallbackCause::kHostsShareNoStore:
      return "the store lies on a network file system, where every host writes its own: ranks of "
             "different hosts may choose different plans until `ucudnn cache merge` joins them";
    case FallbackCause::kBrokenInvariant:
      return "a decision contradicts itself; the call runs as the caller asked";
  }
  return "";
}

}  // namespace ucudnn::planning
