// Calls whose callers were promised to bring no workspace, on the stand-in's real arithmetic:
// pieces run in the library's own.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "wrong_stand_in.h"

namespace ucudnn::interposer {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr Operation kDivided[] = {Operation::kForward, Operation::kBackwardFilter};

// Algorithm 0, promised without workspace, is served by pairs of images of algorithm 1.
struct Promised : Program {
  explicit Promised(Operation of) : Program(of, Planned()), operation(of) {
    need = Need(1, 2);
    EXPECT_GT(need, 0u);
    const MicroConfiguration pair = {"legacy:1", 2, 1, need, true};
    const MicroConfiguration whole = {"legacy:0", kImages, 100, 0, true};
    StoreRow({pair, 5, true});
    StoreRow({whole, 5, true});
    planning::Promise promise;
    promise.reported = whole;
    promise.plan = {{{pair, kImages / 2}}};
    promise.undivided = promise.fastest_undivided = whole;
    promise.limit_bytes = promise.library_bytes = need;
    interposer.promises().Add({0, 0, Problem(of)}, std::move(promise));
  }

  const void* CallersWorkspace() const { return Call().workspace; }
  // Where the pieces of one call had their workspace.
  const void* Ran(size_t bytes = 0) {
    ExpectRight(0, bytes);
    EXPECT_THAT(TheCalls(), SizeIs(kImages / 2));
    const void* const workspace = TheCalls()[0].workspace;
    EXPECT_THAT(TheCalls(), Each(Field(&Seen::workspace, workspace)));
    EXPECT_THAT(TheCalls(), Each(Field(&Seen::algorithm, 1)));
    return workspace;
  }
  void ExpectUndivided() {
    ExpectRight(0, 0);
    ASSERT_THAT(TheCalls(), SizeIs(1));
    EXPECT_EQ(TheCalls()[0].algorithm, 0);
    EXPECT_EQ(TheCalls()[0].workspace, nullptr);
  }
  size_t ArenaBytes() {
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    return interposer.ArenaOf(context).bytes();
  }

  const Operation operation;
  size_t need = 0;
};

TEST(LibraryWorkspace, HoldsThePiecesAndTheCallersIsUntouched) {
  for (const Operation operation : kDivided) {
    SCOPED_TRACE(OperationName(operation));
    Promised program(operation);
    const auto callers = reinterpret_cast<CUdeviceptr>(program.CallersWorkspace());
    ASSERT_EQ(cuMemsetD8(callers, 0x5a, Program::kWorkspace), CUDA_SUCCESS);
    const void* const own = program.Ran();
    EXPECT_NE(own, nullptr);
    EXPECT_NE(own, program.CallersWorkspace());
    EXPECT_EQ(program.Ran(), own);
    EXPECT_EQ(program.Ran(Program::kWorkspace), own) << "whatever the caller passes";
    std::vector<unsigned char> left(Program::kWorkspace);
    ASSERT_EQ(cuMemcpyDtoH(left.data(), callers, left.size()), CUDA_SUCCESS);
    EXPECT_EQ(std::count(left.begin(), left.end(), 0x5a), Program::kWorkspace);
    EXPECT_EQ(program.Fallbacks(), "[]");
  }
}

TEST(LibraryWorkspace, IsStatedAndInsideTheLimit) {
  Promised program(Operation::kForward);
  program.Ran();
  const nlohmann::json kernel = program.ReportJson()["kernels"][0];
  EXPECT_EQ(kernel["workspace_bytes"], 0);
  EXPECT_EQ(kernel["library_bytes"], program.need);
  EXPECT_EQ(kernel["limit_bytes"], program.need);
  EXPECT_EQ(program.ArenaBytes(), program.need);
}

TEST(LibraryWorkspace, OfTwoStreamsAndTwoHandlesIsApart) {
  Promised program(Operation::kForward);
  const void* const first = program.Ran();
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  program.interposer.SetStream(program.handle(), stream);
  const void* const second = program.Ran();
  EXPECT_NE(second, first);
  program.interposer.SetStream(program.handle(), nullptr);
  EXPECT_EQ(program.Ran(), first);
  EXPECT_EQ(program.ArenaBytes(), 2 * program.need);
  cudnnHandle_t other = nullptr;
  ASSERT_EQ(program.interposer.Create(&other), CUDNN_STATUS_SUCCESS);
  cudnn::LegacyCall call = program.Call(0, 0);
  call.handle = other;
  TheCalls().clear();
  EXPECT_EQ(program.interposer.Convolve(call), CUDNN_STATUS_SUCCESS);
  ASSERT_FALSE(TheCalls().empty());
  EXPECT_NE(TheCalls()[0].workspace, first);
  EXPECT_NE(TheCalls()[0].workspace, second);
  EXPECT_EQ(program.ArenaBytes(), 3 * program.need);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(program.interposer.Destroy(other), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST(LibraryWorkspace, IsGivenBackWithTheLastHandle) {
  size_t before = 0, after = 0, total = 0;
  Promised program(Operation::kForward);
  cudnnHandle_t other = nullptr;
  ASSERT_EQ(program.interposer.Create(&other), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cuMemGetInfo(&before, &total), CUDA_SUCCESS);
  cudnn::LegacyCall call = program.Call(0, 0);
  call.handle = other;
  EXPECT_EQ(program.interposer.Convolve(call), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(program.ArenaBytes(), program.need);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(program.interposer.Destroy(other), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(program.ArenaBytes(), 0u);
  ASSERT_EQ(cuMemGetInfo(&after, &total), CUDA_SUCCESS);
  EXPECT_GE(after, before);
}

TEST(LibraryWorkspace, OfACaptureIsItsOwn) {
  Promised program(Operation::kForward);
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  program.interposer.SetStream(program.handle(), stream);
  const void* const outside = program.Ran();
  const auto captured = [&] {
    TheCalls().clear();
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(program.interposer.Convolve(program.Call(0, 0)), CUDNN_STATUS_SUCCESS);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    return TheCalls();
  };
  const std::vector<Seen> unready = captured();
  ASSERT_THAT(unready, SizeIs(1));
  EXPECT_EQ(unready[0].workspace, nullptr) << "the choice without workspace";
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  ASSERT_TRUE(program.interposer.ArenaOf(context).ReserveForCapture(program.need).ok());
  const std::vector<Seen> pieces = captured();
  ASSERT_THAT(pieces, SizeIs(kImages / 2));
  EXPECT_NE(pieces[0].workspace, nullptr);
  EXPECT_NE(pieces[0].workspace, outside);
  EXPECT_THAT(captured(), SizeIs(1)) << "never lent again";
  EXPECT_EQ(program.Ran(), outside);
  program.interposer.SetStream(program.handle(), nullptr);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST(LibraryWorkspace, WithoutMemoryTheUndividedRuns) {
  Promised program(Operation::kForward);
  hostgpuInjectFault("alloc", 1);
  program.ExpectUndivided();
  hostgpuInjectFault("alloc", 0);
  program.ExpectUndivided();
  EXPECT_THAT(program.Fallbacks(), HasSubstr("no memory for the library's own workspace"));
}

}  // namespace
}  // namespace ucudnn::interposer
