#include "options/variable_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "options/options.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string AdviceOn(std::string_view name) {
  const auto unknown = CheckVariableName(name);
  return unknown ? unknown->advice : "known";
}

std::vector<std::string> LinesOf(const std::vector<const char*>& entries) {
  std::vector<const char*> environment = entries;
  environment.push_back(nullptr);
  return UnknownVariables(environment.data());
}

TEST(VariableNames, EveryVariableIsKnownByAllItsNames) {
  for (const Variable& variable : Variables()) {
    EXPECT_EQ(AdviceOn(variable.name), "known");
    if (variable.old_name != nullptr) {
      EXPECT_EQ(AdviceOn(variable.old_name), "known");
    }
  }
}

TEST(VariableNames, OthersVariablesAreNotLookedAt) {
  EXPECT_EQ(AdviceOn("PATH"), "known");
  EXPECT_EQ(AdviceOn("MY_UCUDNN_MODE"), "known");
  EXPECT_EQ(AdviceOn("ucudnn_mode"), "known");
}

TEST(VariableNames, ThoseOfTestsAndToolsAreKnown) {
  for (const char* name :
       {"UCUDNN_TEST_COMMAND", "UCUDNN_TEST_OF_TOMORROW", "UCUDNN_TRACE", "UCUDNN_GPU_TEST_HOST",
        "UCUDNN_FUZZ_SETTLED", "UCUDNN_IGNORE_TOOLKIT", "UCUDNN_LIBRARY"}) {
    EXPECT_EQ(AdviceOn(name), "known") << name;
  }
}

TEST(VariableNames, AMisspeltNameLeadsToTheNearest) {
  EXPECT_EQ(AdviceOn("UCUDNN_WORKSPACE_LIMT"), "did you mean UCUDNN_WORKSPACE_LIMIT?");
  EXPECT_EQ(AdviceOn("UCUDNN_DEFAULT_WORKSPACE_LIMITS"),
            "did you mean UCUDNN_DEFAULT_WORKSPACE_LIMIT?");
  EXPECT_EQ(AdviceOn("UCUDNN_DATABSE"), "did you mean UCUDNN_DATABASE?");
  EXPECT_EQ(AdviceOn("UCUDNN_ENGINE"), "did you mean UCUDNN_ENGINES?");
}

TEST(VariableNames, AnOptionsNameLeadsToItsVariable) {
  EXPECT_EQ(AdviceOn("UCUDNN_DB"), "did you mean UCUDNN_DATABASE?");
  EXPECT_EQ(AdviceOn("UCUDNN_POLICY"), "did you mean UCUDNN_BATCH_SIZE_POLICY?");
}

TEST(VariableNames, ANameFarFromAllIsToBeUnset) {
  EXPECT_EQ(AdviceOn("UCUDNN_SOMETHING_ELSE_ALTOGETHER"), "unset it");
  EXPECT_EQ(AdviceOn("UCUDNN_"), "unset it");
  std::string long_name = "UCUDNN_";
  long_name.append(100'000, 'x');
  EXPECT_EQ(AdviceOn(long_name), "unset it");
}

TEST(VariableNames, WithAMisspeltOneOfSplittingNothingRuns) {
  const auto unknown = CheckVariableName("UCUDNN_SPATIAL_TIMEOT");
  ASSERT_TRUE(unknown.has_value());
  EXPECT_EQ(unknown->what, "UCUDNN_SPATIAL_TIMEOT is no variable of ucudnn: nothing runs with it");
  EXPECT_EQ(unknown->advice, "did you mean UCUDNN_SPATIAL_TIMEOUT?");
}

TEST(VariableNames, TheLaunchersOwnIsKnown) { EXPECT_EQ(AdviceOn("UCUDNN_LAUNCHER"), "known"); }

TEST(UnknownVariables, AreOneLineEach) {
  EXPECT_THAT(LinesOf({"HOME=/home", "UCUDNN_WORKSPACE_LIMT=1MiB", "UCUDNN_MODE=on",
                       "UCUDNN_SOMETHING_ELSE_ALTOGETHER=a=b"}),
              ElementsAre("UCUDNN_WORKSPACE_LIMT is no variable of ucudnn: it changes nothing; "
                          "did you mean UCUDNN_WORKSPACE_LIMIT?",
                          "UCUDNN_SOMETHING_ELSE_ALTOGETHER is no variable of ucudnn: it changes "
                          "nothing; unset it"));
}

TEST(UnknownVariables, EmptyOnesAndBrokenEntriesSayNothing) {
  EXPECT_THAT(UnknownVariables(nullptr), IsEmpty());
  EXPECT_THAT(LinesOf({}), IsEmpty());
  EXPECT_THAT(LinesOf({"UCUDNN_TYPO=", "UCUDNN_TYPO", "", "=", "UCUDNN_"}), IsEmpty());
}

TEST(UnknownVariables, OfManyAFewAreToldAndTheOthersCounted) {
  std::vector<std::string> entries;
  for (int i = 0; i < 1000; ++i) entries.push_back("UCUDNN_TYPO" + std::to_string(i) + "=1");
  std::vector<const char*> environment;
  for (const std::string& entry : entries) environment.push_back(entry.c_str());
  const std::vector<std::string> lines = LinesOf(environment);
  ASSERT_THAT(lines, SizeIs(9));
  EXPECT_EQ(lines.back(), "and 992 more unknown UCUDNN_ variables");
}

}  // namespace
}  // namespace ucudnn
