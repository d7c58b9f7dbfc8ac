// Tests, row by row, what runs if a call's schedule cannot run, and what runs if a call has no
// decision.
#include "planning/decision/unplanned_call.h"

#include <gtest/gtest.h>

#include <optional>

namespace ucudnn::planning {
namespace {

TEST(RunsPieces, UnlessSomethingElseIsTheDecisionsWord) {
  struct Row {
    Obstacles obstacles;
    bool replaceable, alone;  // the result if something can replace the pieces, and if nothing can
  };
  constexpr Row kRows[] = {
      {{}, true, true},
      {{.first_in_capture = true}, false, false},
      {{.no_workspace = true}, false, false},
      {{.failed = true}, false, true},
      {{.misaligned = true}, false, true},
      {{.failed = true, .misaligned = true}, false, true},
      {{.first_in_capture = true, .failed = true}, false, false},
      {{.no_workspace = true, .misaligned = true}, false, false},
  };
  Decision real, undivided, pieces;
  undivided.fallback = FallbackKind::kUndivided;
  pieces.fallback = FallbackKind::kPieces;
  for (const Row& row : kRows) {
    const int number = static_cast<int>(&row - kRows);
    EXPECT_EQ(RunsPieces(real, row.obstacles), row.replaceable) << number;
    EXPECT_EQ(RunsPieces(undivided, row.obstacles), row.replaceable) << number;
    EXPECT_EQ(RunsPieces(pieces, row.obstacles), row.alone) << number;
  }
}

TEST(DecideUnplanned, KeepsThePromiseElseTheStrictLimitElseRunsWhatIsNamed) {
  constexpr Unplanned kNamed = {CallAction::kReal, 1}, kTold = {CallAction::kReal, 5},
                      kRefused = {CallAction::kRefusal, 1};
  struct Row {
    UnplannedCall call;
    Unplanned runs;
  };
  const std::optional<size_t> needs_8 = 8;
  const Row rows[] = {
      {{.algorithm = 1}, kNamed},
      {{.algorithm = 1, .told = 5}, kTold},
      // No other algorithm can run a call with identity activation.
      {{.kind = CallKind::kIdentity, .algorithm = 1, .told = 5}, kNamed},
      {{.kind = CallKind::kMisaligned, .algorithm = 1, .told = 5}, kTold},
      // A limit that is not strict refuses nothing.
      {{.algorithm = 1, .need_bytes = needs_8, .user_limit = 4}, kNamed},
      {{.algorithm = 1, .need_bytes = needs_8, .user_limit = 4, .strict_limit = true}, kRefused},
      {{.algorithm = 1, .need_bytes = needs_8, .user_limit = 8, .strict_limit = true}, kNamed},
      {{.algorithm = 1, .varies = true}, kRefused},
      {{.algorithm = 1, .varies = true, .observes = true}, kNamed},
      {{.algorithm = 1, .told = 5, .varies = true}, kTold},
      // The told algorithm (5) keeps the limit, however much the named one (1) needs.
      {{.algorithm = 1, .told = 5, .need_bytes = needs_8, .user_limit = 4, .strict_limit = true},
       kTold},
      {{.kind = CallKind::kIdentity,
        .algorithm = 1,
        .told = 5,
        .need_bytes = needs_8,
        .user_limit = 4,
        .strict_limit = true},
       kRefused},
      // If the library refuses a call's algorithm, the call reaches the library, so that the
      // program gets the library's error.
      {{.algorithm = 1, .user_limit = 4, .strict_limit = true}, kNamed},
      {{.algorithm = 1,
        .need_bytes = needs_8,
        .user_limit = 4,
        .strict_limit = true,
        .observes = true},
       kNamed},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(DecideUnplanned(row.call), row.runs) << &row - rows;
  }
}

}  // namespace
}  // namespace ucudnn::planning
