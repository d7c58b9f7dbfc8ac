// Tests what Decide decides, row by row. A row describes a kernel, its measurements and its
// surroundings. Behind the arrow it says how the kernel runs, in how much workspace, and why:
//
//   KERNEL | ROWS | ELSE -> RUNS; BYTES; WHY
//
// E is the number of an engine: of legacy:E in a call of the legacy API, of graph:E in a plan of
// the graph API. In a call, gE is graph:E. An f or a w behind the number says that the engine
// rounds as FFT or Winograd do; other engines sum directly. B is a number of bytes of workspace,
// and I a number of images. MS is a time in milliseconds, or ? if nobody measured it. PLAN lists
// pieces, each written as in ROWS; x3 behind a piece makes it three equal pieces, and unlike pieces
// have a + between them. WHOLE is one piece of the whole mini-batch. "The file" is a workspace
// plan.
//
// KERNEL begins with a kind of call of the legacy API (kKinds in decision_reader.cpp), with `plan`,
// an execution plan of the graph API, or with `first`, the first plan of a heuristics list. Then:
//   asks=E        the engine that the program names; 1 if absent
//   need=B        the workspace that this engine needs
//   refuses       cuDNN refuses this engine for the call
//   passes=B      the workspace that a call passes; if absent, as much as need=B
//   limit=B       the user's limit
//   tiles=fit     tiles may be used to fit the limit
//   tiles=gain    tiles may be used to fit the limit or to gain time
//   tiles-need=B  no tiles fit: the smallest workspace of any tiles
//   no-tiles=WHY  no tiles can run, for the reason WHY
//   vast          the tiles of this plan may run other engines
//   random        the engines of this plan are not deterministic
//   n=I           the mini-batch; 8 if absent
//   step=I        pieces begin at multiples of I
//   math=M        the math type of the descriptor and of all rows (a cudnnMathType_t)
//   with-graph    engines of the graph API may run the call
//   file=PLAN     the file says PLAN; for calls, ~WHOLE,WHOLE lists undivided engines
//   file=own:PLAN    for plans: PLAN has the plan's own engine
//   file=whole:PLAN  for plans: PLAN is undivided, since dividing gains nothing
//   file=not:WHY     for plans: the file's entry cannot be used, for the reason WHY
//   file-waits    for plans: the file's entry can be used only when the plan runs
//   file-later    for calls: cuDNN may confirm the file's entry only at a later call
//   share=B/B     the kernel's share of a budget, and the limit for every kernel
//   assured=B     what ucudnn sets aside for any call; pieces-alone may use it
//   divided       an earlier decision runs the kernel in pieces
//   ran           an earlier decision runs the kernel, but not in pieces
//   lost          the budget took the share of the earlier decision away
// A call of the legacy API may have been told something before:
//   told=PLAN~WHOLE  PLAN runs, and WHOLE (if absent, PLAN's first piece) may replace it
//   room=B        the told promise has B bytes, more than it needs
//   provisional   the told promise was given before everything was measured
//   from-file     the told promise is from a workspace plan
//   serves=PLAN   the told promise runs PLAN in calls that no other algorithm can run
//   pieces-alone  no undivided engine can replace the told pieces. They ran in this process and
//                 were compared with WHOLE
//   alone=PLAN~WHOLE  a promise for calls that only the named algorithm can run: it runs PLAN,
//                     which was compared with WHOLE
//   was-told      the program was told a promise that needs more workspace than it passes
// A plan of the graph API may have a promise:
//   told=B/E      a promise of B bytes. If this is less than the plan's need, engine E keeps the
//                 promise in one piece (E*: E may also run in place of pieces); without E only
//                 pieces of the plan's own engine keep it. If B is more, E is the plan's own engine
//   stored=B/E    the same, promised by an earlier process
//   rival=B/E     the same, promised by another process just before this process promises
//   others=E/B    engines that may replace the plan, the best guess first
// ROWS are measurements: E@I:MS/B for a piece of I images, and E#I:MS/B for each of the I tiles
// that an image is cut into. In E#I:MS/B+E:MS/B the part behind the + is for each of two edge
// tiles. A trailing d marks a deterministic engine.
// ELSE describes the surroundings:
//   observes, deterministic, strict  the user set this option
//   untuned       this process measures nothing
//   unsettled     a later call may know more measurements
//   late          as unsettled, and this process has no time left to measure more
//   store         for plans: other processes may measure
//   capturing     the call's stream is captured
//   more-outside  for calls: a call outside the capture may use more engines
//   failed        a piece failed before
//   tiles-unsettled, tiles-late  as unsettled and late, but for tiles
//   wrong=E@I     these pieces (E#I: these tiles) are found wrong
//   uncompared=E@I  these pieces (E#I: these tiles) cannot be compared now
//   slower=E#I    timed in place, these tiles are slower than the undivided engine
//   too-large     the undivided call exceeds the memory for measuring, so tiles are compared alone
//   no-pieces     pieces cannot be built
//   no-whole      nothing undivided can be built
//
// RUNS is `asked` (the program's own call), `refused`, or a plan. Behind `else` is what runs if the
// plan cannot run; `or fails` says that then the call fails. E#I are I tiles of one kind. `stands`
// says that the earlier decision stays in force; BYTES and WHY are then absent. BYTES is the
// promised part of the caller's workspace; a number behind a + is workspace of ucudnn's own. WHY is
// the reason, with its details: InTiles, the number of pieces, bytes, a limit behind <=, an engine,
// and in parentheses what prevents tiles. Up to three things may follow WHY: the promise that a
// plan gives, keeps or replaces; `next` or `later`, the call at which the kernel is decided again;
// and the entries of the report's fallbacks, each behind a !.
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "decision_lines.h"

namespace ucudnn::planning {
namespace {

constexpr int kFirstLine = __LINE__ + 1;
constexpr std::string_view kTable = R"(
# A call that nobody asked about runs as it is until something is measured.
plain need=8 | | -> asked; 8; NotMeasured
plain need=8 | | unsettled -> asked; 8; NotMeasuredYet; later
plain need=8 | | unsettled untuned -> asked; 8; NotMeasured
plain need=8 limit=4 | | -> asked; 8; NotMeasured; !NotMeasuredOverLimit
plain need=8 limit=4 | | unsettled -> asked; 8; NotMeasuredYet; later
plain need=8 limit=4 | | strict -> refused; 8; OverStrictLimit 8 <=4; !NotMeasuredOverLimit; !OverStrictLimit
plain need=8 | | deterministic -> asked; 8; NotMeasured; !NotMeasuredNotDeterministic
# Where the time for measuring was used up before, that is said, and others may still measure.
plain need=8 | | late -> asked; 8; NoTime; later
plain need=8 limit=4 | | late -> asked; 8; NoTime; later; !NotMeasuredOverLimit
plain need=8 | | late deterministic -> asked; 8; NoTime; later; !NotMeasuredNotDeterministic
plain need=8 limit=4 | | late strict -> refused; 8; OverStrictLimit 8 <=4; later; !NotMeasuredOverLimit; !OverStrictLimit
plain need=8 limit=4 | 1@8:4/8 2@8:2/6 | late -> asked; 8; NoTimeToFit <=4; later; !NotMeasuredOverLimit
plain need=8 passes=4 | 1@8:4/8 2@8:2/6 | late -> asked; 8; NoTimeToFit <=4; later; !NotMeasuredOverLimit
plain need=8 | 1@8:4/8 | late deterministic -> asked; 8; NoTimeToFit <=8; later; !NotMeasuredNotDeterministic
plain need=8 | 1@8:4/8 0@8:3.9/0 | late -> asked; 8; NothingFasterInTime; later
plain need=8 | 1@8:4/8 0@8:3.9/0 | unsettled -> asked; 8; NothingFasterInTime; later
# What there was time for serves, pieces that came before the whole, too.
plain need=8 limit=4 | 0@8:9/0d | late -> 0@8; 0; InPlaceOf 1; later
plain need=8 limit=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | late -> 1@4x2 else 0@8; 4; Divided 2; later
plain need=8 limit=4 | 1@1:1/1 | late -> 1@1x8 else asked; 1; Divided 8; later

# The real library's error for an algorithm that does not serve stays the answer.
plain refuses passes=8 | 0@8:1/0 | -> asked; 0; DoesNotServe
plain refuses passes=8 limit=4 | 0@8:1/0 | strict -> asked; 0; DoesNotServe

# What is asked may be faster than all that is measured, where it fits and suits.
plain need=8 | 0@8:1/0d | -> asked; 8; AskedNotMeasured
plain need=8 passes=4 | 0@8:1/0d | -> 0@8; 0; InPlaceOf 1
plain need=8 | 0@8:1/0d | deterministic -> 0@8; 0; InPlaceOf 1
# Unmeasured, it may be deterministic.
plain need=8 passes=4 | 0@8:1/0 | -> asked; 8; NothingFits <=4

# Another engine, or a division, takes its place for a gain of 3 %.
plain need=8 | 1@8:4/8 0@8:3/0 | -> 0@8; 0; InPlaceOf 1
plain need=8 | 1@8:4/8 0@8:3.9/0 | -> asked; 8; NothingFaster
plain need=8 | 1@8:4/8 1@4:1/4 | -> 1@4x2 else 1@8; 8; Divided 2
plain need=8 | 1@8:4/8 1@4:1.95/4 | -> asked; 8; NothingFaster
plain need=8 | 1@8:4/8 1@4:1/4 0@8:9/2 | -> 1@4x2 else 0@8; 4; Divided 2
adding need=0 | 1@8:4/0 1@4:1/0 | -> 1@4x2 else 1@8; 0; Divided 2
scaled need=8 | 1@8:4/8 1@4:1/4 | -> 1@4x2 else 1@8; 8; Divided 2
activation need=8 | 1@8:4/8 1@4:1/4 | -> 1@4x2 else 1@8; 8; Divided 2


# The division gains over what is asked, but too little over engine 0 to run in its place: what runs
# is engine 0, which gains less than 3 %.
plain need=8 | 1@8:99.9/8 0@8:97/8 0@4:47.1/0 | -> 0@8; 8; InPlaceOf 1
# Where neither gains 3 % over what is asked, that runs.
plain need=8 | 1@8:96.9/8 0@8:94.1/8 0@4:47.1/0 | -> asked; 8; NothingFaster

# Where less is passed than it needs, or less is allowed, what fits takes its place.
plain need=8 passes=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | -> 1@4x2 else 0@8; 4; Divided 2
plain need=8 limit=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | -> 1@4x2 else 0@8; 4; Divided 2
plain need=8 limit=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | strict -> 1@4x2 else 0@8; 4; Divided 2
plain need=8 passes=2 | 1@8:4/8 0@8:9/0 1@4:3/4 | -> 0@8; 0; InPlaceOf 1
# Where no undivided engine as exact fits, pieces of the algorithm itself do, once compared with it.
plain need=8 passes=4 | 1@8:4/8 1@4:3/4 | -> 1@4x2 or fails; 4; Divided 2
plain need=8 passes=4 | 1@8:4/8 1@4:3/4 | uncompared=1@4 -> asked; 8; AskedNotCompared; later
plain need=8 limit=4 | 1@8:4/8 1@4:3/4 | -> 1@4x2 else asked; 4; Divided 2
plain need=8 limit=4 | 1@8:4/8 1@4:3/4 | uncompared=1@4 -> asked; 8; AskedNotCompared; later
plain need=8 limit=4 | 1@8:4/8 1@4:3/4 | wrong=1@4 -> asked; 8; NothingFits <=4; !DivisionWrong; !OverLimit
plain need=8 limit=4 | 1@8:4/8 1@4:3/4 | strict -> 1@4x2 or fails; 4; Divided 2
# What was told may be kept by pieces of another one that is as exact; misaligned pointers may be refused.
plain asks=2 need=8 passes=4 told=1@4:3/4x2~2@8:4/8 pieces-alone | 2@8:4/8 | -> 1@4x2 or fails; 4; DividedByAnother 2
misaligned asks=2 need=8 passes=4 told=1@4:3/4x2~2@8:4/8 pieces-alone | 2@8:4/8 | -> 1@4x2 or fails; 4; DividedByAnother 2
scaled asks=2 need=8 passes=4 told=1@4:3/4x2~2@8:4/8 pieces-alone | 2@8:4/8 | -> 1@4x2 or fails; 4; DividedByAnother 2
plain asks=2 need=8 passes=4 told=1@4:3/4x2~2@8:4/8 pieces-alone | 2@8:4/8 1@4:3/4 | wrong=1@4 -> asked; 8; NothingFits <=4; !DivisionWrong
plain need=8 limit=2 | 1@8:4/8 1@4:3/4 | strict -> refused; 8; OverStrictLimit 8 <=2; !OverLimit; !OverStrictLimit

# Pieces begin on legal steps.
plain need=8 passes=4 step=3 | 1@8:4/8 0@8:9/0 1@4:1/4 | -> 0@8; 0; InPlaceOf 1
plain need=8 passes=4 step=3 | 1@8:4/8 0@8:9/0 1@3:1/4 1@2:1/4 | -> 1@3x2+1@2 else 0@8; 4; Divided 3

# Nothing is less exact than what was asked, nor less deterministic.
plain need=8 passes=4 | 1@8:4/8 4f@8:1/0 0@8:9/0 | -> 0@8; 0; InPlaceOf 1
plain asks=4f need=8 passes=4 | 4f@8:4/8 6w@8:1/0 0@8:9/0 | -> 0@8; 0; InPlaceOf 4
plain asks=4f need=8 passes=4 | 4f@8:4/8 4f@4:1/4 0@8:9/0 | -> 4@4x2 else 0@8; 4; Divided 2
plain need=8 passes=4 | 1@8:4/8d 0@8:1/0 2@8:9/0d | -> 2@8; 0; InPlaceOf 1
plain need=8 passes=4 | 1@8:4/8 0@8:1/0 2@8:9/0d | -> 0@8; 0; InPlaceOf 1
plain need=8 | 1@8:4/8 0@8:9/0d | deterministic -> 0@8; 0; InPlaceOf 1
plain need=8 | 1@8:4/8 | deterministic -> asked; 8; NothingFits <=8; !NoDeterministicEngine

# Engines of the graph API serve where one of the legacy API may take their place.
plain need=8 with-graph | 1@8:4/8 g5@8:2/4 | -> g5@8 else 1@8; 8; InPlaceOf 1
plain need=8 | 1@8:4/8 g5@8:2/4 | -> asked; 8; NothingFaster
adding need=8 with-graph | 1@8:4/8 g5@8:2/4 | uncompared=g5@8 -> asked; 8; AskedNotCompared; later
plain need=8 with-graph | 1@8:4/8 g5@8:2/4 | wrong=g5@8 -> asked; 8; NothingFaster; !GraphEngineWrong

# No other engine serves an identity activation, or pointers on odd addresses.
misaligned need=8 | 1@8:4/8 0@8:1/0 | -> asked; 8; NothingFaster
misaligned need=8 | 1@8:4/8 1@4:1/4 0@8:1/0 | -> 1@4x2 else 1@8; 8; Divided 2
identity need=8 | 1@8:4/8 1@4:1/4 0@8:1/0 | -> 1@4x2 else 1@8; 8; Divided 2
misaligned need=8 passes=4 | 1@8:4/8 1@4:3/4 0@8:1/0 | -> 1@4x2 or fails; 4; Divided 2
identity need=8 passes=4 | 1@8:4/8 1@4:3/4 0@8:1/0 | -> 1@4x2 or fails; 4; Divided 2
identity need=8 passes=4 | 1@8:4/8 | -> asked; 8; NothingFits <=4
# Pieces that nothing replaces run uncompared only where nothing else may.
identity need=8 passes=4 | 1@8:4/8 1@4:3/4 | uncompared=1@4 -> 1@4x2 or fails; 4; Divided 2; later
identity need=8 limit=4 | 1@8:4/8 1@4:3/4 | uncompared=1@4 -> asked; 8; AskedNotCompared; later
identity need=8 limit=4 | 1@8:4/8 1@4:3/4 | uncompared=1@4 strict -> refused; 8; AskedNotCompared; later
identity need=8 limit=9 was-told | 1@4:3/4d | uncompared=1@4 strict deterministic -> asked; 8; AskedNotCompared; later
identity need=8 limit=4 was-told | 1@8:4/8 1@4:3/4 | uncompared=1@4 strict -> 1@4x2 or fails; 4; Divided 2; later
identity need=8 passes=4 | 1@8:4/8 1@4:3/4 | wrong=1@4 -> asked; 8; NothingFits <=4; !DivisionWrong

# A division runs once it was compared, and what is wrong never again.
plain need=8 | 1@8:4/8 1@4:1/4 | uncompared=1@4 -> asked; 8; AskedNotCompared; later
plain need=8 passes=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | uncompared=1@4 -> 0@8; 0; UndividedNotCompared; later
plain need=8 | 1@8:4/8 1@4:1/4 | wrong=1@4 -> asked; 8; NothingFaster; !DivisionWrong
plain need=8 | 1@8:4/8 1@4:1/4 1@2:.75/2 | wrong=1@4 -> 1@2x4 else 1@8; 8; Divided 4; !DivisionWrong
# After four wrong ones nothing more is compared.
plain need=8 | 1@8:9/8 1@4:1/4 2@4:2/4 3@4:3/4 1@2:2/2 | wrong=1@4,2@4,3@4 -> 1@2x4 else 1@8; 8; Divided 4; !DivisionWrong; !DivisionWrong; !DivisionWrong
plain need=8 | 1@8:9/8 1@4:1/4 2@4:2/4 3@4:3/4 4@4:3.5/4 1@2:2/2 | wrong=1@4,2@4,3@4,4@4 -> asked; 8; AskedNotCompared; later; !DivisionWrong; !DivisionWrong; !DivisionWrong; !DivisionWrong
# What was compared stays until the better plan is.
plain need=8 | 1@8:4/8 1@4:1/4 | uncompared=1@4 divided -> stands; later
plain need=8 | 1@8:4/8 1@4:1/4 | uncompared=1@4 ran -> asked; 8; AskedNotCompared; later

# After a piece failed, all runs undivided for ever.
plain need=8 | 1@8:4/8 1@4:1/4 | failed -> asked; 8; AskedAfterFailure
plain need=8 passes=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | failed unsettled -> 0@8; 0; UndividedAfterFailure
plain need=8 passes=4 told=1@4:3/4x2~0@8:9/0 | | failed -> 0@8; 0; UndividedAfterFailure
identity need=8 limit=4 | 1@8:4/8 1@4:3/4 | failed -> asked; 8; AskedAfterFailure
identity need=8 passes=4 | 1@8:4/8 1@4:3/4 | failed -> 1@4x2 or fails; 4; Divided 2

# What cannot be built gives way to what was asked, or else to what is undivided.
plain need=8 | 1@8:4/8 1@4:1/4 0@8:9/2 | no-pieces -> asked; 8; NotPrepared; !NotPrepared
plain need=8 passes=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | no-pieces -> 0@8; 0; NotPrepared; !NotPrepared
plain need=8 passes=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | no-pieces no-whole -> asked; 8; NotPrepared; !NotPrepared
plain need=8 passes=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | no-whole uncompared=1@4 -> asked; 8; NotPrepared; later; !NotPrepared
identity need=8 passes=4 | 1@8:4/8 1@4:3/4 | no-pieces -> asked; 8; NotPrepared; !NotPrepared
identity need=8 limit=4 | 1@8:4/8 1@4:3/4 | no-pieces strict -> refused; 8; NotPrepared; !NotPrepared

# Where the program is only observed, all runs as asked.
plain need=8 | 1@8:4/8 1@4:1/4 | observes -> asked; 8; Observed
plain refuses passes=6 | | observes -> asked; 6; Observed

# A capture may hide something that the next call knows; so does a library that has no answer yet.
plain need=8 | | capturing unsettled -> asked; 8; NotMeasuredYet; next
plain need=8 | 1@8:4/8 1@4:1/4 | capturing -> 1@4x2 else 1@8; 8; Divided 2
plain need=8 | 1@8:4/8 | capturing more-outside -> asked; 8; NothingFaster; next
plain need=8 | 1@8:4/8 | more-outside -> asked; 8; NothingFaster
plain need=8 | 1@8:4/8 | file-later -> asked; 8; NothingFaster; later
plain need=8 | 1@8:4/8 | observes capturing more-outside -> asked; 8; Observed; next

# What the program was told runs, inside what it was told.
plain need=8 passes=4 told=1@4:3/4x2~0@8:9/0 | | -> 1@4x2 else 0@8; 4; Divided 2
plain need=8 passes=4 told=0@8:9/0 | 0@8:9/0 2@8:1/0 | -> 0@8; 0; AsTold
plain need=4 told=1@8:4/4 | | -> asked; 4; AsTold
plain need=8 told=1@8:4/8 limit=4 | | strict -> asked; 8; AsTold
plain need=8 passes=2 was-told | 1@8:4/8 0@8:9/0 | -> 0@8; 0; InPlaceOf 1
plain need=8 told=1@4:3/4x2~0@8:9/0 limit=4 | | strict -> 1@4x2 else 0@8; 4; Divided 2
plain need=8 passes=4 told=1@4:3/4x2~0@8:9/0 | | uncompared=1@4 -> 0@8; 0; UndividedNotCompared; later
plain need=8 passes=4 told=1@4:3/4x2~0@8:9/0 | | no-pieces -> 0@8; 0; NotPrepared; !NotPrepared
plain need=8 passes=4 told=1@4:3/4x2~0@8:9/0 | 1@4:3/4 0@8:9/0 | wrong=1@4 -> 0@8; 4; AsTold; !DivisionWrong
plain need=8 passes=4 told=1@4:3/4x2~0@8:9/0 | 1@4:3/4 1@2:1/2 0@8:9/0 | wrong=1@4 -> 1@2x4 else 0@8; 4; Divided 4; !DivisionWrong

# What only its pieces keep is told no more once they are found wrong.
plain need=8 passes=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 | -> 1@4x2 or fails; 4; Divided 2
plain need=8 passes=8 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 | -> 1@4x2 else asked; 4; Divided 2
plain need=8 passes=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 | failed -> 1@4x2 or fails; 4; Divided 2
plain need=8 passes=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 1@4:3/4 1@2:2/2 | wrong=1@4 -> 1@2x4 or fails; 2; Divided 4; !DivisionWrong
plain need=8 passes=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 1@4:3/4 0@8:9/0 | wrong=1@4 -> 0@8; 0; InPlaceOf 1; !DivisionWrong
plain need=8 passes=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 1@4:3/4 | wrong=1@4 -> asked; 8; NothingFits <=4; !DivisionWrong
plain need=8 limit=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 1@4:3/4 | wrong=1@4 strict -> refused; 8; OverStrictLimit 8 <=4; !DivisionWrong; !OverLimit; !OverStrictLimit

# A promise made before all was measured has room for what is better, as exact as what was asked.
plain need=8 passes=4 told=0@8:?/0 room=4 provisional | | unsettled -> 0@8; 4; AsTold; later
plain need=8 passes=4 told=0@8:?/0 room=4 provisional | 1@8:4/8 0@8:9/0 1@4:3/4 | -> 1@4x2 else 0@8; 4; Divided 2
plain need=8 passes=4 told=0@8:?/0 room=4 provisional | 0@8:9/0 2@8:8.9/4 | -> 0@8; 4; AsTold
plain need=8 limit=2 passes=4 told=0@8:?/0 room=4 provisional | 1@8:4/8 0@8:9/0 1@4:3/4 | -> 0@8; 4; AsTold
plain need=8 passes=4 told=0@8:?/0 room=4 provisional | 2@8:1/4 | -> 0@8; 4; AsTold
plain need=8 passes=4 told=0@8:?/0 room=4 provisional | 0@8:9/0 4f@8:1/0 | -> 0@8; 4; AsTold
plain need=8 passes=4 told=0@8:?/0d room=4 provisional | 0@8:9/0d 2@8:1/0 | -> 0@8; 4; AsTold
# Where the room is only for an identity activation, that is said.
plain need=8 limit=4 passes=4 told=0@8:5/0 room=4 serves=1@4:3/4x2 | | -> 0@8; 4; AsToldForIdentity
plain need=8 limit=0 passes=4 told=0@8:5/0 room=4 serves=1@4:3/4x2 | | -> 0@8; 4; AsToldForIdentity
plain need=8 passes=4 told=0@4:2/2x2~0@8:5/0 room=4 serves=1@4:3/4x2 | | -> 0@4x2 else 0@8; 4; AsToldForIdentity 2
plain need=8 passes=4 told=1@4:2/4x2~0@8:5/0 room=4 serves=1@4:2/4x2 | | -> 1@4x2 else 0@8; 4; Divided 2
plain need=8 passes=6 told=0@8:5/0 room=6 serves=1@4:3/4x2 | | -> 0@8; 6; AsTold

# Of a promise with an engine of the graph API, what takes its place runs where it may not.
plain need=8 told=g5@8:2/4~1@8:4/8 with-graph | | -> g5@8 else 1@8; 8; GraphEngine
plain need=8 told=g5@8:2/4~1@8:4/8 | 1@8:4/8 | capturing more-outside -> asked; 8; AsTold; next
plain need=8 told=g5@8:2/4~1@8:4/8 | 1@8:4/8 1@4:1/4 | capturing more-outside -> asked; 8; AsTold; next
scaled need=8 told=g5@8:2/4~1@8:4/8 | 1@8:4/8 1@4:1/4 | -> 1@4x2 else 1@8; 8; Divided 2
plain need=8 told=g5@8:2/4~1@8:4/8 with-graph provisional | 1@8:4/8 | -> asked; 8; AsTold
plain need=8 told=g5@8:2/4~1@8:4/8 with-graph | 1@8:4/8 g5@8:2/4 | wrong=g5@8 -> asked; 8; AsTold; !GraphEngineWrong

# Calls that only the named algorithm serves have a promise of its own pieces.
identity need=8 passes=4 alone=1@4:3/4x2~1@8:4/8 | 1@8:4/8 | -> 1@4x2 or fails; 4; Divided 2
identity need=8 passes=4 alone=1@4:3/4x2 | 1@8:4/8 | uncompared=1@4 -> 1@4x2 or fails; 4; Divided 2
identity need=8 passes=4 alone=1@4:3/4x2~1@8:4/8 | 1@8:4/8 1@4:3/4 | wrong=1@4 -> asked; 8; NothingFits <=4; !DivisionWrong
identity need=8 limit=4 alone=1@4:3/4x2~1@8:4/8 | 1@8:4/8 1@4:3/4 | wrong=1@4 strict -> refused; 8; OverStrictLimit 8 <=4; !DivisionWrong; !OverLimit; !OverStrictLimit
misaligned need=8 passes=4 told=1@4:3/4x2~0@8:9/0 | 1@8:4/8 | -> 1@4x2 else 0@8; 4; Divided 2
misaligned need=8 passes=4 told=g5@8:2/4~0@8:9/0 | 1@8:4/8 | -> 0@8; 4; AsTold

# A workspace plan that suits the call is followed, without measurements.
plain need=8 passes=4 file=1@4:3/4x2~1@8:0/8,0@8:1/0 | | -> 1@4x2 else 0@8; 4; PlanFile 2
plain need=8 passes=4 file=0@8:3/0~1@8:0/8 | | -> 0@8; 0; PlanFile
plain need=8 file=4f@4:1/4x2~1@8:0/8 | 1@8:4/8 | -> asked; 8; NothingFaster
plain need=8 passes=2 file=1@4:3/4x2~0@8:0/0 | | -> asked; 8; NotMeasured; !NotMeasuredOverLimit
misaligned need=8 file=1@4:3/4x2~1@8:0/8 | 1@8:4/8 | -> asked; 8; NothingFaster
plain need=8 passes=4 file=1@4:3/4x2~0@8:1/0 | | uncompared=1@4 -> 0@8; 0; UndividedNotCompared; later
plain need=8 passes=4 file=1@4:3/4x2~0@8:1/0 | | wrong=1@4 -> 0@8; 4; PlanFileWrong; !DivisionWrong
plain need=8 file=1@4:3/4x2~1@8:0/8,0@8:1/0 | | wrong=1@4 -> asked; 8; PlanFileWrong; !DivisionWrong
plain need=8 passes=4 told=1@4:3/4x2~0@8:9/0 from-file | | -> 1@4x2 else 0@8; 4; PlanFile 2
plain need=8 passes=4 told=1@4:3/4x2~0@8:9/0 from-file | 2@4:1/4 | wrong=1@4 -> 0@8; 4; PlanFileWrong; !DivisionWrong

# Under one budget ucudnn brings the workspace, and what needs none takes a plan's place.
plain need=8 passes=0 share=4/8 | 1@8:4/8 0@8:9/0 1@4:3/4 | -> 1@4x2 else 0@8; 0+4; Divided 2
plain need=8 passes=0 share=8/8 | 1@8:4/8 0@8:9/0 | -> 1@8 else 0@8; 0+8; OwnWorkspace
plain need=8 passes=0 share=0/8 | 1@8:4/8 0@8:9/0 1@4:3/4 | -> 0@8; 0; AsTold
plain need=8 passes=0 share=8/4 | 1@8:4/8 0@8:9/0 | -> 0@8; 0; AsTold
plain need=8 passes=0 share=4/8 | 1@8:4/8 1@4:3/4 | -> asked; 8; NothingFits
plain need=8 passes=4 share=4/8 told=2@8:9/4 | | -> 2@8; 4; AsTold
plain need=8 passes=0 share=4/8 | 1@8:4/8 0@8:9/0 1@4:3/4 | wrong=1@4 -> 0@8; 0; AsTold; !DivisionWrong
plain need=8 passes=0 share=4/8 assured=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 1@4:3/4 | -> 1@4x2 or fails; 0+4; Divided 2
plain need=8 passes=0 share=0/8 assured=8 told=1@8:4/8~1@8:4/8 pieces-alone | 1@8:4/8 | -> 1@8 or fails; 0+8; OwnWorkspace
plain need=8 passes=0 share=4/8 assured=2 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 1@4:3/4 | -> asked; 8; NothingFits; later
plain need=8 passes=0 share=4/8 assured=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 1@4:3/4 | wrong=1@4 -> asked; 8; NothingFits; !DivisionWrong
plain need=8 passes=0 share=4/8 assured=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 1@4:3/4 | capturing -> 1@4x2 or fails; 0+4; Divided 2
scaled need=8 passes=0 assured=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 1@4:3/4 | -> 1@4x2 or fails; 0+4; Divided 2
misaligned need=8 passes=0 assured=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | 1@8:4/8 1@4:3/4 | -> 1@4x2 or fails; 0+4; Divided 2
identity need=8 passes=0 assured=4 alone=1@4:3/4x2~1@8:4/8 | 1@8:4/8 | -> 1@4x2 or fails; 0+4; Divided 2
identity need=8 passes=0 assured=2 alone=1@4:3/4x2~1@8:4/8 | 1@8:4/8 | -> asked; 8; NothingFits; later
plain need=8 passes=0 share=4/8 | 0@8:9/0 1@4:3/4 | uncompared=1@4 -> 0@8; 0; UndividedNotCompared; later
plain need=8 passes=0 share=4/8 divided | 0@8:9/0 1@4:3/4 | uncompared=1@4 -> stands; later
# Pieces whose workspace is divided anew may not stay.
plain need=8 passes=0 share=4/8 divided lost | 0@8:9/0 1@4:3/4 | uncompared=1@4 -> 0@8; 0; UndividedNotCompared; later
plain need=8 passes=0 share=4/4 file=1@4:3/4x2~0@8:0/0 | | -> 1@4x2 else 0@8; 0+4; PlanFile 2
plain need=8 passes=0 share=4/4 file=1@4:3/4x2~0@8:0/0 | | wrong=1@4 -> 0@8; 0; PlanFileWrong; !DivisionWrong
plain asks=2 need=4 share=4/4 told=1@8:9/0d file=1@4:3/4dx2~0@8:9/0,1@8:9/0d,2@8:8/4 | | -> 1@4x2 else 1@8; 0+4; PlanFile 2
plain asks=2 need=4 share=4/4 told=0@8:9/0 file=1@4:3/4dx2~0@8:9/0,1@8:9/0d,2@8:8/4d | | -> 1@4x2 else 0@8; 0+4; PlanFile 2
plain need=8 passes=0 share=4/4 told=0@8:9/0d file=1@4:3/4x2~0@8:0/0d | 0@8:9/0d 1@4:3/4 | -> 0@8; 0; AsTold

# An execution plan that fits is divided for a gain of 3 %, with its own engine.
plan need=8 | | -> asked; 8; NotMeasured
plan need=8 | | unsettled -> asked; 8; NotMeasured; later
plan need=8 | | late -> asked; 8; NoTime; later
plan need=8 | 1@8:4/8 | late -> asked; 8; NothingFasterInTime; later
plan need=8 | 1@8:4/8 | unsettled -> asked; 8; NothingFasterInTime; later
plan need=8 | | untuned store -> asked; 8; NotMeasured; later
plan need=8 | 1@8:4/8 | untuned store unsettled -> asked; 8; NothingFasterAnywhere
plan need=8 n=1 | 1@1:4/8 | -> asked; 8; CannotBeDivided
plan need=8 | 1@8:4/8 1@4:1/4 | -> 1@4x2 else asked; 8; Divided 2
plan need=8 | 1@8:4/8 1@4:1.95/4 | -> asked; 8; NothingFasterAnywhere
first need=8 others=2/0 | 1@8:4/8 2@8:1/0 | -> asked; 8; NothingFasterAnywhere
# A list's first that fits is the program's choice, however fast what took its place in less room.
first need=8 limit=7 others=2/0 | 1@8:100/8 2@8:1/0 | -> 2@8; 0; Substituted 1; gives 0/2*
first need=8 limit=8 others=2/0 | 1@8:100/8 2@8:1/0 | -> asked; 8; NothingFasterAnywhere
plan need=8 | 1@8:4/8 1@4:1/4 | observes -> asked; 8; Observed
plan need=8 random | 1@8:4/8 1@4:1/4 | deterministic -> refused; 8; NotDeterministic
plan need=8 | 1@8:4/8 1@4:1/4 | wrong=1@4 -> asked; 8; NothingFasterAnywhere; !DivisionWrong
plan need=8 n=60 | 1@60:60/8 1@30:1/4 1@20:2/4 1@15:3/4 1@12:4/4 1@10:6/4 | wrong=1@30,1@20,1@15,1@12 -> asked; 8; AllDivisionsWrong; !DivisionWrong; !DivisionWrong; !DivisionWrong; !DivisionWrong
plan need=8 | 1@8:4/8 1@4:1/4 | uncompared=1@4 -> asked; 8; AskedNotCompared; later
plan need=8 divided | 1@8:4/8 1@4:1/4 | uncompared=1@4 -> stands; later
plan need=8 ran | 1@8:4/8 1@4:1/4 | -> 1@4x2 else asked; 8; Divided 2
plan need=8 | 1@8:4/8 1@4:1/4 | no-pieces -> asked; 8; NotPrepared; later; !NotPrepared

# One that needs more than the limit is promised less, where something undivided keeps that.
plan need=8 limit=4 others=2/0 | 1@8:4/8 1@4:3/4 | -> 1@4x2 else 2@8; 4; Divided 2; gives 4/2
plan need=8 limit=4 others=2/4 | 1@4:3/2 | -> 1@4x2 else 2@8; 4; Divided 2; gives 4/2
# Its own pieces keep a promise where no other engine does, once they ran here.
plan need=8 limit=4 | 1@4:3/4 | -> 1@4x2 or fails; 4; Divided 2; gives 4/
plan need=8 limit=4 | 1@4:3/4 | strict -> 1@4x2 or fails; 4; Divided 2; gives 4/
plan need=8 limit=4 | 1@4:3/4 | uncompared=1@4 -> asked; 8; NoSubstituteFits <=4; !OverLimit
plan need=8 limit=4 | 1@4:3/4 | wrong=1@4 -> asked; 8; NoSubstituteFits <=4; !DivisionWrong; !OverLimit
plan need=8 limit=4 | 1@4:3/4 | no-pieces -> asked; 8; NoSubstituteFits <=4; !OverLimit
plan need=8 limit=2 | 1@4:3/4 | strict -> refused; 8; NoSubstituteFits <=2; !OverLimit
plan need=8 limit=4 others=2/0 | | unsettled -> asked; 8; DivisionsNotMeasured <=4; !OverLimit
plan need=8 limit=4 others=2/0 | | late -> asked; 8; NoTimeForDivisions <=4; !OverLimit
plan need=8 limit=2 others=2/0 | 1@4:3/4 | late -> asked; 8; NoTimeForDivisions <=2; !OverLimit
plan need=8 limit=4 others=2/0 | 1@4:3/4 | late -> 1@4x2 else 2@8; 4; Divided 2; gives 4/2; later
plan need=8 limit=2 others=2/0 | 1@4:3/4 | -> asked; 8; NoDivisionFits <=2; !OverLimit
plan need=8 limit=2 others=2/0 n=1 | 1@1:3/8 | -> asked; 8; NoDivisionFits <=2; !OverLimit
plan need=8 limit=4 others=2/0,3/4 | 1@4:3/4 2@8:9/0 3@8:1/4 | -> 1@4x2 else 2@8; 4; Divided 2; gives 4/2
plan need=8 limit=4 others=2/0 | 1@4:3/4 | uncompared=1@4 -> 2@8; 4; UndividedNotCompared; gives 4/2; later
plan need=8 limit=4 others=2/0 | 1@8:4/8 1@4:3/4 | wrong=1@4 -> asked; 8; NoDivisionFits <=4; !DivisionWrong; !OverLimit
plan need=8 limit=4 others=2/0 | 1@4:3/4 | no-pieces -> asked; 8; NotPrepared; !NotPrepared; !OverLimit
plan need=8 limit=4 others=2/0 | 1@4:3/4 | no-whole -> asked; 8; NoSubstituteReady; !OverLimit

# In place of a heuristics list's first plan any engine may serve: the fastest of those that fit.
first need=8 limit=4 others=2/0 | | -> 2@8; 0; Substituted 1; gives 0/2*
first need=8 limit=4 others=2/0 | 1@4:3/4 2@8:9/0 | -> 1@4x2 else 2@8; 4; Divided 2; gives 4/2*
first need=8 limit=4 others=2/0 | 1@4:3/4 2@8:5/0 | -> 2@8; 4; Substituted 1; gives 4/2*
first need=8 limit=4 others=2/0 | 1@4:3/4 2@8:5.9/0 | -> 1@4x2 else 2@8; 4; Divided 2; gives 4/2*
first need=8 limit=4 others=2/0,3/4 | 2@8:9/0 3@8:5/4 | -> 3@8; 4; Substituted 1; gives 4/3*
first need=8 limit=4 others=2/0,3/4 | 3@8:5/4 | -> 2@8; 0; Substituted 1; gives 0/2*
first need=8 limit=4 others=2/0 | 1@4:3/4 | no-pieces -> 2@8; 4; Substituted 1; gives 4/2*; later; !NotPrepared
first need=8 limit=4 others=2/0 n=60 | 1@30:1/4 1@20:2/4 1@15:3/4 1@12:4/4 1@10:6/4 | wrong=1@30,1@20,1@15,1@12 -> 2@60; 4; Substituted 1; gives 4/2*; !DivisionWrong; !DivisionWrong; !DivisionWrong; !DivisionWrong

# What was promised once never grows, and its engine comes first.
plan need=8 limit=4 told=4/2 others=2/0 | 1@4:3/4 | -> 1@4x2 else 2@8; 4; Divided 2; keeps 4/2
plan need=8 limit=4 told=2/2 others=2/0 | 1@4:3/4 1@2:2/2 | -> 1@2x4 else 2@8; 2; Divided 4; keeps 2/2
plan need=8 limit=4 told=4/3 others=2/0,3/4 | 1@4:3/4 | -> 1@4x2 else 3@8; 4; Divided 2; keeps 4/3
plan need=8 limit=4 told=4/2 others=2/0 | | -> 2@8; 4; Substituted 1; keeps 4/2
plan need=8 limit=4 told=4/2 others=2/0 | 1@4:3/4 2@8:1/0 | -> 1@4x2 else 2@8; 4; Divided 2; keeps 4/2
plan need=8 limit=4 told=4/2* others=2/0 | 1@4:3/4 2@8:1/0 | -> 2@8; 4; Substituted 1; keeps 4/2*
plan need=8 limit=4 told=4/2 others=2/0 | 1@4:3/4 | wrong=1@4 -> 2@8; 4; Substituted 1; keeps 4/2; !DivisionWrong
plan need=8 limit=4 told=4/2 others=2/0 | 1@4:3/4 | no-pieces -> 2@8; 4; Substituted 1; keeps 4/2; later; !NotPrepared
plan need=8 limit=4 told=4/2 others=2/0 divided | 1@4:3/4 | uncompared=1@4 -> stands; later
plan need=8 limit=4 told=4/2 others=2/0 | 1@4:3/4 | no-whole -> stands; !OverLimit
plan need=8 limit=4 told=4/2 others=2/0 | 1@4:3/4 | no-whole unsettled -> stands; later; !OverLimit
# An earlier process's is kept, too, as far as it can be.
plan need=8 limit=4 stored=4/2 others=2/0 | 1@4:3/4 | -> 1@4x2 else 2@8; 4; Divided 2; keeps 4/2
plan need=8 limit=4 stored=4/2 others=2/0 | | -> 2@8; 4; Substituted 1; keeps 4/2
plan need=8 limit=4 stored=6/2 others=2/0 | 1@4:3/4 | -> 1@4x2 else 2@8; 4; Divided 2; replaces 4/2; !PromiseLost
plan need=8 limit=4 stored=2/3 others=2/4 | 1@4:3/4 | -> 1@4x2 else 2@8; 4; Divided 2; replaces 4/2; !PromiseLost
plan need=8 limit=4 stored=2/3 | | -> asked; 8; NoSubstituteFits <=4; !PromiseLost; !OverLimit
# One that only pieces keep: they must run here, too.
plan need=8 limit=4 stored=4/ | 1@4:3/4 | -> 1@4x2 or fails; 4; Divided 2; keeps 4/
plan need=8 limit=6 stored=4/ | 1@4:3/4 1@2:0.1/6 | -> 1@4x2 or fails; 4; Divided 2; keeps 4/
plan need=8 limit=4 stored=4/ others=2/0 | 1@4:3/4 | -> 1@4x2 else 2@8; 4; Divided 2; keeps 4/
plan need=8 limit=4 stored=4/ | 1@4:3/4 | uncompared=1@4 -> asked; 8; NoSubstituteFits <=4; !PromiseLost; !OverLimit
plan need=8 limit=4 stored=4/ | | -> asked; 8; NoSubstituteFits <=4; !PromiseLost; !OverLimit
plan need=8 limit=4 rival=2/ | 1@4:3/4 1@2:2/2 | -> 1@2x4 or fails; 2; Divided 4; keeps 2/
first need=8 limit=4 stored=4/5 others=2/0,3/4 | 1@4:3/4 2@8:9/0 3@8:5/4 | -> 1@4x2 else 2@8; 4; Divided 2; keeps 4/5
plan need=8 limit=4 stored=4/5* others=2/0,3/4 | 1@4:3/4 2@8:9/0 3@8:5/4 | -> 3@8; 4; Substituted 1; keeps 4/5*
plan need=8 limit=4 others=2/0 rival=4/2 | 1@4:3/4 | -> 1@4x2 else 2@8; 4; Divided 2; gives 4/2
plan need=8 limit=4 others=2/0 rival=2/2 | 1@4:3/4 1@2:2/2 | -> 1@2x4 else 2@8; 2; Divided 4; keeps 2/2
plan need=8 limit=4 others=2/0 rival=6/2 | 1@4:3/4 | -> 1@4x2 else 2@8; 4; Divided 2; replaces 4/2; !PromiseLost

# Under one budget a plan answers 0, and an engine that needs nothing takes its place.
plan need=8 share=4/8 others=2/0 | 1@4:3/4 2@8:9/0 | -> 1@4x2 else 2@8; 0+4; Divided 2; gives 0/2
plan need=8 share=8/8 others=2/0 | 1@8:4/8 2@8:9/0 | -> 1@8 else 2@8; 0+8; OwnWorkspace; gives 0/2
plan need=8 share=0/8 others=2/0 | 1@4:3/4 2@8:9/0 | -> 2@8; 0; Substituted 1; gives 0/2*
plan need=8 share=4/8 others=2/0 | | -> 2@8; 0; Substituted 1; gives 0/2*
plan need=8 share=4/8 others=2/0 | 1@8:1/4 2@8:9/0 | -> 2@8; 0; Substituted 1; gives 0/2*
plan need=8 share=4/8 | | -> asked; 8; NoSubstituteFits; !OverLimit
plan need=8 share=4/8 others=2/0 | 1@4:3/4 2@8:9/0 | no-pieces -> 2@8; 0; Substituted 1; gives 0/2; later; !NotPrepared
plan need=8 share=4/8 told=0/2 others=2/0 divided | 1@4:3/4 2@8:9/0 | uncompared=1@4 -> stands; later
plan need=8 share=4/8 told=0/2 others=2/0 divided lost | 1@4:3/4 2@8:9/0 | uncompared=1@4 -> 2@8; 0; UndividedNotCompared; keeps 0/2; later
plan need=8 share=0/8 told=0/2 others=2/0 divided lost | 1@4:3/4 2@8:9/0 | -> 2@8; 0; Substituted 1; keeps 0/2

# A plan follows the workspace plan, where it holds for it.
plan need=8 limit=4 file=1@4:?/4x2 others=2/0 | | -> 1@4x2 else 2@8; 4; PlanFile 2; keeps 4/2
plan need=8 limit=4 file=1@4:?/2x2 others=2/4 | | -> 1@4x2 else 2@8; 4; PlanFile 2; keeps 4/2
plan need=8 file=1@4:?/4x2 | | -> 1@4x2 else asked; 8; PlanFile 2
plan need=8 file=own:1@4:?/4x2 | | -> 1@4x2 else asked; 8; PlanFileOwnEngine 2
plan need=8 file=whole:1@8:?/8 | | -> asked; 8; PlanFileNoGain
first need=8 limit=4 file=2@8:?/4 others=2/4 | | -> 2@8; 4; PlanFile; keeps 4/2*
plan need=8 limit=4 file=1@4:?/4x2 others=2/0 | | wrong=1@4 -> 2@8; 4; PlanFileWrong; keeps 4/2; !DivisionWrong
plan need=8 limit=4 file=1@4:?/4x2 others=2/0 | | uncompared=1@4 -> 2@8; 4; UndividedNotCompared; keeps 4/2; later
plan need=8 file=not:other-step | 1@8:4/8 | -> asked; 8; NothingFasterAnywhere; !PlanFileDoesNotHold
plan need=8 limit=4 file=1@4:?/4x2 | | -> asked; 8; NoSubstituteFits <=4; !PlanFileDoesNotHold; !OverLimit
plan need=8 limit=4 file=1@4:?/4x2 others=2/0 | 1@4:3/4 | no-whole -> asked; 8; NoSubstituteReady; !PlanFileDoesNotHold; !OverLimit
plan need=8 file=1@4:?/4x2 | 1@8:4/8 | no-pieces -> asked; 8; NothingFasterAnywhere; !PlanFileDoesNotHold
plan need=8 limit=4 told=2/2 file=1@4:?/4x2 others=2/0 | 1@2:2/2 | -> 1@2x4 else 2@8; 2; Divided 4; keeps 2/2; !PlanFileDoesNotHold
plan need=8 share=4/4 file=1@4:?/4x2 others=2/0 | | -> 1@4x2 else 2@8; 0+4; PlanFile 2; keeps 0/2
plan need=8 share=4/4 file=1@4:?/4x2 others=2/0 | | wrong=1@4 -> 2@8; 0; PlanFileWrong; keeps 0/2; !DivisionWrong
first need=8 share=4/4 file=3@8:?/4 others=2/0 | | uncompared=3@8 -> 2@8; 0; UndividedNotCompared; keeps 0/2*; later
# Under one budget it need not be followed to have its workspace.
plan need=0 share=4/8 file=not:x | 1@8:4/0 1@4:1/4 | -> 1@4x2 else 1@8; 0+4; Divided 2; gives 0/1; !PlanFileDoesNotHold
plan need=0 share=4/8 | 1@8:4/0 1@4:1/4 | -> asked; 0; NothingFasterAnywhere
# What it gives of one budget is known only when the plan runs.
plan need=8 share=0/8 file=not: file-waits others=2/0 | | -> 2@8; 0; Substituted 1; gives 0/2*

# Tiles serve calls whose algorithm the limit excludes, where not even one image of it fits.
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> g5#4 else 0@1; 3; Divided InTiles 4
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | strict -> g5#4 else 0@1; 3; Divided InTiles 4
plain n=1 need=8 limit=4 with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> 0@1; 0; InPlaceOf 1
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | observes -> asked; 8; Observed
adding n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> g5#4 else 0@1; 3; Divided InTiles 4
plain need=8 limit=4 tiles=fit with-graph | 1@8:4/8 0@8:9/0 1@4:3/4 g5#2:0.1/3 | -> 1@4x2 else 0@8; 4; Divided 2
plain need=8 limit=4 tiles=fit with-graph | 1@8:4/8 0@8:9/0 1@1:2/4 g5#2:0.1/3 | -> 0@8; 0; InPlaceOf 1
plain need=8 limit=4 tiles=fit with-graph | 1@8:4/8 0@8:9/0 1@1:3/5 g5#2:0.1/3 | -> g5#16 else 0@8; 3; Divided InTiles 16
# They gain 3 % over what fits undivided.
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:2.2/3 | -> 0@1; 0; InPlaceOf 1
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5@1:3.9/4 g5#4:1/3 | -> g5@1 else 0@1; 4; InPlaceOf 1
# The least sum over all kinds of tiles wins, the fewest tiles among equals; each kind has its engine.
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3+g5:3/3 g5#8:0.5/2+g5:1/2 | -> g5#6+g5#2 else 0@1; 2; Divided InTiles 8
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#8:0.5/2 g5#4:1/3 | -> g5#4 else 0@1; 3; Divided InTiles 4
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3+g5:3/3 g6#4:2/3+g6:1/3 | -> g5#2+g6#2 else 0@1; 3; Divided InTiles 4
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 2#4:0.9/1 | -> 2#4 else 0@1; 1; Divided InTiles 4
# Where none fits, the least that would do is said, or what prevents them.
plain n=1 need=8 limit=4 tiles=fit tiles-need=5 with-graph | 1@1:4/8 0@1:9/0 g5#4:1/5 | -> 0@1; 0; InPlaceOf 1 (tiles need 5 B at least)
plain n=1 need=8 limit=4 tiles=fit no-tiles=edges with-graph | 1@1:4/8 0@1:9/0 | -> 0@1; 0; InPlaceOf 1 (edges)
plain n=1 need=8 limit=4 tiles=fit tiles-need=5 with-graph | 1@1:4/8 | -> asked; 8; NothingFits <=4 (tiles need 5 B at least); !OverLimit
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 | tiles-unsettled -> 0@1; 0; InPlaceOf 1; later
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 | tiles-late -> 0@1; 0; InPlaceOf 1; later
# Something undivided of the legacy API waits for calls that tiles cannot serve; without it there are none.
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 g5#4:1/3 | -> asked; 8; NothingFits <=4 (tiles fit, and no undivided algorithm that serves the calls which tiles cannot); !OverLimit
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 g5#4:1/3 | strict -> refused; 8; OverStrictLimit 8 <=4; !OverLimit; !OverStrictLimit
scaled n=1 need=8 limit=4 tiles=fit | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> 0@1; 0; InPlaceOf 1
activation n=1 need=8 limit=4 tiles=fit | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> 0@1; 0; InPlaceOf 1
misaligned n=1 need=8 limit=4 tiles=fit | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> asked; 8; NothingFits <=4; !OverLimit
identity n=1 need=8 limit=4 tiles=fit | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> asked; 8; NothingFits <=4; !OverLimit
# They are as exact and as deterministic as what was asked.
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5w#4:1/3 | -> 0@1; 0; InPlaceOf 1
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8d 0@1:9/0d g5#4:1/3 g5#8:0.9/2d | -> g5#8 else 0@1; 2; Divided InTiles 8
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0d g5#4:1/3 g5#8:0.9/2d | deterministic -> g5#8 else 0@1; 2; Divided InTiles 8
# What they are as exact as has the caller's math type, like all rows.
plain n=1 math=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> g5#4 else 0@1; 3; Divided InTiles 4
plain n=1 math=2 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 2#4:0.9/1 g5w#4:0.1/1 | -> 2#4 else 0@1; 1; Divided InTiles 4
plain n=1 math=3 need=8 passes=3 limit=4 told=g5#4:1/3~0@1:9/0 with-graph | | -> g5#4 else 0@1; 3; Divided InTiles 4
plain n=1 math=3 need=8 passes=0 share=4/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> g5#4 else 0@1; 0+3; Divided InTiles 4
# Only what was compared runs; where one grid is wrong, the next one may be right.
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 g5#8:0.6/2 | wrong=g5#4 -> g5#8 else 0@1; 2; Divided InTiles 8; !DivisionWrong
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | wrong=g5#4 -> 0@1; 0; InPlaceOf 1; !DivisionWrong
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | uncompared=g5#4 -> 0@1; 0; UndividedNotCompared; later
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | no-pieces -> 0@1; 0; NotPrepared; !NotPrepared
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | failed -> 0@1; 0; UndividedAfterFailure
# Tiles that are slower in place do not run, and the reason says so; the next grid may be faster.
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | slower=g5#4 -> 0@1; 0; InPlaceOf 1 (slower)
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5@1:8/4 g5#4:1/3 | slower=g5#4 -> g5@1 else 0@1; 4; InPlaceOf 1 (slower)
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 g5#8:0.6/2 | slower=g5#4 -> g5#8 else 0@1; 2; Divided InTiles 8
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 g5#8:0.6/2 | slower=g5#4,g5#8 -> 0@1; 0; InPlaceOf 1 (slower)
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 g6#4:1.1/3 | slower=g5#4 -> 0@1; 0; InPlaceOf 1 (slower)
plain n=1 need=8 tiles=gain with-graph | 1@1:4/8 g5#4:0.9/8 | slower=g5#4 -> asked; 8; NothingFaster (slower)
plain n=1 need=8 passes=3 limit=4 told=g5#4:1/3~0@1:9/0 with-graph | 0@1:9/0 | slower=g5#4 -> 0@1; 3; AsTold
plain n=1 need=8 passes=4 limit=4 told=g5#4:1/3~0@1:9/0 tiles=fit with-graph | 0@1:9/0 g5#4:1/3 g5#8:0.6/2 | slower=g5#4 -> g5#8 else 0@1; 3; Divided InTiles 8
plain n=1 need=8 passes=0 share=4/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | slower=g5#4 -> 0@1; 0; AsTold (slower)
# What was told in tiles runs so, whatever the user allows by now; other calls run what waits.
plain n=1 need=8 passes=3 limit=4 told=g5#4:1/3~0@1:9/0 with-graph | | -> g5#4 else 0@1; 3; Divided InTiles 4
plain n=1 need=8 passes=3 limit=4 told=g5#4:1/3~0@1:9/0 | | capturing more-outside -> 0@1; 3; AsTold; next
scaled n=1 need=8 passes=3 limit=4 told=g5#4:1/3~0@1:9/0 | 0@1:9/0 | -> 0@1; 3; AsTold
activation n=1 need=8 passes=3 limit=4 told=g5#4:1/3~0@1:9/0 | 0@1:9/0 | -> 0@1; 3; AsTold
misaligned n=1 need=8 passes=3 limit=4 told=g5#4:1/3~0@1:9/0 | 0@1:9/0 1@1:4/8 | -> 0@1; 3; AsTold
plain n=1 need=8 passes=4 limit=4 told=0@1:9/0 room=4 provisional tiles=fit with-graph | 0@1:9/0 g5#4:1/3 | -> g5#4 else 0@1; 4; Divided InTiles 4
# Without a need to fit they gain over what was asked, whose time is known.
plain n=1 need=8 tiles=gain with-graph | 1@1:4/8 g5#4:0.9/8 | -> g5#4 else 1@1; 8; Divided InTiles 4
plain n=1 need=8 tiles=gain with-graph | 1@1:4/8 g5#4:0.98/8 | -> asked; 8; NothingFaster
plain n=1 need=8 tiles=gain with-graph | g5#4:0.9/8 | -> asked; 8; NotMeasured
# Under one budget they serve within the kernel's share, where that is less than what is fastest needs.
plain n=1 need=8 passes=0 share=4/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> g5#4 else 0@1; 0+3; Divided InTiles 4
plain n=1 asks=0 need=0 passes=0 share=4/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> g5#4 else 0@1; 0+3; Divided InTiles 4
plain n=1 need=8 passes=0 share=4/8 with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> 0@1; 0; AsTold
plain n=1 need=8 passes=0 share=2/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> 0@1; 0; AsTold
plain n=1 need=8 passes=0 share=2/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 g5#8:0.9/1 | -> g5#8 else 0@1; 0+1; Divided InTiles 8
plain n=1 need=8 passes=0 share=0/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> 0@1; 0; AsTold
# What is known counts in a larger share, too, which does not demand that any are measured.
plain n=1 need=8 passes=0 share=8/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:0.1/3 | -> g5#4 else 0@1; 0+3; Divided InTiles 4
plain n=1 need=8 passes=0 share=8/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 | tiles-unsettled -> 1@1 else 0@1; 0+8; OwnWorkspace
plain n=1 need=8 passes=0 share=8/8 tiles=gain with-graph | 1@1:4/8 0@1:9/0 g5#4:0.9/6 | -> g5#4 else 0@1; 0+6; Divided InTiles 4
plain n=1 need=8 passes=0 share=8/8 tiles=gain with-graph | 1@1:4/8 0@1:9/0 g5#4:0.98/8 | -> 1@1 else 0@1; 0+8; OwnWorkspace
plain need=8 passes=0 share=4/8 tiles=fit with-graph | 1@8:4/8 0@8:9/0 1@4:3/4 g5#2:0.1/3 | -> 1@4x2 else 0@8; 0+4; Divided 2
scaled n=1 need=8 passes=0 share=4/8 tiles=fit | 1@1:4/8 0@1:9/0 g5#4:1/3 | -> 0@1; 0; AsTold
plain n=1 need=8 passes=0 share=4/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5w#4:1/3 | -> 0@1; 0; AsTold
plain n=1 need=8 passes=0 share=4/8 tiles=fit with-graph | 1@1:4/8 g5#4:1/3 | -> asked; 8; NothingFits
plain n=1 need=8 passes=0 share=4/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | wrong=g5#4 -> 0@1; 0; AsTold; !DivisionWrong
plain n=1 need=8 passes=0 share=4/8 tiles=fit with-graph divided | 1@1:4/8 0@1:9/0 g5#4:1/3 | uncompared=g5#4 -> stands; later
plain n=1 need=8 passes=0 share=4/8 tiles=fit with-graph divided lost | 1@1:4/8 0@1:9/0 g5#4:1/3 | uncompared=g5#4 -> 0@1; 0; UndividedNotCompared; later
plain n=1 need=8 passes=0 share=4/8 tiles=fit with-graph | 1@1:4/8 0@1:9/0 | tiles-unsettled -> 0@1; 0; AsTold; later
# What exceeds the memory for measuring is cut to fit, never to gain.
plain n=1 need=8 limit=4 tiles=fit with-graph | 1@1:4/8 0@1:9/0 g5#4:1/3 | too-large -> g5#4 else 0@1; 3; Divided InTiles 4
plain n=1 need=8 tiles=gain with-graph | 1@1:4/8 g5#4:0.9/8 | too-large -> asked; 8; AskedNotCompared; later
plain need=8 passes=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | too-large -> 1@4x2 else 0@8; 4; Divided 2

# Plans of the graph API are cut into tiles of their own engine.
plan n=1 need=8 limit=4 tiles=fit others=2/0 | 1@1:4/8 1#4:1/3 | -> 1#4 else 2@1; 3; Divided InTiles 4; gives 3/2
plan n=1 need=8 limit=4 others=2/0 | 1@1:4/8 1#4:1/3 | -> asked; 8; NoDivisionFits <=4; !OverLimit
plan need=8 limit=4 tiles=fit others=2/0 | 1@8:4/8 1@1:1/4 1#4:0.1/3 | -> 1@1x8 else 2@8; 4; Divided 8; gives 4/2
first n=1 need=8 limit=4 tiles=fit others=2/0 | 1@1:4/8 2@1:9/0 1#4:1/3 | -> 1#4 else 2@1; 3; Divided InTiles 4; gives 3/2*
first n=1 need=8 limit=4 tiles=fit others=2/0 | 1@1:4/8 2@1:4.1/0 1#4:1/3 | -> 2@1; 3; Substituted 1; gives 3/2*
first n=1 need=8 limit=4 tiles=fit others=2/0 | 1@1:4/8 1#4:1/3 | -> 1#4 else 2@1; 3; Divided InTiles 4; gives 3/2*
first n=1 need=8 limit=4 tiles=fit no-tiles=edges others=2/0 | 1@1:4/8 | -> 2@1; 0; Substituted 1 (edges); gives 0/2*
plan n=1 need=8 limit=4 tiles=fit tiles-need=5 others=2/0 | 1@1:4/8 1#4:1/5 | -> asked; 8; NoDivisionFits <=4 (tiles need 5 B at least); !OverLimit
plan n=1 need=8 limit=4 tiles=fit tiles-need=5 | 1@1:4/8 1#4:1/5 | strict -> refused; 8; NoSubstituteFits <=4 (tiles need 5 B at least); !OverLimit
plan n=1 need=8 limit=4 tiles=fit others=2/0 | 1@1:4/8 | tiles-late -> asked; 8; NoTimeForDivisions <=4; !OverLimit
# Where nothing undivided fits, tiles that ran here keep the promise alone, in later processes, too.
plan n=1 need=8 limit=4 tiles=fit | 1@1:4/8 1#4:1/3 | -> 1#4 or fails; 3; Divided InTiles 4; gives 3/
plan n=1 need=8 limit=4 tiles=fit | 1@1:4/8 1#4:1/3 | uncompared=1#4 -> asked; 8; NoSubstituteFits <=4; !OverLimit
plan n=1 need=8 limit=4 tiles=fit | 1@1:4/8 1#4:1/3 | wrong=1#4 -> asked; 8; NoSubstituteFits <=4; !DivisionWrong; !OverLimit
plan n=1 need=8 limit=4 stored=3/ | 1@1:4/8 1#4:1/3 | -> 1#4 or fails; 3; Divided InTiles 4; keeps 3/
plan n=1 need=8 limit=4 told=3/ divided | 1@1:4/8 1#4:1/3 | -> 1#4 or fails; 3; Divided InTiles 4; keeps 3/
plan n=1 need=8 limit=4 told=3/2 others=2/0 | 1@1:4/8 1#4:1/3 | -> 2@1; 3; Substituted 1; keeps 3/2
plan n=1 need=8 limit=4 told=3/2 tiles=fit others=2/0 | 1@1:4/8 1#4:1/3 1#2:1/4 | -> 1#4 else 2@1; 3; Divided InTiles 4; keeps 3/2
plan n=1 need=8 limit=4 tiles=fit others=2/0 | 1@1:4/8 1#4:1/3 1#8:1/2 | wrong=1#4 -> 1#8 else 2@1; 2; Divided InTiles 8; gives 2/2; !DivisionWrong
plan n=1 need=8 limit=4 tiles=fit others=2/0 | 1@1:4/8 1#4:1/3 | no-pieces -> asked; 8; NotPrepared; !NotPrepared; !OverLimit
plan n=1 need=8 limit=4 tiles=fit others=2/0 | 1@1:4/8 1#4:1/3 | too-large -> 1#4 else 2@1; 3; Divided InTiles 4; gives 3/2
plan n=1 need=8 limit=4 tiles=fit | 1@1:4/8 1#4:1/3 | too-large -> 1#4 or fails; 3; Divided InTiles 4; gives 3/
plan n=1 need=8 tiles=gain | 1@1:4/8 1#4:0.9/8 | too-large -> asked; 8; AskedNotCompared; later
# Tiles of a first plan that are slower in place give way to what replaces it; other plans have nothing else.
first n=1 need=8 limit=4 tiles=fit others=2/0 | 1@1:4/8 2@1:9/0 1#4:1/3 | slower=1#4 -> 2@1; 0; Substituted 1 (slower); gives 0/2*
first n=1 need=8 limit=4 tiles=fit others=2/0 | 1@1:4/8 1#4:1/3 1#8:0.9/2 | slower=1#8 -> 1#4 else 2@1; 3; Divided InTiles 4; gives 3/2*
plan n=1 need=8 limit=4 tiles=fit others=2/0 | 1@1:4/8 2@1:9/0 1#4:1/3 | slower=1#4 -> 1#4 else 2@1; 3; Divided InTiles 4; gives 3/2
plan n=1 need=8 limit=4 tiles=fit | 1@1:4/8 1#4:1/3 | slower=1#4 -> 1#4 or fails; 3; Divided InTiles 4; gives 3/
plan n=1 need=8 limit=4 stored=3/2* tiles=fit others=2/0 | 1@1:4/8 2@1:9/0 1#4:1/3 | slower=1#4 -> 2@1; 3; Substituted 1 (slower); keeps 3/2*
plan n=1 need=8 share=4/8 tiles=fit others=2/0 | 1@1:4/8 2@1:9/0 1#4:1/3 | slower=1#4 -> 2@1; 0; Substituted 1 (slower); gives 0/2*
plan n=1 need=8 tiles=gain | 1@1:4/8 1#4:0.9/8 | slower=1#4 -> asked; 8; NothingFasterAnywhere (slower)
plan n=1 need=2 limit=9 tiles=gain vast | 1@1:40/2 5#4:1/6 | slower=5#4 -> asked; 2; NothingFasterAnywhere (slower)
# A plan that fits is cut for a gain of 3 %.
plan n=1 need=8 tiles=gain | 1@1:4/8 1#4:0.9/8 | -> 1#4 else asked; 8; Divided InTiles 4
plan n=1 need=8 tiles=gain | 1@1:4/8 1#4:0.9/9 | -> asked; 8; NothingFasterAnywhere
plan n=1 need=8 tiles=gain | 1@1:4/8 1#4:0.98/8 | -> asked; 8; NothingFasterAnywhere
plan n=1 need=8 tiles=gain | 1#4:0.9/8 | -> asked; 8; NotMeasured
plan n=1 need=8 tiles=fit limit=8 | 1@1:4/8 1#4:0.9/8 | -> asked; 8; CannotBeDivided

# Tiles of a vast plan run any engine as exact, list's first or not. Without a limit they need no more than the plan.
plan n=1 need=2 tiles=gain vast | 1@1:40/2 5#4:1/2 | -> 5#4 else asked; 2; Divided InTiles 4
first n=1 need=2 tiles=gain vast | 1@1:40/2 5#4:1/2 | -> 5#4 else asked; 2; Divided InTiles 4
plan n=1 need=2 tiles=gain | 1@1:40/2 5#4:1/2 | -> asked; 2; NothingFasterAnywhere
plan n=1 need=2 tiles=gain vast | 1@1:40/2 5#4:1/3 | -> asked; 2; NothingFasterAnywhere
plan n=1 need=2 tiles=gain vast | 1@1:40/2 5#4:1/3 5#8:2/0 | -> 5#8 else asked; 2; Divided InTiles 8
plan n=1 need=2 tiles=gain vast | 1@1:4/2 5#4:0.98/0 | -> asked; 2; NothingFasterAnywhere
plan n=1 need=2 tiles=gain vast | 1@1:40/2 5w#4:1/2 | -> asked; 2; NothingFasterAnywhere
plan n=1 asks=1w need=2 tiles=gain vast | 1w@1:40/2 5w#4:1/2 | -> 5#4 else asked; 2; Divided InTiles 4
plan n=1 need=2 tiles=gain vast | 1@1:40/2 5#4:1/2+5:3/2 1#4:2/0+1:1/0 | -> 5#2+1#2 else asked; 2; Divided InTiles 4
plan n=1 need=2 tiles=gain vast | 5#4:1/2 | -> asked; 2; NotMeasured
plan n=1 need=2 vast | 1@1:40/2 5#4:1/2 | -> asked; 2; CannotBeDivided
plan n=1 need=2 tiles=gain vast | 1@1:40/2 5#4:1/2 | observes -> asked; 2; Observed
plan n=1 need=2 tiles=gain vast | 1@1:40/2 5#4:1/2 | no-pieces -> asked; 2; NotPrepared; later; !NotPrepared
plan n=1 need=2 tiles=gain vast | 1@1:40/2 5#4:1/2 | uncompared=5#4 -> asked; 2; AskedNotCompared; later
plan n=1 need=2 tiles=gain vast | 1@1:40/2 5#4:1/2 5#8:2/2 | wrong=5#4 -> 5#8 else asked; 2; Divided InTiles 8; !DivisionWrong
plan need=2 tiles=gain vast | 1@8:40/2 1@4:15/2 5#1:1/2 | -> 5#8 else asked; 2; Divided InTiles 8
# Within a limit the program is told of more than the plan needs, where that gains 3 %: the plan itself keeps it.
plan n=1 need=2 limit=9 tiles=gain vast | 1@1:40/2 5#4:1/6 | -> 5#4 else asked; 6; Divided InTiles 4; gives 6/1*
first n=1 need=0 limit=9 tiles=gain vast | 1@1:40/0 5#4:1/6 | -> 5#4 else asked; 6; Divided InTiles 4; gives 6/1*
plan n=1 need=2 limit=5 tiles=gain vast | 1@1:40/2 5#4:1/6 | -> asked; 2; NothingFasterAnywhere
plan n=1 need=2 limit=5 tiles=gain vast tiles-need=6 | 1@1:40/2 5#4:1/6 | -> asked; 2; NothingFasterAnywhere (tiles need 6 B at least)
plan n=1 need=2 tiles=gain vast no-tiles=residual | 1@1:40/2 | -> asked; 2; NothingFasterAnywhere (residual)
plan n=1 need=2 limit=9 tiles=gain vast | 1@1:40/2 5#4:1/6 5#8:0.51/2 | -> 5#8 else asked; 2; Divided InTiles 8
plan n=1 need=2 limit=9 tiles=gain vast | 1@1:40/2 5#4:1/6 5#8:0.6/2 | -> 5#4 else asked; 6; Divided InTiles 4; gives 6/1*
plan n=1 need=2 limit=9 tiles=gain | 1@1:40/2 1#4:1/6 | -> asked; 2; NothingFasterAnywhere
plan n=1 need=2 limit=9 tiles=gain vast | 1@1:40/2 5#4:1/6 | uncompared=5#4 -> asked; 2; AskedNotCompared; later
plan n=1 need=2 limit=9 tiles=gain vast | 1@1:40/2 5#4:1/6 | no-pieces -> asked; 2; NotPrepared; later; !NotPrepared
plan n=1 need=2 limit=9 tiles=gain vast | 1@1:40/2 5#4:1/6 | tiles-unsettled -> 5#4 else asked; 6; Divided InTiles 4; gives 6/1*; later
# What was told once, needed or not, is told for ever: later more is not, and nothing less.
plan n=1 need=2 limit=9 tiles=gain vast ran | 1@1:40/2 5#4:1/6 | -> asked; 2; NothingFasterAnywhere
plan n=1 need=2 limit=9 tiles=gain vast ran | 1@1:40/2 5#4:1/6 5#8:2/2 | -> 5#8 else asked; 2; Divided InTiles 8
plan n=1 need=2 limit=9 tiles=gain vast told=6/1* divided | 1@1:40/2 5#4:1/6 5#2:1/7 | -> 5#4 else asked; 6; Divided InTiles 4; keeps 6/1*
plan n=1 need=2 limit=9 tiles=gain vast told=6/1* ran | 1@1:40/2 5#4:1/3 | -> 5#4 else asked; 6; Divided InTiles 4; keeps 6/1*
plan n=1 need=2 limit=9 tiles=gain vast stored=6/1* | 1@1:40/2 5#4:1/6 5#2:1/7 | -> 5#4 else asked; 6; Divided InTiles 4; keeps 6/1*
plan n=1 need=2 limit=9 tiles=gain vast stored=6/1* | 1@1:40/2 | tiles-unsettled -> asked; 6; NothingFasterAnywhere; keeps 6/1*; later
plan n=1 need=2 limit=9 tiles=gain vast stored=6/1* | 1@1:40/2 5#4:1/6 | wrong=5#4 -> asked; 6; NothingFasterAnywhere; keeps 6/1*; !DivisionWrong
plan n=1 need=2 limit=9 tiles=gain vast stored=6/1* | 1@1:40/2 5#4:1/6 | no-pieces -> asked; 6; NotPrepared; keeps 6/1*; later; !NotPrepared
plan n=1 need=2 limit=9 tiles=gain vast stored=6/1* | | untuned -> asked; 6; NotMeasured; keeps 6/1*
# So it is without tiles, under any policy, which the plan itself keeps.
plan n=1 need=2 limit=9 vast stored=6/1* | 1@1:40/2 5#4:1/6 | -> asked; 6; CannotBeDivided; keeps 6/1*
plan need=2 limit=9 vast stored=6/1* | 1@8:40/2 1@4:15/2 5#1:1/6 | -> 1@4x2 else asked; 6; Divided 2; keeps 6/1*
plan n=1 need=2 limit=9 vast told=6/1* divided | 1@1:40/2 | -> asked; 6; CannotBeDivided; keeps 6/1*
plan n=1 need=2 limit=9 vast stored=6/1* | | strict deterministic -> asked; 6; CannotBeDivided; keeps 6/1*
# Another process that was first is followed; what exceeds the limit, or is no promise of more, is not kept.
plan n=1 need=2 limit=9 tiles=gain vast rival=7/1* | 1@1:40/2 5#4:1/6 | -> 5#4 else asked; 7; Divided InTiles 4; keeps 7/1*
plan n=1 need=2 limit=9 tiles=gain vast rival=5/1* | 1@1:40/2 5#4:1/6 | -> asked; 5; NothingFasterAnywhere; keeps 5/1*
plan n=1 need=2 limit=9 tiles=gain vast rival=10/1* | 1@1:40/2 5#4:1/6 | -> 5#4 else asked; 6; Divided InTiles 4; replaces 6/1*; !PromiseLost
plan n=1 need=2 limit=9 tiles=gain vast stored=1/1* | 1@1:40/2 5#4:1/6 | -> 5#4 else asked; 6; Divided InTiles 4; replaces 6/1*
# Where a vast plan has to fit, too, and where only its tiles do.
plan n=1 need=8 limit=4 tiles=fit vast others=2/0 | 1@1:40/8 5#4:1/3 | -> 5#4 else 2@1; 3; Divided InTiles 4; gives 3/2*
plan n=1 need=8 limit=4 tiles=fit vast | 1@1:40/8 5#4:1/3 | -> 5#4 or fails; 3; Divided InTiles 4; gives 3/
plan n=1 need=8 limit=4 vast stored=3/ | 1@1:40/8 5#4:1/3 | -> 5#4 or fails; 3; Divided InTiles 4; keeps 3/
# Under one budget nothing of the caller's is promised; what a workspace plan says comes first.
plan n=1 need=0 share=4/8 tiles=gain vast | 1@1:40/0 5#4:1/0 | -> 5#4 else asked; 0; Divided InTiles 4
plan n=1 need=0 share=4/8 tiles=gain vast | 1@1:40/0 5#4:1/3 | -> asked; 0; NothingFasterAnywhere
plan need=8 limit=9 tiles=gain vast file=1@4:?/4x2 | 5#1:1/6 | -> 1@4x2 else asked; 8; PlanFile 2
# Under one budget it is cut where its share is less than its need.
plan n=1 need=8 share=4/8 tiles=fit others=2/0 | 1@1:4/8 2@1:9/0 1#4:1/3 | -> 1#4 else 2@1; 0+3; Divided InTiles 4; gives 0/2
plan n=1 need=8 share=4/8 others=2/0 | 1@1:4/8 2@1:9/0 1#4:1/3 | -> 2@1; 0; Substituted 1; gives 0/2*
plan n=1 need=8 share=0/8 tiles=fit others=2/0 | 1@1:4/8 2@1:9/0 1#4:1/3 | -> 2@1; 0; Substituted 1; gives 0/2*
plan n=1 need=8 share=8/8 tiles=fit others=2/0 | 1@1:4/8 2@1:9/0 1#4:0.1/3 | -> 1#4 else 2@1; 0+3; Divided InTiles 4; gives 0/2
plan n=1 need=8 share=8/8 tiles=fit others=2/0 | 1@1:4/8 2@1:9/0 | tiles-unsettled -> 1@1 else 2@1; 0+8; OwnWorkspace; gives 0/2
plan n=1 need=8 share=8/8 tiles=gain others=2/0 | 1@1:4/8 2@1:9/0 1#4:0.9/6 | -> 1#4 else 2@1; 0+6; Divided InTiles 4; gives 0/2
plan n=1 need=8 share=2/8 told=0/2 tiles=fit others=2/0 divided lost | 1@1:4/8 2@1:9/0 1#4:1/3 1#8:0.9/2 | -> 1#8 else 2@1; 0+2; Divided InTiles 8; keeps 0/2
plan n=1 need=8 share=4/8 told=0/2 tiles=fit others=2/0 divided | 1@1:4/8 2@1:9/0 1#4:1/3 | uncompared=1#4 -> stands; later
plan n=1 need=8 share=4/8 tiles=fit others=2/0 | 1@1:4/8 2@1:9/0 1#4:1/3 | no-pieces -> 2@1; 0; Substituted 1; gives 0/2; later; !NotPrepared
)";

// Calls `each` with the two sides of every row and its line in this file.
template <typename Each>
void ForEachRow(Each each) {
  std::string_view rest = kTable;
  for (int line = kFirstLine; !rest.empty(); ++line) {
    const std::string_view row = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(row.size() + 1, rest.size()));
    const size_t arrow = row.find(" -> ");
    if (row.empty() || row[0] == '#') continue;
    if (arrow == std::string_view::npos) {
      ADD_FAILURE_AT(__FILE__, line) << "expected ' -> '";
      continue;
    }
    each(row.substr(0, arrow), row.substr(arrow + 4), line);
  }
}

TEST(DecisionTable, EveryRowHolds) {
  ForEachRow([](std::string_view given, std::string_view expected, int line) {
    World world;
    try {
      world = ReadWorld(given);
    } catch (const std::invalid_argument& nonsense) {
      ADD_FAILURE_AT(__FILE__, line) << nonsense.what();
      return;
    }
    const std::optional<Decision> decision = DecideIn(world);
    if (!decision) {
      ADD_FAILURE_AT(__FILE__, line) << "no decision after " << kMostSteps << " steps";
      return;
    }
    const std::string decided = Describe(world, *decision);
    if (decided != expected) ADD_FAILURE_AT(__FILE__, line) << given << "\n  " << decided;
    const char* const broken = BrokenInvariant(world.facts, *decision);
    if (broken != nullptr) ADD_FAILURE_AT(__FILE__, line) << broken;
  });
}

Decision Decided(const std::string& line) {
  World world = ReadWorld(line);
  return DecideIn(world).value();
}

TEST(DecisionTable, NamesTheLimitOfEachDecision) {
  const std::pair<const char*, size_t> limits[] = {
      {"plain need=8 passes=6 limit=7 | |", 6},
      {"plain need=8 passes=7 limit=6 | |", 6},
      {"plain need=8 passes=6 limit=7 | 0@8:1/0d |", 6},
      {"plain need=8 passes=4 told=0@8:9/0 | |", 4},
      {"plain need=8 passes=0 share=3/9 | 1@8:4/8 0@8:9/0 |", 3},
      {"plan need=8 | |", 8},
      {"plan need=8 limit=9 | |", 9},
      {"plan need=8 limit=4 others=2/0 | 1@4:3/4 |", 4},
      {"plan need=8 share=3/9 others=2/0 | |", 3},
      {"plan need=8 share=9/3 others=2/0 | |", 3},
      {"plan need=8 file=1@4:?/4x2 | |", 8},
  };
  for (const auto& [line, limit] : limits) {
    EXPECT_EQ(Decided(line).limit_bytes, limit) << line;
  }
}

TEST(DecisionTable, NamesTheFastestUndividedEnginesWithinTheLimit) {
  struct Case {
    const char* line;
    const char* own_api;
    const char* any_api;
  };
  const Case cases[] = {
      {"plain need=8 passes=4 | 1@8:4/8 0@8:9/0 2@8:7/4 1@4:3/4 |", "legacy:2", "legacy:2"},
      {"plain need=8 | 1@8:4/8 0@8:9/0 |", "legacy:1", "legacy:1"},
      {"plain need=8 | |", "", ""},
      {"plain need=8 passes=4 told=1@4:3/4x2~0@8:9/0 | |", "legacy:0", "legacy:0"},
      // In the first of these four rows graph:5 is the fastest and fits. In the second row it still
      // is the fastest undivided engine, though pieces of it are faster. In the third row it is
      // slower than legacy:1, and in the fourth it does not fit.
      {"plain need=8 with-graph | 1@8:6/8 0@8:9/0 g5@8:4/8 |", "legacy:1", "graph:5"},
      {"plain need=8 with-graph | 1@8:6/8 g5@8:4/8 g5@4:1/8 |", "legacy:1", "graph:5"},
      {"plain need=8 with-graph | 1@8:6/8 g5@8:7/8 |", "legacy:1", "legacy:1"},
      {"plain need=8 with-graph | 1@8:6/8 g5@8:4/9 |", "legacy:1", "legacy:1"},
      // In the next row, the fastest engine, graph:5, is a Winograd engine. It is not named,
      // because it is coarser than all engines of the legacy API.
      {"plain need=8 with-graph | 1@8:6/8 g5w@8:4/8 |", "legacy:1", "legacy:1"},

      {"plan need=8 | 1@8:4/8 1@4:1/4 |", "graph:1", "graph:1"},
      {"first need=8 limit=4 others=2/0 | 1@4:3/4 2@8:5/0 |", "graph:2", "graph:2"},
      {"first need=8 limit=4 others=2/0 | 1@4:3/4 |", "", ""},
      // Nothing undivided can replace these pieces: WHOLE, with which they are compared, needs 8
      // bytes, and the call passes 4.
      {"plain need=8 passes=4 told=1@4:3/4x2~1@8:4/8 pieces-alone | |", "", ""},
      {"plain need=8 passes=4 | 1@8:4/8 1@4:3/4 |", "", ""},
  };
  for (const auto& [line, own_api, any_api] : cases) {
    const Baselines baselines = Decided(line).baselines;
    EXPECT_EQ(baselines.own_api.engine, own_api) << line;
    EXPECT_EQ(baselines.any_api.engine, any_api) << line;
  }
}

TEST(DecisionTable, KnowsTheTimeOfWhatRunsAsAskedWhereItWasMeasured) {
  EXPECT_EQ(Decided("plain need=8 | 1@8:4/8 |").configuration.TimeMs(), 4);
  EXPECT_EQ(Decided("plan need=8 | 1@8:4/8 |").configuration.TimeMs(), 4);
  EXPECT_EQ(Decided("plain need=8 | |").configuration.TimeMs(), kUnknownTime);
}

TEST(DecisionTable, TellsWhyItWaitsOrGivesUp) {
  const std::pair<const char*, const char*> details[] = {
      {"plain need=8 | 1@8:4/8 1@4:1/4 | uncompared=1@4", "not now"},
      {"plain need=8 passes=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | uncompared=1@4", "not now"},
      {"plain need=8 | 1@8:4/8 1@4:1/4 | no-pieces", "no pieces"},
      {"plain need=8 passes=4 | 1@8:4/8 0@8:9/0 1@4:3/4 | uncompared=1@4 no-whole", "no whole"},
      {"plan need=8 | 1@8:4/8 1@4:1/4 | uncompared=1@4", "not now"},
      {"plan need=8 | 1@8:4/8 1@4:1/4 | no-pieces", "no pieces"},
      {"plan need=8 limit=4 others=2/0 | 1@4:3/4 | uncompared=1@4", "not now"},
      {"plan need=8 limit=4 others=2/0 | 1@4:3/4 | no-pieces", "no pieces"},
      {"plan need=8 limit=4 file=1@4:?/4x2 others=2/0 | | uncompared=1@4", "not now"},
  };
  for (const auto& [line, detail] : details) {
    EXPECT_EQ(Decided(line).reason.detail, detail) << line;
  }
  const Decision lost = Decided("plan need=8 limit=4 stored=6/2 others=2/0 | 1@4:3/4 |");
  ASSERT_EQ(lost.notes.size(), 1u);
  EXPECT_EQ(lost.notes[0].detail, "it exceeds the limit");
  const Decision none = Decided("plan need=8 limit=4 | 1@4:3/8 |");
  ASSERT_EQ(none.notes.size(), 1u);
  EXPECT_EQ(none.notes[0].detail, "no engine as exact and deterministic fits 4 B");
}

// Decide never reports these causes; the interposer does.
const std::set<FallbackCause> kOfOthers = {FallbackCause::kCannotBeMeasured,
                                           FallbackCause::kWorkspacePlanUnanswered,
                                           FallbackCause::kWorkspacePlanLacksIt,
                                           FallbackCause::kPieceFailed,
                                           FallbackCause::kPieceFailedAlone,
                                           FallbackCause::kPieceFailedAsAsked,
                                           FallbackCause::kCheckFailed,
                                           FallbackCause::kScarceWorkspace,
                                           FallbackCause::kNothingUndividedFits,
                                           FallbackCause::kNothingKnownFits,
                                           FallbackCause::kNoShare,
                                           FallbackCause::kLeftAlone,
                                           FallbackCause::kRefused,
                                           FallbackCause::kTooManyKernels,
                                           FallbackCause::kRanksShareNoStore,
                                           FallbackCause::kHostsShareNoStore,
                                           FallbackCause::kBrokenInvariant};

TEST(DecisionTable, HasEveryKindOfCallAndDecision) {
  std::set<CallKind> kinds;
  std::set<ReasonKind> becauses = {ReasonKind::kBrokenInvariant};  // only DecideBy reports it
  std::set<FallbackCause> causes = kOfOthers;
  std::set<CallAction> actions;
  std::set<FallbackKind> others;
  std::set<When> whens;
  int rows = 0;
  ForEachRow([&](std::string_view given, std::string_view, int) {
    ++rows;
    World world = ReadWorld(given);
    const std::optional<Decision> decision = DecideIn(world);
    if (!decision) return;
    const auto* const call = std::get_if<CallFacts>(&world.facts.program);
    if (call != nullptr) kinds.insert(call->kind);
    if (!decision->standing) becauses.insert(decision->reason.because);
    for (const Note& note : world.fallbacks) causes.insert(note.cause);
    actions.insert(decision->action);
    if (decision->action == CallAction::kSchedule) others.insert(decision->fallback);
    whens.insert(decision->look_again);
  });
  EXPECT_GE(rows, 100);
  EXPECT_EQ(kinds.size(), 6u);
  EXPECT_EQ(actions.size(), 3u);
  EXPECT_EQ(others.size(), 3u);
  EXPECT_EQ(whens.size(), 3u);
  for (int i = 0; i <= static_cast<int>(ReasonKind::kWorkspacePlanWrong); ++i) {
    EXPECT_TRUE(becauses.contains(static_cast<ReasonKind>(i))) << Name(static_cast<ReasonKind>(i));
  }
  for (int i = 0; i <= static_cast<int>(FallbackCause::kBrokenInvariant); ++i) {
    EXPECT_TRUE(causes.contains(static_cast<FallbackCause>(i)))
        << Name(static_cast<FallbackCause>(i));
  }
}

}  // namespace
}  // namespace ucudnn::planning
