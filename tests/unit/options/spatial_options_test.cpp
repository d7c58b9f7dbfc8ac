#include "options/spatial_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "options/options.h"
#include "options/variable_names.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using SplitVariables = std::map<std::string, std::string>;

struct ParsedSplit {
  SpatialOptions spatial;
  std::vector<std::string> warnings;
};

ParsedSplit ParseSplit(const SplitVariables& variables) {
  ParsedSplit parsed;
  parsed.spatial = ParseOptions(
                       [&](const char* name) {
                         const auto found = variables.find(name);
                         return found == variables.end() ? nullptr : found->second.c_str();
                       },
                       parsed.warnings)
                       .spatial;
  return parsed;
}

// Returns `more` and the variables with which torchrun starts rank 1 of 4.
SplitVariables Rank1Of4(const SplitVariables& more) {
  SplitVariables variables = more;
  variables.insert({{"RANK", "1"},
                    {"WORLD_SIZE", "4"},
                    {"LOCAL_RANK", "1"},
                    {"MASTER_ADDR", "127.0.0.1"},
                    {"MASTER_PORT", "29500"}});
  return variables;
}

TEST(SpatialOptions, WithoutAWordNothingIsSplitOrRefused) {
  for (const SplitVariables& variables :
       {SplitVariables(), Rank1Of4({}), SplitVariables{{"RANK", "x"}},
        SplitVariables{{"UCUDNN_SPATIAL", ""}, {"UCUDNN_RENDEZVOUS", ""}},
        SplitVariables{{"UCUDNN_MODE", "off"}}}) {
    const ParsedSplit parsed = ParseSplit(variables);
    EXPECT_FALSE(parsed.spatial.grid);
    EXPECT_EQ(parsed.spatial.refusal, "");
    EXPECT_THAT(parsed.warnings, IsEmpty());
  }
  const SpatialOptions spatial = ParseSplit({}).spatial;
  EXPECT_EQ(spatial.timeout_seconds, 600);
  EXPECT_EQ(spatial.agree, SpatialAgreement::kFirst);
  EXPECT_EQ(spatial.reduce, std::nullopt);
  EXPECT_EQ(spatial.ones, std::nullopt);
  EXPECT_EQ(spatial.transport, Transport::kAuto);
  EXPECT_EQ(spatial.token, "");
}

TEST(SpatialOptions, RanksOfAGrid) {
  const ParsedSplit parsed = ParseSplit(Rank1Of4({{"UCUDNN_SPATIAL", "h2w2"}}));
  EXPECT_EQ(parsed.spatial.refusal, "");
  EXPECT_THAT(parsed.warnings, IsEmpty());
  ASSERT_TRUE(parsed.spatial.grid);
  EXPECT_EQ(parsed.spatial.grid->Text(), "h2w2");
  EXPECT_EQ(parsed.spatial.rank, 1);
  EXPECT_EQ(parsed.spatial.size, 4);
  EXPECT_EQ(parsed.spatial.local_rank, 1);
  EXPECT_FALSE(parsed.spatial.in_process);
  ASSERT_TRUE(parsed.spatial.rendezvous);
  EXPECT_EQ(parsed.spatial.rendezvous->host, "127.0.0.1");
  EXPECT_NE(parsed.spatial.rendezvous->port, 29500);
}

TEST(SpatialOptions, ValuesAreRead) {
  const SpatialOptions spatial = ParseSplit({{"UCUDNN_SPATIAL_TIMEOUT", " 2.5 "},
                                             {"UCUDNN_SPATIAL_AGREE", "Each"},
                                             {"UCUDNN_SPATIAL_REDUCE", "none"},
                                             {"UCUDNN_SPATIAL_ONE", "replicated"},
                                             {"UCUDNN_SPATIAL_TRANSPORT", "NCCL"},
                                             {"UCUDNN_RENDEZVOUS", "tcp://node1:7001"},
                                             {"UCUDNN_RENDEZVOUS_TOKEN", "a-secret"}})
                                     .spatial;
  EXPECT_EQ(spatial.refusal, "");
  EXPECT_EQ(spatial.timeout_seconds, 2.5);
  EXPECT_EQ(spatial.agree, SpatialAgreement::kEach);
  EXPECT_EQ(spatial.reduce, SpatialReduction::kNone);
  EXPECT_EQ(spatial.ones, SpatialOnes::kReplicated);
  EXPECT_EQ(spatial.transport, Transport::kNccl);
  EXPECT_EQ(spatial.token, "a-secret");
  ASSERT_TRUE(spatial.rendezvous);
  EXPECT_EQ(spatial.rendezvous->Text(), "tcp://node1:7001");
  EXPECT_EQ(ParseSplit({{"UCUDNN_SPATIAL_REDUCE", "all"}}).spatial.reduce, SpatialReduction::kAll);
  EXPECT_EQ(ParseSplit({{"UCUDNN_SPATIAL_ONE", "split"}}).spatial.ones, SpatialOnes::kSplit);
}

TEST(SpatialOptions, WhatIsGivenWinsOverTheLaunchersAddress) {
  const SpatialOptions spatial =
      ParseSplit(Rank1Of4({{"UCUDNN_SPATIAL", "h4"}, {"UCUDNN_RENDEZVOUS", "file:/shared/meet"}}))
          .spatial;
  EXPECT_EQ(spatial.refusal, "");
  EXPECT_EQ(spatial.rendezvous->Text(), "file:/shared/meet");
}

class UnreadableSplit : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(UnreadableSplit, RefusesWithNameValueAndWhatIsAccepted) {
  const auto& [name, value] = GetParam();
  for (const SplitVariables& around : {SplitVariables(), Rank1Of4({{"UCUDNN_SPATIAL", "h4"}})}) {
    SplitVariables variables = around;
    variables[name] = value;
    const ParsedSplit parsed = ParseSplit(variables);
    EXPECT_THAT(parsed.spatial.refusal,
                AllOf(StartsWith(std::string(name) + "='" + value + "': "),
                      HasSubstr(" (accepted: "), Not(HasSubstr("ignored")), Not(HasSubstr("\n"))));
    EXPECT_FALSE(parsed.spatial.lacks_ranks);
    EXPECT_THAT(parsed.warnings, IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    SpatialOptions, UnreadableSplit,
    ::testing::Values(
        std::pair{"UCUDNN_SPATIAL", "4"}, std::pair{"UCUDNN_SPATIAL", "h"},
        std::pair{"UCUDNN_SPATIAL", "h0"}, std::pair{"UCUDNN_SPATIAL", "h-2"},
        std::pair{"UCUDNN_SPATIAL", "h2h2"}, std::pair{"UCUDNN_SPATIAL", "c4"},
        std::pair{"UCUDNN_SPATIAL", "h4 w2"}, std::pair{"UCUDNN_SPATIAL", "h4,w2"},
        std::pair{"UCUDNN_SPATIAL", "h4294967298"}, std::pair{"UCUDNN_SPATIAL", "h99999w99999"},
        std::pair{"UCUDNN_SPATIAL", "n4"}, std::pair{"UCUDNN_SPATIAL", "off"},
        std::pair{"UCUDNN_SPATIAL", " "}, std::pair{"UCUDNN_SPATIAL_TIMEOUT", "0"},
        std::pair{"UCUDNN_SPATIAL_TIMEOUT", "-1"}, std::pair{"UCUDNN_SPATIAL_TIMEOUT", "soon"},
        std::pair{"UCUDNN_SPATIAL_TIMEOUT", "10s"}, std::pair{"UCUDNN_SPATIAL_TIMEOUT", "inf"},
        std::pair{"UCUDNN_SPATIAL_TIMEOUT", "nan"}, std::pair{"UCUDNN_SPATIAL_TIMEOUT", "1e9"},
        std::pair{"UCUDNN_SPATIAL_AGREE", "always"}, std::pair{"UCUDNN_SPATIAL_REDUCE", "sum"},
        std::pair{"UCUDNN_SPATIAL_REDUCE", "1"}, std::pair{"UCUDNN_SPATIAL_ONE", "1"},
        std::pair{"UCUDNN_SPATIAL_TRANSPORT", "tcp"}, std::pair{"UCUDNN_RENDEZVOUS", "node1"},
        std::pair{"UCUDNN_RENDEZVOUS", "node1:7001"}, std::pair{"UCUDNN_RENDEZVOUS", "tcp://node1"},
        std::pair{"UCUDNN_RENDEZVOUS", "tcp://:7"}, std::pair{"UCUDNN_RENDEZVOUS", "tcp://node1:"},
        std::pair{"UCUDNN_RENDEZVOUS", "tcp://node1:0"},
        std::pair{"UCUDNN_RENDEZVOUS", "tcp://node1:65536"},
        std::pair{"UCUDNN_RENDEZVOUS", "tcp://node1:70 01"},
        std::pair{"UCUDNN_RENDEZVOUS", "tcp://node1:7001/"},
        std::pair{"UCUDNN_RENDEZVOUS", "tcp://me@node1:7001"},
        std::pair{"UCUDNN_RENDEZVOUS", "tcp://::1:7001"},
        std::pair{"UCUDNN_RENDEZVOUS", "tcp://[]:7001"}, std::pair{"UCUDNN_RENDEZVOUS", "file:"},
        std::pair{"UCUDNN_RENDEZVOUS", "file:relative"},
        std::pair{"UCUDNN_RENDEZVOUS", "http://node1:7001"}));

TEST(SpatialOptions, AddressesComeBackAsTheyWere) {
  for (const char* text :
       {"tcp://node1:1", "tcp://10.0.0.1:65535", "tcp://[::1]:7001", "file:/a b/c", "file:/a:b"}) {
    const Result<RendezvousAddress> address = RendezvousAddress::Parse(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->Text(), text);
  }
  EXPECT_EQ(RendezvousAddress::Parse("tcp://[fe80::1]:7")->host, "fe80::1");
}

TEST(SpatialOptions, ASecretIsInNoMessage) {
  for (const std::string& token :
       {std::string("secret with spaces"), std::string("secret\nlines"), std::string(300, 's')}) {
    const ParsedSplit parsed = ParseSplit({{"UCUDNN_RENDEZVOUS_TOKEN", token}});
    EXPECT_EQ(parsed.spatial.refusal,
              "UCUDNN_RENDEZVOUS_TOKEN: no token (accepted: up to 256 characters without spaces, "
              "the same on all ranks)");
    EXPECT_EQ(parsed.spatial.token, "");
  }
  EXPECT_TRUE(IsSecretVariable("UCUDNN_RENDEZVOUS_TOKEN"));
  EXPECT_TRUE(IsSecretVariable("UCUDNN_RENDEZVOUS_TOKN"));
  EXPECT_FALSE(IsSecretVariable("UCUDNN_RENDEZVOUS"));
  EXPECT_FALSE(IsSecretVariable("UCUDNN_SPATIAL"));
}

TEST(SpatialOptions, AControlByteOfAValueIsNoneOfTheLine) {
  EXPECT_THAT(ParseSplit({{"UCUDNN_SPATIAL_AGREE", "a\nb\x1b"}}).spatial.refusal,
              HasSubstr("'a\\x0ab\\x1b'"));
}

TEST(SpatialOptions, SettingsThatDoNotGoTogetherRefuse) {
  const struct {
    SplitVariables variables;
    const char* refusal;
    bool lacks_ranks;
  } cases[] = {
      {Rank1Of4({{"UCUDNN_SPATIAL", "h4"}, {"UCUDNN_MODE", "off"}}),
       "the grid h4 does not go with UCUDNN_MODE=off: each rank would compute its stripe without "
       "its neighbours' rows",
       false},
      {Rank1Of4({{"UCUDNN_SPATIAL", "h4"}, {"UCUDNN_MODE", "observe"}}),
       "the grid h4 does not go with UCUDNN_MODE=observe: each rank would compute its stripe "
       "without its neighbours' rows",
       false},
      {Rank1Of4({{"UCUDNN_SPATIAL", "h2"}}), "the grid h2 is for 2 ranks, but WORLD_SIZE=4", false},
      {Rank1Of4({{"UCUDNN_SPATIAL", "n2h4"}}), "the grid n2h4 is for 8 ranks, but WORLD_SIZE=4",
       false},
      {{{"UCUDNN_SPATIAL", "h4"}},
       "the grid h4 is for 4 ranks, and no launcher says which one this process is; start it with "
       "`ucudnn run --ranks 4`, torchrun, mpirun or srun",
       true},
      {{{"UCUDNN_SPATIAL", "h4"}, {"RANK", "4"}, {"WORLD_SIZE", "4"}},
       "the grid h4 is for 4 ranks, but RANK=4 is no rank of WORLD_SIZE='4': those begin with 0",
       false},
      {{{"UCUDNN_SPATIAL", "h4"}, {"RANK", "a"}},
       "the grid h4 is for 4 ranks, but RANK='a' is no rank: expected a number from 0",
       false},
      {{{"UCUDNN_SPATIAL", "h4"}, {"RANK", "1"}, {"WORLD_SIZE", "4"}},
       "the grid h4 is for 4 ranks, and nobody says where they meet: set UCUDNN_RENDEZVOUS to "
       "tcp://HOST:PORT, rank 0's host, or to file:PATH",
       false},
      {Rank1Of4({{"UCUDNN_SPATIAL", "h4"}, {"UCUDNN_SPATIAL_TRANSPORT", "peer"}}),
       "UCUDNN_SPATIAL_TRANSPORT='peer' is for ranks that are threads of one process, but "
       "WORLD_SIZE=4",
       false},
      {{{"UCUDNN_SPATIAL", "h4"}, {"UCUDNN_SPATIAL_TRANSPORT", "nccl"}},
       "the grid h4 is for 4 ranks, and no launcher says which one this process is; start it with "
       "`ucudnn run --ranks 4`, torchrun, mpirun or srun",
       true},
  };
  for (const auto& [variables, refusal, lacks_ranks] : cases) {
    const SpatialOptions spatial = ParseSplit(variables).spatial;
    EXPECT_EQ(spatial.refusal, refusal);
    EXPECT_EQ(spatial.lacks_ranks, lacks_ranks) << refusal;
  }
}

TEST(SpatialOptions, RanksOfOneProcessNeedNoLauncherAndNoMeeting) {
  for (const char* transport : {"peer", "loopback"}) {
    const SpatialOptions spatial =
        ParseSplit({{"UCUDNN_SPATIAL", "h2w2"}, {"UCUDNN_SPATIAL_TRANSPORT", transport}}).spatial;
    EXPECT_EQ(spatial.refusal, "");
    EXPECT_TRUE(spatial.in_process);
    EXPECT_EQ(spatial.rank, -1);
    EXPECT_EQ(spatial.size, 4);
  }
  const SpatialOptions processes =
      ParseSplit(Rank1Of4({{"UCUDNN_SPATIAL", "h4"}, {"UCUDNN_SPATIAL_TRANSPORT", "loopback"}}))
          .spatial;
  EXPECT_EQ(processes.refusal, "");
  EXPECT_FALSE(processes.in_process);
}

TEST(SpatialOptions, AnUnreadableModeIsAWarningAndSplittingGoesOn) {
  const ParsedSplit parsed =
      ParseSplit(Rank1Of4({{"UCUDNN_SPATIAL", "h4"}, {"UCUDNN_MODE", "of"}}));
  EXPECT_EQ(parsed.spatial.refusal, "");
  EXPECT_EQ(parsed.warnings.size(), 1u);
}

TEST(SpatialOptions, UnknownNamesAreLinesOfTheirOwn) {
  const char* const environment[] = {"UCUDNN_SPATIAL_AGRE=each",
                                     "UCUDNN_WORKSPACE_LIMT=1MiB",
                                     "UCUDNN_RENDEZVOUS_TOKN=secret",
                                     "UCUDNN_SPATIAL_GRID=",
                                     "UCUDNN_SPATIAL=h4",
                                     "UCUDNN_SPATIALLY=1",
                                     nullptr};
  EXPECT_THAT(
      UnknownSpatialVariables(environment),
      ::testing::ElementsAre("UCUDNN_SPATIAL_AGRE is no variable of ucudnn: nothing runs with it; "
                             "did you mean UCUDNN_SPATIAL_AGREE?",
                             "UCUDNN_RENDEZVOUS_TOKN is no variable of ucudnn: nothing runs with "
                             "it; did you mean UCUDNN_RENDEZVOUS_TOKEN?",
                             "UCUDNN_SPATIALLY is no variable of ucudnn: nothing runs with it; did "
                             "you mean UCUDNN_SPATIAL?"));
  EXPECT_THAT(UnknownVariables(environment),
              ::testing::ElementsAre(StartsWith("UCUDNN_WORKSPACE_LIMT ")));
}

TEST(SpatialOptions, AnUnknownNameInTheEnvironmentRefusesToRun) {
  setenv("UCUDNN_SPATIAL_AGRE", "each", 1);
  std::vector<std::string> warnings;
  EXPECT_THAT(OptionsOfEnvironment(warnings, Use::kRunning).spatial.refusal,
              HasSubstr("did you mean UCUDNN_SPATIAL_AGREE?"));
  EXPECT_THAT(warnings, IsEmpty());
  // For Use::kPlanning, the misspelt name is only a warning.
  (void)OptionsOfEnvironment(warnings, Use::kPlanning);
  EXPECT_THAT(warnings, ::testing::ElementsAre(HasSubstr("did you mean UCUDNN_SPATIAL_AGREE?")));
  unsetenv("UCUDNN_SPATIAL_AGRE");
}

TEST(SpatialOptions, NamesAreWhatIsParsed) {
  for (const auto agreement : {SpatialAgreement::kFirst, SpatialAgreement::kEach}) {
    EXPECT_EQ(ParseSplit({{"UCUDNN_SPATIAL_AGREE", SpatialAgreementName(agreement)}}).spatial.agree,
              agreement);
  }
  for (const auto reduction : {SpatialReduction::kAll, SpatialReduction::kNone}) {
    EXPECT_EQ(
        ParseSplit({{"UCUDNN_SPATIAL_REDUCE", SpatialReductionName(reduction)}}).spatial.reduce,
        reduction);
  }
  for (const auto ones : {SpatialOnes::kSplit, SpatialOnes::kReplicated}) {
    EXPECT_EQ(ParseSplit({{"UCUDNN_SPATIAL_ONE", SpatialOnesName(ones)}}).spatial.ones, ones);
  }
  for (const auto transport :
       {Transport::kAuto, Transport::kNccl, Transport::kPeer, Transport::kLoopback}) {
    EXPECT_EQ(
        ParseSplit({{"UCUDNN_SPATIAL_TRANSPORT", TransportName(transport)}}).spatial.transport,
        transport);
  }
}

}  // namespace
}  // namespace ucudnn
