// Tests that the log has each call as often as the device begins it, and in the device's order.
#include "spatial/device_log.h"

#include <gtest/gtest.h>

#include <vector>

#include "cuda/resources.h"
#include "tests/support/device.h"

namespace ucudnn::test {
namespace {

using spatial::DeviceLog;
using Numbers = std::vector<uint64_t>;

class DeviceLogTest : public DeviceTest {
 protected:
  DeviceLogTest() { EXPECT_TRUE(stream.Create().ok()); }
  void Enqueue(uint64_t number, bool is_captured = false) {
    spatial::DeviceCall call;
    call.call = number;
    call.is_captured = is_captured;
    const Result<DeviceLog::Point*> point = log.Begin(call, stream.get());
    ASSERT_TRUE(point.ok()) << point.message();
    EXPECT_TRUE(log.End(*point, stream.get()).ok());
  }
  // Waits for the stream, and returns the numbers of the calls that have begun since the last Take.
  Numbers Take() {
    EXPECT_TRUE(stream.Synchronize().ok());
    Numbers numbers;
    while (const auto begun = log.NextBegun()) numbers.push_back(begun->call);
    return numbers;
  }

  const cuda::Driver& driver = *cuda::GetDriver();
  cuda::Stream stream{driver};
  DeviceLog& log = DeviceLog::Make(driver);
};

TEST_F(DeviceLogTest, ACapturedCallBeginsAtEveryLaunch) {
  Enqueue(1);
  ASSERT_EQ(cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  Enqueue(2, true);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream.get(), &graph), CUDA_SUCCESS);
  EXPECT_EQ(Take(), Numbers{1});
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cuGraphLaunch(exec, stream.get()), CUDA_SUCCESS);
  Enqueue(3);
  EXPECT_EQ(Take(), (Numbers{2, 2, 3}));
  EXPECT_EQ(log.begun(), 4U);
  EXPECT_EQ(log.ended(), 4U);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

TEST_F(DeviceLogTest, AClosedLogOnlyCounts) {
  Enqueue(1);
  EXPECT_TRUE(stream.Synchronize().ok());
  log.Close();
  Enqueue(2);
  EXPECT_EQ(Take(), Numbers{});
  EXPECT_EQ(log.begun(), 2U);
  EXPECT_EQ(log.ended(), 2U);
}

}  // namespace
}  // namespace ucudnn::test
