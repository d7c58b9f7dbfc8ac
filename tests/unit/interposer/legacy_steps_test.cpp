// Tests how LegacyAnswers answers planning::Build if no engine has the name in the question.
#include "interposer/legacy/legacy_kernel.h"

#include "legacy_program.h"

namespace ucudnn::interposer {
namespace {

using Kind = planning::BuildOutcome::Kind;

TEST(LegacyAnswers, SayWhetherPiecesOrTheUndividedEngineCannotBeBuilt) {
  Program program(Operation::kForward, Planned());
  Interposer& interposer = program.interposer;
  const LegacyKernel kernel{Problem(Operation::kForward),
                            interposer.sessions().Of(program.handle()), program.handle()};
  LegacyAnswers steps(interposer.legacy_tuner(), kernel);
  const auto of = [](const char* engine, int images) {
    return MicroConfiguration{engine, images, 1, 0, true};
  };
  const auto build = [&](const char* pieces, const char* undivided) {
    const Configuration configuration = {{{of(pieces, 2), kImages / 2}}};
    return steps.Answer(planning::Build{configuration, of(undivided, kImages)}).kind;
  };
  EXPECT_EQ(build("legacy:0", "legacy:0"), Kind::kReady);
  EXPECT_EQ(build("nobody's", "legacy:0"), Kind::kNoPieces);
  EXPECT_EQ(build("legacy:0", "nobody's"), Kind::kNoUndivided);
  EXPECT_EQ(steps.Answer(planning::Build{{}, of("nobody's", kImages)}).kind, Kind::kNoUndivided);
}

}  // namespace
}  // namespace ucudnn::interposer
