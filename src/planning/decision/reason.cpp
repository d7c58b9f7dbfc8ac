#include "planning/decision/reason.h"

#include "base/byte_size.h"

namespace ucudnn::planning {
namespace {

// Returns the sentence, in which {bytes}, {limit}, {detail} and {divided} stand for values.
// Long because every reason has one.
const char* Template(Because because) {
  switch (because) {
    case Because::kObserved:
      return "observed: runs as the caller asked";
    case Because::kDoesNotServe:
      return "the algorithm does not serve this kernel: runs as the caller asked";
    case Because::kNotMeasured:
      return "not measured: runs as the caller asked";
    case Because::kNotMeasuredYet:
      return "not measured yet: runs as the caller asked";
    case Because::kNoTime:
      return "measuring found no time for it: runs as the caller asked";
    case Because::kNoTimeToFit:
      return "measuring found no time for all that may fit {limit}: runs as the caller asked";
    case Because::kNoTimeForDivisions:
      return "measuring found no time for all its divisions, none is known to fit {limit}";
    case Because::kAskedNotMeasured:
      return "the algorithm itself is not measured: runs as the caller asked";
    case Because::kNothingFaster:
      return "nothing within the limit is faster than what the caller asked for";
    case Because::kNothingFasterAnywhere:
      return "nothing is faster than what the caller asked for";
    case Because::kNothingFasterInTime:
      return "nothing that measuring found time for is faster than what the caller asked for";
    case Because::kNothingFits:
      return "no engine as exact and deterministic fits {limit}: runs as the caller asked";
    case Because::kNoSubstituteFits:
      return "no engine as exact and deterministic fits {limit}";
    case Because::kDivisionsNotMeasured:
      return "its divisions are not measured, none is known to fit {limit}";
    case Because::kNoDivisionFits:
      return "no division fits {limit}";
    case Because::kAllDivisionsWrong:
      return "every division of it was found wrong";
    case Because::kNoSubstituteReady:
      return "nothing undivided is ready inside the promise";
    case Because::kCannotBeDivided:
      return "cannot be divided: runs as the caller asked";
    case Because::kNotDeterministic:
      return "not deterministic: refused";
    case Because::kOverStrictLimit:
      return "needs {bytes}, over the limit of {limit}: refused";
    case Because::kDivided:
      return "{divided}";
    case Because::kDividedByAnother:
      return "{divided} of an engine in place of {detail}, of which no pieces fit; pointers that "
             "are "
             "aligned to less than 16 bytes it may refuse";
    case Because::kInPlaceOf:
      return "a faster engine that fits, in place of {detail}";
    case Because::kSubstituted:
      return "an engine that fits, in place of {detail}";
    case Because::kGraphEngine:
      return "a faster engine of the graph API";
    case Because::kOwnWorkspace:
      return "undivided, in ucudnn's own workspace";
    case Because::kAsTold:
      return "undivided, as ucudnn answered when it was asked";
    case Because::kAsToldForIdentity:
      return "{divided}: the workspace told is the least that serves an identity activation, too";
    case Because::kAskedAfterFailure:
      return "as the caller asked, because a piece of a plan failed";
    case Because::kAskedNotCompared:
      return "as the caller asked, because the plan was not yet compared with it: {detail}";
    case Because::kUndividedAfterFailure:
      return "undivided, because a piece of a plan failed";
    case Because::kUndividedNotCompared:
      return "undivided, because the plan was not yet compared with it: {detail}";
    case Because::kNotPrepared:
      return "the plan could not be prepared: {detail}";
    case Because::kBrokenInvariant:
      return "a decision contradicted itself: runs as the caller asked";
    case Because::kWorkspacePlan:
      return "{divided}, as the workspace plan says";
    case Because::kWorkspacePlanOwnEngine:
      return "{divided}, as the workspace plan says, with its own engine";
    case Because::kWorkspacePlanNoGain:
      return "{divided}: the workspace plan's micro-batches need no less workspace with its own "
             "engine";
    case Because::kWorkspacePlanWrong:
      return "undivided, because the workspace plan's micro-batches were found wrong";
  }
  return "";
}

// Returns the sentence, in which {bytes}, {limit}, {exact bytes}, {exact limit}, {images} and
// {words} stand for values.
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

const char* Sentence(Cause cause) {
  switch (cause) {
    case Cause::kNotMeasuredOverLimit:
      return "not measured, so it cannot be brought under the workspace limit";
    case Cause::kNotMeasuredNotDeterministic:
      return "not measured, so nothing deterministic can take its place";
    case Cause::kOverLimit:
      return "cannot be brought under the workspace limit";
    case Cause::kNoDeterministicEngine:
      return "no deterministic engine serves it";
    case Cause::kOverStrictLimit:
      return "refused: it cannot be brought under the strict workspace limit";
    case Cause::kDivisionWrong:
      return "a divided plan is wrong and never used";
    case Cause::kGraphEngineWrong:
      return "a graph engine is wrong and never used";
    case Cause::kNotPrepared:
      return "a plan could not be prepared";
    case Cause::kCannotBeMeasured:
      return "cannot be measured";
    case Cause::kPromiseLost:
      return "an earlier promise cannot be kept";
    case Cause::kWorkspacePlanDoesNotHold:
      return "the workspace plan does not hold for it";
    case Cause::kWorkspacePlanUnanswered:
      return "the workspace plan cannot be followed yet";
    case Cause::kWorkspacePlanLacksIt:
      return "the workspace plan does not have it";
    case Cause::kPieceFailed:
      return "a piece failed; this kernel runs undivided from now on";
    case Cause::kPieceFailedAlone:
      return "a piece failed, and nothing else keeps what was promised: its error is returned";
    case Cause::kPieceFailedAsAsked:
      return "a piece failed; the call runs as the caller asked";
    case Cause::kCheckFailed:
      return "UCUDNN_CHECK found the plan wrong; it is never used again";
    case Cause::kScarceWorkspace:
      return "the caller had less memory than it was told to use: the limit falls";
    case Cause::kNothingUndividedFits:
      return "no undivided engine fits the workspace limit";
    case Cause::kNothingKnownFits:
      return "not measured, and no algorithm is known that keeps what was asked for";
    case Cause::kNoShare:
      return "not measured without workspace, so it has no part in the total";
    case Cause::kLeftAlone:
      return "left alone";
    case Cause::kRefused:
      return "refused";
    case Cause::kTooManyKernels:
      return "too many different kernels: others run as the caller asked";
    case Cause::kRanksShareNoStore:
      return "measured for this process alone: ranks that share no store may choose different "
             "plans; name one that all can write with UCUDNN_DATABASE";
    case Cause::kHostsShareNoStore:
      return "the store lies on a network file system, where every host writes its own: ranks of "
             "different hosts may choose different plans until `ucudnn cache merge` joins them";
    case Cause::kBrokenInvariant:
      return "a decision contradicts itself; the call runs as the caller asked";
  }
  return "";
}

}  // namespace ucudnn::planning
