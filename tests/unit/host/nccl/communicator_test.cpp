// Tests how communicators are made and destroyed, and that nothing of them is left afterwards.
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/becomes.h"
#include "tests/unit/host/nccl/processes.h"

namespace hostgpu::nccl::testing {
namespace {

ncclComm_t Alone(ncclConfig_t* config = nullptr) {
  ncclComm_t comm = nullptr;
  EXPECT_NCCL(ncclCommInitRankConfig(&comm, 1, NewId(), 0, config));
  return comm;
}

TEST(Communicator, KnowsItsPlace) {
  WithRanks(3, [](Rank& rank) {
    int count = 0, number = -1;
    EXPECT_NCCL(ncclCommCount(rank.comm, &count));
    EXPECT_NCCL(ncclCommUserRank(rank.comm, &number));
    EXPECT_EQ(count, 3);
    EXPECT_EQ(number, rank.rank);
    EXPECT_EQ(ncclCommCount(rank.comm, nullptr), ncclInvalidArgument);
  });
}

TEST(Communicator, OneThreadMakesAllOfItsDevices) {
  const int devices[] = {2, 0, 1};
  ncclComm_t comms[3];
  EXPECT_NCCL(ncclCommInitAll(comms, 3, devices));
  std::vector<std::unique_ptr<Array<float>>> arrays;
  std::deque<Stream> streams;
  EXPECT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_CUDA(cudaSetDevice(devices[rank]));
    const Stream& stream = streams.emplace_back(cudaStreamDefault);
    arrays.push_back(std::make_unique<Array<float>>(100, static_cast<float>(rank)));
    EXPECT_NCCL((Rank{rank, 3, comms[rank], stream}).Sum(*arrays.back()));
  }
  EXPECT_NCCL(ncclGroupEnd());
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_CUDA(cudaSetDevice(devices[rank]));
    EXPECT_EQ(arrays[rank]->Read(streams[rank]), std::vector<float>(100, 3.0f));
    EXPECT_NCCL(ncclCommDestroy(comms[rank]));
  }
  EXPECT_CUDA(cudaSetDevice(0));
}

TEST(Communicator, DefaultStreamIsThatOfItsDevice) {
  ncclComm_t comms[2];
  EXPECT_NCCL(ncclCommInitAll(comms, 2, nullptr));
  std::vector<std::unique_ptr<Array<int>>> arrays;
  for (int device = 0; device < 2; ++device) {
    EXPECT_CUDA(cudaSetDevice(device));
    arrays.push_back(std::make_unique<Array<int>>(10, device + 1));
  }
  EXPECT_CUDA(cudaSetDevice(0));
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclSend(arrays[0]->data(), 10, ncclInt, 1, comms[0], nullptr));
  EXPECT_NCCL(ncclRecv(arrays[1]->data(), 10, ncclInt, 0, comms[1], nullptr));
  EXPECT_NCCL(ncclGroupEnd());
  EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(arrays[1]->Read(nullptr), std::vector<int>(10, 1));
  arrays.pop_back();
  EXPECT_CUDA(cudaSetDevice(0));
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST(Communicator, AGroupMakesTheRanksOfOneThread) {
  const ncclUniqueId id = NewId();
  ncclComm_t comms[2] = {};
  EXPECT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_CUDA(cudaSetDevice(rank));
    EXPECT_NCCL(ncclCommInitRank(&comms[rank], 2, id, rank));
  }
  EXPECT_NCCL(ncclGroupEnd());
  EXPECT_CUDA(cudaSetDevice(0));
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST(Communicator, TwoRanksOfOneDeviceAreRefused) {
  const ncclUniqueId id = NewId();
  ncclComm_t comms[2] = {};
  EXPECT_CUDA(cudaSetDevice(0));
  EXPECT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NCCL(ncclCommInitRank(&comms[rank], 2, id, rank));
  }
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("Duplicate GPU detected"),
            std::string::npos);
  EXPECT_EQ(comms[0], nullptr);
  EXPECT_EQ(comms[1], nullptr);
  const int same[] = {1, 1};
  EXPECT_EQ(ncclCommInitAll(comms, 2, same), ncclInvalidUsage);
}

TEST(Communicator, RanksThatDisagreeAreRefused) {
  for (const bool same_rank : {false, true}) {
    const ncclUniqueId id = NewId();
    ncclComm_t comms[2] = {};
    EXPECT_NCCL(ncclGroupStart());
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_CUDA(cudaSetDevice(rank));
      EXPECT_NCCL(
          ncclCommInitRank(&comms[rank], same_rank ? 3 : 3 + rank, id, same_rank ? 0 : rank));
    }
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << ncclGetLastError(nullptr);
    EXPECT_CUDA(cudaSetDevice(0));
  }
}

TEST(Communicator, ArgumentsOfItsMakingAreChecked) {
  ncclComm_t comm = nullptr;
  ncclUniqueId none = {};
  EXPECT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 1, none, 0), ncclInvalidArgument);
  const ncclUniqueId id = NewId();
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, -1), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(&comm, kDevices + 1, nullptr), ncclInvalidArgument);
  const int beyond = kDevices;
  EXPECT_EQ(ncclCommInitAll(&comm, 1, &beyond), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(reinterpret_cast<ncclComm_t>(&comm)), ncclInvalidArgument);
  EXPECT_NCCL(ncclCommInitRank(&comm, 1, id, 0)) << "the id is still good";
  EXPECT_NCCL(ncclCommDestroy(comm));
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSystemError) << "the id is used up";
}

TEST(Communicator, ConfigurationIsChecked) {
  struct Change {
    const char* what;
    void (*make)(ncclConfig_t&);
  };
  const Change changes[] = {
      {"magic", [](ncclConfig_t& c) { c.magic = 0; }},
      {"size", [](ncclConfig_t& c) { c.size = 8; }},
      {"version", [](ncclConfig_t& c) { c.version = 1; }},
      {"blocking", [](ncclConfig_t& c) { c.blocking = 2; }},
  };
  const ncclUniqueId id = NewId();
  for (const Change& change : changes) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    change.make(config);
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument) << change.what;
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  EXPECT_NCCL(ncclCommDestroy(Alone(&config)));
  // In NCCL 2.14 the configuration ended after `blocking`, with 4 bytes of padding.
  ncclConfig_t old = NCCL_CONFIG_INITIALIZER;
  old.size = offsetof(ncclConfig_t, blocking) + sizeof old.blocking + 4;
  old.version = 21400;
  EXPECT_NCCL(ncclCommDestroy(Alone(&old)));
}

TEST(Communicator, WithoutBlockingIsInProgressUntilAllRanksAreThere) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclUniqueId id = NewId();
  Rank rank{0, 2, nullptr, nullptr};
  EXPECT_CUDA(cudaSetDevice(0));
  EXPECT_EQ(ncclCommInitRankConfig(&rank.comm, 2, id, 0, &config), ncclInProgress);
  ASSERT_NE(rank.comm, nullptr);
  std::this_thread::sleep_for(kMoment);
  EXPECT_EQ(rank.AsyncError(), ncclInProgress);
  const Array<int> array(1, 7);
  EXPECT_EQ(ncclSend(array.data(), 1, ncclInt, 1, rank.comm, nullptr), ncclInvalidArgument);
  std::thread other([&] {
    EXPECT_CUDA(cudaSetDevice(1));
    ncclComm_t comm = nullptr;
    const Array<int> got(1, 0);
    EXPECT_NCCL(ncclCommInitRank(&comm, 2, id, 1));
    EXPECT_NCCL(ncclRecv(got.data(), 1, ncclInt, 0, comm, nullptr));
    EXPECT_EQ(got.Read(nullptr), std::vector<int>(1, 7));
    EXPECT_NCCL(ncclCommDestroy(comm));
  });
  EXPECT_TRUE(ucudnn::test::Becomes([&] { return rank.AsyncError() != ncclInProgress; }));
  EXPECT_NCCL(ncclSend(array.data(), 1, ncclInt, 1, rank.comm, nullptr));
  EXPECT_NCCL(ncclCommDestroy(rank.comm));
  other.join();
}

TEST(Communicator, CanBeAbortedWhileItIsMade) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  EXPECT_CUDA(cudaSetDevice(0));
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, NewId(), 0, &config), ncclInProgress);
  EXPECT_NCCL(ncclCommAbort(comm));
}

TEST(Communicator, DestroyWaitsForWhatIsEnqueued) {
  WithRanks(2, [](Rank& rank) {
    const Array<int> array(1000, rank.rank);
    if (rank.rank == 0) std::this_thread::sleep_for(kMoment);
    EXPECT_NCCL(rank.Pass(array));
    EXPECT_NCCL(ncclCommDestroy(std::exchange(rank.comm, nullptr)));
    std::vector<int> got(1000);
    EXPECT_CUDA(cudaMemcpy(got.data(), array.data(), array.bytes(), cudaMemcpyDeviceToHost));
    EXPECT_EQ(got, std::vector<int>(1000, 0));
  });
}

TEST(Communicator, IsNotThatOfAForkedChild) {
  EXPECT_CUDA(cudaSetDevice(0));
  const ncclComm_t comm = Alone();
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    const bool refused = ncclCommCount(comm, &count) == ncclInvalidArgument &&
                         ncclCommAbort(comm) == ncclInvalidArgument;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_NCCL(ncclCommDestroy(comm));
}

// An id holds, after its magic number, the board's process (byte 8), the board's file descriptor in
// that process (byte 12), and the file's inode (byte 16).
TEST(Communicator, AnIdOfNoOpenBoardIsRefused) {
  const ncclUniqueId id = NewId();
  EXPECT_CUDA(cudaSetDevice(0));
  for (const int byte : {8, 12, 16}) {
    ncclUniqueId forged = id;
    forged.internal[byte] ^= 64;
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 1, forged, 0), ncclSystemError) << byte;
  }
  ncclComm_t comm = nullptr;
  EXPECT_NCCL(ncclCommInitRank(&comm, 1, id, 0));
  EXPECT_NCCL(ncclCommDestroy(comm));
}

std::set<std::string> FilesIn(const char* folder) {
  std::set<std::string> names;
  DIR* const open = opendir(folder);
  while (const dirent* entry = open ? readdir(open) : nullptr) names.insert(entry->d_name);
  if (open) closedir(open);
  return names;
}

// The test runs in a separate process, in which no other test opens or closes files.
int LeaveNothing(Part& part) {
  WithRanks(kDevices, [](Rank&) {});  // creates what a process creates only once
  const std::set<std::string> shared = FilesIn("/dev/shm");
  const size_t open = FilesIn("/proc/self/fd").size();
  WithRanks(kDevices, [](Rank& rank) {
    const Array<float> array(1000, 1.0f);
    EXPECT_NCCL(rank.Sum(array));
    rank.Synchronize();
  });
  EXPECT_NCCL(ncclCommInitRank(&part.rank.comm, 1, part.id, 0));
  EXPECT_NCCL(ncclCommDestroy(part.rank.comm));
  EXPECT_EQ(FilesIn("/proc/self/fd").size(), open);
  for (const std::string& name : FilesIn("/dev/shm")) {
    const bool ours = name.find("hostgpu") != std::string::npos;
    EXPECT_TRUE(shared.count(name) > 0 || !ours) << name;
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
}
const NamedRole leave_nothing("leave nothing", LeaveNothing);

TEST(Communicator, LeavesNothingBehind) {
  EXPECT_EQ(RunRanks("leave nothing", 1), std::vector<int>{0});
}

}  // namespace
}  // namespace hostgpu::nccl::testing
