// Tests what follows each error that NCCL may return. All ranks report an error in NCCL's words if
// it occurs while the channel opens. A later error aborts the channel.
#include <dlfcn.h>

#include <cmath>

#include "tests/unit/transport/exchanging_ranks.h"
#include "transport/nccl.h"

namespace ucudnn::transport::testing {
namespace {

// Returns a function of the failing NCCL. The first call loads that library into the process.
// Channels that open later use it, because an NCCL that is already loaded is found first.
template <class Function>
Function* OfFailingNccl(const char* name) {
  static void* const library = dlopen(FAILING_NCCL, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << FAILING_NCCL;
  return reinterpret_cast<Function*>(dlsym(library, name));
}

void FailAt(const char* function) {
  OfFailingNccl<void(const char*)>("failing_nccl_fail")(function);
}
int OpenGroups() { return OfFailingNccl<int()>("failing_nccl_open_groups")(); }
void ExpectNan(const std::vector<float>& numbers) {
  for (const float number : numbers) ASSERT_TRUE(std::isnan(number));
}
int LivingCommunicators() { return OfFailingNccl<int()>("failing_nccl_communicators")(); }

Result<std::unique_ptr<Channel>> OpenFailingNccl(const ChannelSetup& setup) {
  return OpenNcclChannel(setup, "");
}

class NcclErrors : public ::testing::Test {
 protected:
  void SetUp() override { FailAt(""); }
  // Threads of a channel that failed may still be destroying its communicator.
  void TearDown() override {
    EXPECT_TRUE(Becomes([] { return LivingCommunicators() == 0; }, milliseconds(10000)));
    EXPECT_EQ(OpenGroups(), 0);
    FailAt("");
  }
};

TEST_F(NcclErrors, WhileTheChannelOpensAreToldOnAllRanks) {
  for (const char* function :
       {"ncclGetUniqueId", "ncclCommInitRankConfig", "ncclGroupStart", "ncclSend", "ncclRecv",
        "ncclGroupEnd", "ncclAllReduce", "ncclCommGetAsyncError", "asynchronous"}) {
    SCOPED_TRACE(function);
    FailAt(function);
    RunRanks(2, 2, [](RankThread& self) {
      const Result<std::unique_ptr<Channel>> channel = OpenFailingNccl(self.setup);
      ASSERT_FALSE(channel.ok());
      EXPECT_EQ(channel.message().find("rank 0: "), 0u) << channel.message();
      EXPECT_NE(channel.message().find("NCCL: internal error"), std::string::npos)
          << channel.message();
    });
  }
}

TEST_F(NcclErrors, OfAnExchangeEndItsGroupAndAbortTheChannel) {
  for (const char* function : {"ncclGroupStart", "ncclSend", "ncclRecv", "ncclGroupEnd"}) {
    SCOPED_TRACE(function);
    FailAt("");
    RunChannels(2, 2, OpenFailingNccl, [function](RankThread& self, Channel& channel) {
      Await(self);
      if (self.rank == 0) FailAt(function);
      Await(self);
      const CUdeviceptr data = self.device.Allocate(128);
      const Message send{1 - self.rank, data, 64}, receive{1 - self.rank, data + 64, 64};
      const Status status = channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream);
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.message().find("NCCL: internal error (the link is down)"), std::string::npos)
          << status.message();
      EXPECT_FALSE(channel.Check().ok());
      EXPECT_FALSE(channel.Exchange({}, {&receive, 1}, self.device.stream).ok());
    });
    EXPECT_EQ(OpenGroups(), 0);
  }
}

// An abort ends a call that waits for other ranks, and destroys the communicator of that call.
// Nothing may use the communicator afterwards, whatever the ended call returns.
TEST_F(NcclErrors, ACallThatAnAbortEndsLeavesItsCommunicatorAlone) {
  auto* const wait = OfFailingNccl<void(int)>("failing_nccl_wait");
  auto* const waiting_calls = OfFailingNccl<int()>("failing_nccl_waiting_calls");
  RunChannels(2, 2, OpenFailingNccl, [&](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(64, 64).ok());
    Await(self);
    if (self.rank == 0) FailAt("ncclGroupEnd");
    wait(1);
    Await(self);
    std::thread aborting([&] {
      EXPECT_TRUE(Becomes([&] { return waiting_calls() >= 2; }));
      channel.Abort();
    });
    const CUdeviceptr data = self.device.Allocate(128);
    const Message send{1 - self.rank, data, 64}, receive{1 - self.rank, data + 64, 64};
    const Status status = self.rank == 0
                              ? channel.Exchange({&send, 1}, {&receive, 1}, self.device.stream)
                              : channel.AllReduce(data, 16, Element::kFloat32, self.device.stream);
    EXPECT_FALSE(status.ok());
    aborting.join();
  });
  wait(0);
  auto* const uses_after_end = OfFailingNccl<int()>("failing_nccl_uses_after_end");
  EXPECT_EQ(uses_after_end(), 0);
  OfFailingNccl<void()>("failing_nccl_use_last")();
  EXPECT_EQ(uses_after_end(), 1);
}

TEST_F(NcclErrors, OfAReductionLeaveNan) {
  RunChannels(2, 2, OpenFailingNccl, [](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(0, 4000).ok());
    if (self.rank == 0) FailAt("ncclAllReduce");
    Await(self);
    const CUdeviceptr data = self.device.Allocate(4000);
    self.device.Upload(data, std::vector<float>(1000, 1));
    EXPECT_FALSE(channel.AllReduce(data, 1000, Element::kFloat32, self.device.stream).ok());
    ExpectNan(self.device.Download<float>(data, 1000));
  });
}

TEST_F(NcclErrors, WithoutMoreRoomAReductionHasWhatItHad) {
  RunChannels(2, 2, OpenFailingNccl, [](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(0, 4000).ok());
    const size_t before = channel.device_bytes();
    EXPECT_GT(before, 0U);
    WithoutNextAllocation(self, [&] { EXPECT_FALSE(channel.Reserve(0, 400000).ok()); });
    EXPECT_GE(channel.device_bytes(), before);
    const CUdeviceptr data = self.device.Allocate(4000);
    EXPECT_TRUE(channel.AllReduce(data, 1000, Element::kFloat32, self.device.stream).ok());
  });
}

// The failing NCCL reports success but reduces nothing. The buffer must not keep its old numbers.
TEST_F(NcclErrors, AReductionThatNeverHappensLeavesNan) {
  RunChannels(1, 1, OpenFailingNccl, [](RankThread& self, Channel& channel) {
    ASSERT_TRUE(channel.Reserve(0, 4000).ok());
    const CUdeviceptr data = self.device.Allocate(4000);
    self.device.Upload(data, std::vector<float>(1000, 1));
    ASSERT_TRUE(channel.AllReduce(data, 1000, Element::kFloat32, self.device.stream).ok());
    ExpectNan(self.device.Download<float>(data, 1000));
  });
}

TEST_F(NcclErrors, ThatComeUpLaterAreFoundByChecking) {
  RunChannels(1, 1, OpenFailingNccl, [](RankThread&, Channel& channel) {
    EXPECT_TRUE(channel.Check().ok());
    FailAt("asynchronous");
    const Status status = channel.Check();
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find("NCCL: internal error (the link is down)"), std::string::npos)
        << status.message();
  });
}

}  // namespace
}  // namespace ucudnn::transport::testing
