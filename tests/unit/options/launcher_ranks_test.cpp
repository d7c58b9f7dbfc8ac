#include "options/launcher_ranks.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace ucudnn {
namespace {

using LauncherVariables = std::map<std::string, std::string>;

LauncherRanks RanksSaidBy(const LauncherVariables& variables) {
  return ReadLauncher([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LauncherRanks, NobodySaysAny) {
  const LauncherRanks ranks = RanksSaidBy({{"HOME", "/h"}, {"MASTER_ADDR", "a"}});
  EXPECT_EQ(ranks.rank, -1);
  EXPECT_EQ(ranks.size, -1);
  EXPECT_EQ(ranks.local_rank, -1);
  EXPECT_EQ(ranks.fault, "");
  EXPECT_EQ(ranks.meeting_host, "");
}

TEST(LauncherRanks, EachLauncherHasItsVariables) {
  const LauncherVariables launchers[] = {
      {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}},
      {{"OMPI_COMM_WORLD_RANK", "2"},
       {"OMPI_COMM_WORLD_SIZE", "4"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}},
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}},
      {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "1"}},
      {{"SLURM_PROCID", "2"},
       {"SLURM_NTASKS", "64"},
       {"SLURM_STEP_NUM_TASKS", "4"},
       {"SLURM_LOCALID", "1"}},
  };
  for (const LauncherVariables& variables : launchers) {
    const LauncherRanks ranks = RanksSaidBy(variables);
    EXPECT_EQ(ranks.rank, 2) << ranks.rank_variable;
    EXPECT_EQ(ranks.size, 4) << ranks.rank_variable;
    EXPECT_EQ(ranks.local_rank, 1) << ranks.rank_variable;
    EXPECT_EQ(ranks.fault, "");
    EXPECT_EQ(variables.count(ranks.rank_variable), 1u);
  }
}

TEST(LauncherRanks, OneLauncherSaysAll) {
  const LauncherRanks ranks = RanksSaidBy(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}});
  EXPECT_EQ(ranks.rank, 1);
  EXPECT_EQ(ranks.size, 2);
  EXPECT_EQ(ranks.local_rank, -1);
}

TEST(LauncherRanks, ABatchScriptOfSlurmIsNoRank) {
  const LauncherVariables scripts[] = {
      {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}},
      {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}},
      {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}},
      {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}},
  };
  for (const LauncherVariables& variables : scripts) {
    EXPECT_EQ(RanksSaidBy(variables).rank, -1);
    EXPECT_EQ(RanksSaidBy(variables).fault, "");
  }
}

TEST(LauncherRanks, EmptyVariablesAreUnset) {
  EXPECT_EQ(RanksSaidBy({{"RANK", ""}, {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}).rank, 3);
  EXPECT_EQ(RanksSaidBy({{"RANK", ""}}).fault, "");
}

TEST(LauncherRanks, WhatMakesNoSenseIsAFaultThatNamesIt) {
  const struct {
    LauncherVariables variables;
    const char* fault;
  } cases[] = {
      {{{"RANK", "two"}}, "RANK='two' is no rank: expected a number from 0"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "RANK='-1' is no rank: expected a number from 0"},
      {{{"RANK", "99999999999"}}, "RANK='99999999999' is no rank: expected a number from 0"},
      {{{"RANK", "1 "}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}},
       "RANK='1 ' is no rank: expected a number from 0"},
      {{{"RANK", "1"}}, "RANK=1 says a rank, but WORLD_SIZE is not set"},
      {{{"SLURM_PROCID", "1"}}, "SLURM_PROCID=1 says a rank, but SLURM_STEP_NUM_TASKS is not set"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE='0' is no number of ranks"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "many"}}, "WORLD_SIZE='many' is no number of ranks"},
      {{{"RANK", "4"}, {"WORLD_SIZE", "4"}},
       "RANK=4 is no rank of WORLD_SIZE='4': those begin with 0"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "x"}},
       "the local rank 'x' is no number"},
  };
  for (const auto& [variables, fault] : cases) EXPECT_EQ(RanksSaidBy(variables).fault, fault);
}

TEST(LauncherRanks, RanksMeetAtTheLaunchersAddress) {
  const LauncherVariables torchrun = {{"RANK", "0"},
                                      {"WORLD_SIZE", "2"},
                                      {"LOCAL_WORLD_SIZE", "1"},
                                      {"MASTER_ADDR", "node7"},
                                      {"MASTER_PORT", "29500"}};
  EXPECT_EQ(RanksSaidBy(torchrun).meeting_host, "node7");
  EXPECT_EQ(RanksSaidBy({{"OMPI_COMM_WORLD_RANK", "0"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
                .meeting_host,
            "127.0.0.1");
  EXPECT_EQ(RanksSaidBy({{"OMPI_COMM_WORLD_RANK", "0"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
                .meeting_host,
            "")
      << "nobody says where rank 0 is";
}

TEST(LauncherRanks, SlurmStartsRank0OnItsFirstHost) {
  const auto host = [](const char* list) {
    return RanksSaidBy({{"SLURM_PROCID", "0"},
                        {"SLURM_STEP_NUM_TASKS", "4"},
                        {"SLURM_NNODES", "2"},
                        {"SLURM_STEP_NODELIST", list}})
        .meeting_host;
  };
  EXPECT_EQ(host("gpu7"), "gpu7");
  EXPECT_EQ(host("gpu7,gpu9"), "gpu7");
  EXPECT_EQ(host("gpu[07-09,12],login1"), "gpu07");
  EXPECT_EQ(host("gpu[3]-ib,b"), "gpu3-ib");
  EXPECT_EQ(host("rack[1,2]"), "rack1");
  for (const char* broken : {"", "[", "a[", "a[1", "a[1-", ",", "[,", "a[]"}) (void)host(broken);
  EXPECT_EQ(
      RanksSaidBy({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NNODES", "1"}})
          .meeting_host,
      "127.0.0.1");
}

TEST(LauncherRanks, JobsMeetAtPortsOfTheirOwn) {
  const auto port = [](const std::string& master_port) {
    return RanksSaidBy({{"RANK", "0"},
                        {"WORLD_SIZE", "2"},
                        {"MASTER_ADDR", "a"},
                        {"MASTER_PORT", master_port}})
        .meeting_port;
  };
  EXPECT_EQ(port("29500"), port("29500"));
  std::set<int> different;
  for (int master = 20000; master < 33000; ++master) {
    const int met = port(std::to_string(master));
    EXPECT_NE(met, master);
    EXPECT_GE(met, 1024);
    EXPECT_LT(met, 32768) << "where systems choose ports for those who connect";
    different.insert(met);
  }
  EXPECT_GT(different.size(), 6000u) << "as random numbers would be";
  const auto slurm = [](const char* job) {
    return RanksSaidBy(
               {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_JOB_ID", job}})
        .meeting_port;
  };
  EXPECT_NE(slurm("1"), slurm("2"));
}

}  // namespace
}  // namespace ucudnn
