#include "options/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Environment = std::map<std::string, std::string>;

struct Parsed {
  Options options;
  std::vector<std::string> warnings;
};

Parsed ParseEnvironment(const Environment& environment, Use use = Use::kRunning) {
  Parsed parsed;
  parsed.options = ParseOptions(
      [&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
      },
      parsed.warnings, use);
  return parsed;
}

TEST(Options, DefaultsNeedNoVariable) {
  const Parsed parsed = ParseEnvironment({});
  EXPECT_THAT(parsed.warnings, IsEmpty());
  EXPECT_EQ(parsed.options.mode, Mode::kOn);
  EXPECT_EQ(parsed.options.policy, BatchSizePolicy::kAuto);
  EXPECT_TRUE(parsed.options.tiles);
  EXPECT_FALSE(parsed.options.workspace_limit.has_value());
  EXPECT_FALSE(parsed.options.deterministic);
  EXPECT_THAT(parsed.options.stores, IsEmpty());
  EXPECT_EQ(parsed.options.log_level, LogLevel::kWarn);
}

TEST(Options, ValuesAreReadInAnyCase) {
  const Parsed parsed = ParseEnvironment({{"UCUDNN_MODE", "Observe"},
                                          {"UCUDNN_BATCH_SIZE_POLICY", "ALL"},
                                          {"UCUDNN_TILES", "Off"},
                                          {"UCUDNN_DETERMINISTIC", "1"},
                                          {"UCUDNN_LOG", "debug"}});
  EXPECT_THAT(parsed.warnings, IsEmpty());
  EXPECT_EQ(parsed.options.mode, Mode::kObserve);
  EXPECT_EQ(parsed.options.policy, BatchSizePolicy::kAll);
  EXPECT_FALSE(parsed.options.tiles);
  EXPECT_TRUE(parsed.options.deterministic);
  EXPECT_EQ(parsed.options.log_level, LogLevel::kDebug);
}

TEST(Options, AWorkspaceLimitOfZeroIsALimit) {
  EXPECT_EQ(ParseEnvironment({{"UCUDNN_WORKSPACE_LIMIT", "0"}}).options.workspace_limit, size_t{0});
  EXPECT_EQ(ParseEnvironment({{"UCUDNN_WORKSPACE_LIMIT", "64MiB"}}).options.workspace_limit,
            size_t{64} << 20);
  EXPECT_EQ(ParseEnvironment({{"UCUDNN_WORKSPACE_LIMIT", "caller"}}).options.workspace_limit,
            std::nullopt);
}

TEST(Options, EnginesOfBothApisServe) {
  EXPECT_EQ(ParseEnvironment({}).options.engines, EngineSet::kBoth);
  EXPECT_EQ(ParseEnvironment({{"UCUDNN_ENGINES", "both"}}).options.engines, EngineSet::kBoth);
  EXPECT_EQ(ParseEnvironment({{"UCUDNN_ENGINES", "Legacy"}}).options.engines, EngineSet::kLegacy);
  EXPECT_EQ(ParseEnvironment({{"UCUDNN_ENGINES", "graph"}}).options.engines, EngineSet::kGraph);
  EXPECT_EQ(ParseEnvironment({{"UCUDNN_ENGINES", "newer"}}).warnings.size(), 1u);
}

TEST(Options, DevicesMeasuredOnAreAListOrAll) {
  const auto devices = [](const char* value) {
    return ParseEnvironment({{"UCUDNN_BENCHMARK_DEVICES", value}}).options.benchmark_devices;
  };
  EXPECT_FALSE(ParseEnvironment({}).options.benchmark_devices.parallel());
  EXPECT_FALSE(devices("current").parallel());
  EXPECT_TRUE(devices("All").all);
  EXPECT_TRUE(devices("all").parallel());
  EXPECT_THAT(devices("0, 2").ordinals, ElementsAre(0, 2));
  EXPECT_TRUE(devices("3").parallel());
  for (const char* bad : {"0,0", "0,", "-1", "one", "0;1", "4294967296"}) {
    EXPECT_FALSE(devices(bad).parallel()) << bad;
    EXPECT_THAT(ParseEnvironment({{"UCUDNN_BENCHMARK_DEVICES", bad}}).warnings,
                ElementsAre(AllOf(HasSubstr("UCUDNN_BENCHMARK_DEVICES"), HasSubstr(bad),
                                  HasSubstr("current, all, or numbers separated by commas"))));
  }
}

TEST(Options, TheOldNameIsReadAndTheNewOneWins) {
  EXPECT_EQ(ParseEnvironment({{"UCUDNN_DEFAULT_WORKSPACE_LIMIT", "5"}}).options.workspace_limit,
            size_t{5});
  EXPECT_EQ(
      ParseEnvironment({{"UCUDNN_DEFAULT_WORKSPACE_LIMIT", "5"}, {"UCUDNN_WORKSPACE_LIMIT", "6"}})
          .options.workspace_limit,
      size_t{6});
}

TEST(Options, DatabasesAreSeparatedByColons) {
  EXPECT_THAT(ParseEnvironment({{"UCUDNN_DATABASE", "/a:/b"}}).options.stores,
              ElementsAre("/a", "/b"));
  EXPECT_THAT(ParseEnvironment({{"HOME", "/h"}, {"UCUDNN_DATABASE", "none"}}).options.stores,
              IsEmpty());
}

TEST(Options, TheDefaultDatabaseIsInTheUsersCacheFolder) {
  EXPECT_THAT(ParseEnvironment({{"HOME", "/h"}}).options.stores,
              ElementsAre("/h/.cache/ucudnn/measurements.db"));
  EXPECT_THAT(ParseEnvironment({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/c"}}).options.stores,
              ElementsAre("/c/ucudnn/measurements.db"));
  EXPECT_THAT(ParseEnvironment({{"HOME", "relative"}}).options.stores, IsEmpty());
}

TEST(Options, AnEmptyVariableIsAnUnsetOne) {
  const Parsed parsed = ParseEnvironment({{"UCUDNN_MODE", ""}, {"UCUDNN_WORKSPACE_LIMIT", ""}});
  EXPECT_THAT(parsed.warnings, IsEmpty());
  EXPECT_EQ(parsed.options.mode, Mode::kOn);
}

class UnreadableValue : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(UnreadableValue, KeepsTheDefaultAndWarnsWithNameValueAndAccepted) {
  const auto& [name, value] = GetParam();
  const Parsed parsed = ParseEnvironment({{name, value}});
  ASSERT_EQ(parsed.warnings.size(), 1u);
  EXPECT_THAT(parsed.warnings[0],
              AllOf(HasSubstr(name), HasSubstr(value), HasSubstr("accepted: ")));
  const Options defaults = ParseEnvironment({}).options;
  EXPECT_EQ(parsed.options.mode, defaults.mode);
  EXPECT_EQ(parsed.options.policy, defaults.policy);
  EXPECT_EQ(parsed.options.tiles, defaults.tiles);
  EXPECT_EQ(parsed.options.workspace_limit, defaults.workspace_limit);
  EXPECT_EQ(parsed.options.stores, defaults.stores);
  EXPECT_EQ(parsed.options.log_level, defaults.log_level);
}

INSTANTIATE_TEST_SUITE_P(
    Options, UnreadableValue,
    ::testing::Values(
        std::pair{"UCUDNN_MODE", "maybe"}, std::pair{"UCUDNN_BATCH_SIZE_POLICY", "powerofthree"},
        std::pair{"UCUDNN_TILES", "4"}, std::pair{"UCUDNN_WORKSPACE_LIMIT", "64MB"},
        std::pair{"UCUDNN_DEFAULT_WORKSPACE_LIMIT", "-1"}, std::pair{"UCUDNN_DATABASE", "/a::/b"},
        std::pair{"UCUDNN_LOG", "loud"}, std::pair{"UCUDNN_DETERMINISTIC", "2"},
        std::pair{"UCUDNN_WORKSPACE_LIMIT", "automatic"}, std::pair{"UCUDNN_TUNE", "later"},
        std::pair{"UCUDNN_TUNE", "after"}, std::pair{"UCUDNN_TUNE", "after:"},
        std::pair{"UCUDNN_TUNE", "after:-1"}, std::pair{"UCUDNN_TUNE", "after:2.5"},
        std::pair{"UCUDNN_TUNE", "after:99999999999999999999"},
        std::pair{"UCUDNN_TUNE_SECONDS", "5"}, std::pair{"UCUDNN_TUNE_SECONDS", "5:"},
        std::pair{"UCUDNN_TUNE_SECONDS", "1:2:3"}, std::pair{"UCUDNN_TUNE_SECONDS", "-1:2"},
        std::pair{"UCUDNN_TUNE_SECONDS", "1:inf"}, std::pair{"UCUDNN_TUNE_SECONDS", "nan:2"},
        std::pair{"UCUDNN_TUNE_SECONDS", "1s:2s"}, std::pair{"UCUDNN_TUNE_MEMORY", "a quarter"},
        std::pair{"UCUDNN_TUNE_MEMORY", "-1"}, std::pair{"UCUDNN_CHECK", "yes"},
        std::pair{"UCUDNN_STRICT_LIMIT", "strict"}));

bool operator==(const Tuning& a, const Tuning& b) {
  return a.on == b.on && a.before_promising == b.before_promising &&
         a.after_calls == b.after_calls && a.kernel_seconds == b.kernel_seconds &&
         a.process_seconds == b.process_seconds && a.memory_bytes == b.memory_bytes;
}

TEST(Options, WithoutAWordKernelsAreMeasuredBeforePromisesAndAtTheThirdCall) {
  const Tuning tuning = ParseEnvironment({}).options.tuning;
  EXPECT_TRUE(tuning.on);
  EXPECT_TRUE(tuning.before_promising);
  EXPECT_EQ(tuning.after_calls, 2);
  EXPECT_EQ(tuning.kernel_seconds, 2);
  EXPECT_EQ(tuning.process_seconds, 60);
  EXPECT_EQ(tuning.memory_bytes, std::nullopt);
}

TEST(Options, WhenKernelsAreMeasured) {
  const Tuning first = ParseEnvironment({{"UCUDNN_TUNE", "First"}}).options.tuning;
  EXPECT_TRUE(first.on);
  EXPECT_TRUE(first.before_promising);
  EXPECT_EQ(first.after_calls, 0);
  const Tuning after = ParseEnvironment({{"UCUDNN_TUNE", "AFTER:7"}}).options.tuning;
  EXPECT_TRUE(after.on);
  EXPECT_FALSE(after.before_promising);
  EXPECT_EQ(after.after_calls, 7);
  EXPECT_FALSE(ParseEnvironment({{"UCUDNN_TUNE", "off"}}).options.tuning.on);
}

TEST(Options, WhatMeasuringMayTake) {
  const Parsed parsed =
      ParseEnvironment({{"UCUDNN_TUNE_SECONDS", " 0.25 : 1e3 "}, {"UCUDNN_TUNE_MEMORY", "64MiB"}});
  EXPECT_THAT(parsed.warnings, IsEmpty());
  EXPECT_EQ(parsed.options.tuning.kernel_seconds, 0.25);
  EXPECT_EQ(parsed.options.tuning.process_seconds, 1000);
  EXPECT_EQ(parsed.options.tuning.memory_bytes, size_t{64} << 20);
  EXPECT_EQ(ParseEnvironment({{"UCUDNN_TUNE_MEMORY", "0"}}).options.tuning.memory_bytes, size_t{0});
}

TEST(Options, UnreadableTuningLeavesTuningAsItIs) {
  for (const auto& [name, value] : {std::pair{"UCUDNN_TUNE", "after:x"},
                                    {"UCUDNN_TUNE_SECONDS", "1:x"},
                                    {"UCUDNN_TUNE_MEMORY", "x"}}) {
    EXPECT_TRUE(ParseEnvironment({{name, value}}).options.tuning == Tuning{}) << name;
  }
}

TEST(Options, AnAutomaticLimitIsNoSize) {
  const Options automatic = ParseEnvironment({{"UCUDNN_WORKSPACE_LIMIT", "Auto"}}).options;
  EXPECT_TRUE(automatic.workspace_limit_auto);
  EXPECT_EQ(automatic.workspace_limit, std::nullopt);
  for (const char* value : {"caller", "5"}) {
    EXPECT_FALSE(
        ParseEnvironment({{"UCUDNN_WORKSPACE_LIMIT", value}}).options.workspace_limit_auto);
  }
}

TEST(Options, SwitchesAreOffWithoutAWord) {
  EXPECT_FALSE(ParseEnvironment({}).options.strict_limit);
  EXPECT_FALSE(ParseEnvironment({}).options.check);
  EXPECT_TRUE(ParseEnvironment({{"UCUDNN_STRICT_LIMIT", "1"}}).options.strict_limit);
  EXPECT_TRUE(ParseEnvironment({{"UCUDNN_CHECK", "on"}}).options.check);
}

TEST(Options, ATerminalThatNobodyNamesOrADumbOneRewritesNoLines) {
  const auto rewrites = [](const Environment& environment) {
    return ParseEnvironment(environment).options.rewrites_lines;
  };
  EXPECT_TRUE(rewrites({{"TERM", "xterm-256color"}}));
  EXPECT_FALSE(rewrites({{"TERM", "dumb"}}));
  EXPECT_FALSE(rewrites({{"TERM", ""}}));
  EXPECT_FALSE(rewrites({}));
}

TEST(Options, ProcessesMeetInTheUsersRuntimeFolder) {
  EXPECT_EQ(ParseEnvironment({}).options.lock_folder, "/tmp");
  EXPECT_EQ(ParseEnvironment({{"XDG_RUNTIME_DIR", "/run/user/7"}}).options.lock_folder,
            "/run/user/7");
  EXPECT_EQ(ParseEnvironment({{"XDG_RUNTIME_DIR", "relative"}}).options.lock_folder, "/tmp");
}

TEST(Options, RankComesFromTheLauncher) {
  EXPECT_EQ(ParseEnvironment({}).options.rank, -1);
  EXPECT_EQ(ParseEnvironment({{"SLURM_PROCID", "4"}}).options.rank, 4);
  EXPECT_EQ(ParseEnvironment({{"RANK", "2"}, {"SLURM_PROCID", "4"}}).options.rank, 2);
  EXPECT_EQ(ParseEnvironment({{"RANK", "two"}}).options.rank, -1);
}

TEST(Options, BudgetForAllKernelsIsRunAndPlannedWith) {
  const Environment variables = {{"UCUDNN_TOTAL_WORKSPACE", "120MiB"},
                                 {"UCUDNN_DIVISION", "Disjoint"},
                                 {"UCUDNN_SOLVER", "glpk"}};
  const Parsed running = ParseEnvironment(variables),
               planning = ParseEnvironment(variables, Use::kPlanning);
  for (const Parsed& parsed : {running, planning}) {
    EXPECT_EQ(parsed.options.total_workspace, size_t{120} << 20);
    EXPECT_EQ(parsed.options.division, WorkspaceDivision::kDisjoint);
    EXPECT_EQ(parsed.options.solver, Solver::kGlpk);
    EXPECT_THAT(parsed.warnings, IsEmpty());
  }
  EXPECT_EQ(running.options.policy, BatchSizePolicy::kPowerOfTwo) << "auto looks at one limit";
  EXPECT_EQ(planning.options.policy, BatchSizePolicy::kAuto);
}

TEST(Options, PlanIsAPath) {
  EXPECT_EQ(ParseEnvironment({{"UCUDNN_WORKSPACE_PLAN", "/a b/plan.json"}}).options.workspace_plan,
            "/a b/plan.json");
  EXPECT_EQ(ParseEnvironment({}).options.workspace_plan, "");
}

TEST(Options, BudgetOfNothingIsRefused) {
  const Parsed parsed = ParseEnvironment({{"UCUDNN_TOTAL_WORKSPACE", "0"}}, Use::kPlanning);
  EXPECT_FALSE(parsed.options.total_workspace);
  EXPECT_THAT(parsed.warnings, ElementsAre(HasSubstr("no budget")));
}

TEST(Options, SettingAnOptionChangesWhatIsAskedForLater) {
  const Variable* const limit = FindVariable("UCUDNN_DEFAULT_WORKSPACE_LIMIT");
  ASSERT_NE(limit, nullptr);
  EXPECT_STREQ(limit->name, "UCUDNN_WORKSPACE_LIMIT");
  EXPECT_EQ(FindVariable("UCUDNN_NOTHING"), nullptr);
  const Options& before = ProcessOptions();
  const std::optional<size_t> limit_before = before.workspace_limit;
  EXPECT_TRUE(SetProcessOption(*limit, "3KiB").ok());
  EXPECT_EQ(ProcessOptions().workspace_limit, size_t{3072});
  EXPECT_EQ(before.workspace_limit, limit_before);
  EXPECT_FALSE(SetProcessOption(*limit, "3 bananas").ok());
  EXPECT_EQ(ProcessOptions().workspace_limit, size_t{3072});

  EXPECT_TRUE(SetProcessOption(*FindVariable("UCUDNN_BATCH_SIZE_POLICY"), "auto").ok());
  EXPECT_TRUE(SetProcessOption(*FindVariable("UCUDNN_TOTAL_WORKSPACE"), "1MiB").ok());
  EXPECT_EQ(ProcessOptions().policy, BatchSizePolicy::kPowerOfTwo);
}

TEST(Options, EveryVariableHasItsOwnNameAndFlagAndSaysWhatItAccepts) {
  std::set<std::string> names;
  for (const Variable& variable : Variables()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    for (const char* name : {variable.old_name, variable.flag}) {
      EXPECT_TRUE(name == nullptr || names.insert(name).second) << name;
    }
    EXPECT_STRNE(variable.accepted, "") << variable.name;
    EXPECT_STRNE(variable.help, "");
  }
}

}  // namespace
}  // namespace ucudnn
