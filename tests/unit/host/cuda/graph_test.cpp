// Tests that graphs do the same as direct execution, in the same order, on the stream on which they
// are launched.
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "tests/unit/host/cuda/capturing.h"

namespace hostgpu::testing {
namespace {

using Graphs = Capturing;

// Writes its name to the journal each time it runs. The entries of Journal::Launch delete
// themselves after one run, so graphs use Lines.
struct Line {
  Journal* journal;
  int name;
  static void Write(void* line) {
    auto* self = static_cast<Line*>(line);
    self->journal->Write(self->name);
  }
};

TEST_F(Graphs, ReplayInOrderOnTheStreamTheyAreLaunchedOn) {
  Journal journal;
  Line one{&journal, 1}, two{&journal, 2};
  const Executable exec = Captured(first_, [&] {
    EXPECT_OK(cuLaunchHostFunc(first_, Line::Write, &one));
    EXPECT_OK(cuLaunchHostFunc(first_, Line::Write, &two));
  });
  Gate gate;
  gate.Launch(first_);
  journal.Launch(second_, 0);
  EXPECT_OK(cuGraphLaunch(exec, second_));
  journal.Launch(second_, 3);
  EXPECT_OK(cuStreamSynchronize(second_));
  EXPECT_EQ(journal.Read(), (std::vector<int>{0, 1, 2, 3}));
  gate.Open();
}

TEST_F(Graphs, ChildGraphsRunBehindWhatTheyDependOn) {
  Journal journal;
  Line lines[] = {{&journal, 1}, {&journal, 2}, {&journal, 3}};
  auto parent = std::make_unique<Graph>();
  CUgraphNode nodes[3] = {};
  for (int i = 0; i < 3; ++i) {
    // The parent's node copies `child`, which is destroyed here.
    const Graph child(first_, [&] { EXPECT_OK(cuLaunchHostFunc(first_, Line::Write, &lines[i])); });
    EXPECT_OK(cuGraphAddChildGraphNode(&nodes[i], *parent, i == 0 ? nullptr : &nodes[i - 1],
                                       i == 0 ? 0 : 1, child));
  }
  EXPECT_EQ(parent->Nodes(), 3u);
  CUgraphNodeType type;
  EXPECT_OK(cuGraphNodeGetType(nodes[1], &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_GRAPH);
  CUgraph inner = nullptr;
  EXPECT_OK(cuGraphChildGraphNodeGetGraph(nodes[1], &inner));
  size_t count = 0;
  EXPECT_OK(cuGraphGetNodes(inner, nullptr, &count));
  EXPECT_EQ(count, 1u);
  // A node that other nodes wait for cannot be destroyed; the last node can.
  EXPECT_EQ(cuGraphDestroyNode(nodes[0]), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_OK(cuGraphDestroyNode(nodes[2]));
  EXPECT_EQ(cuGraphChildGraphNodeGetGraph(nodes[2], &inner), CUDA_ERROR_INVALID_VALUE);
  // `outer` is a graph of graphs of graphs.
  auto outer = std::make_unique<Graph>();
  CUgraphNode node = nullptr;
  EXPECT_OK(cuGraphAddChildGraphNode(&node, *outer, nullptr, 0, *parent));
  EXPECT_EQ(cuGraphAddChildGraphNode(&node, *outer, nullptr, 0, *outer), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddChildGraphNode(&node, *outer, nodes, 1, *parent), CUDA_ERROR_INVALID_VALUE);
  parent.reset();
  const Executable exec(*outer);
  outer.reset();
  exec.Run(second_);
  EXPECT_EQ(journal.Read(), (std::vector<int>{1, 2}));
}

TEST_F(Graphs, ClonesAreUpdatedAloneAndTellWhatTheirNodesWaitFor) {
  Journal journal;
  Line lines[] = {{&journal, 1}, {&journal, 2}};
  const auto work = [&](int i) { return hostgpuWork{Line::Write, nullptr, &lines[i], nullptr, 0}; };
  const hostgpuWork one = work(0), two = work(1);
  const Graph child, parent;
  ASSERT_EQ(hostgpuAddToGraph(child, &one, 7), 1);
  CUgraphNode nodes[2] = {};
  ASSERT_OK(cuGraphAddChildGraphNode(&nodes[0], parent, nullptr, 0, child));
  ASSERT_OK(cuGraphAddChildGraphNode(&nodes[1], parent, nodes, 1, child));
  CUgraph clone = nullptr;
  ASSERT_OK(cuGraphChildGraphNodeGetGraph(nodes[1], &clone));
  CUgraphNode original = nullptr, cloned = nullptr;
  size_t count = 1;
  EXPECT_OK(cuGraphGetNodes(child, &original, &count));
  EXPECT_OK(cuGraphGetNodes(clone, &cloned, &count));
  EXPECT_NE(original, cloned);
  CUgraphNode found = nullptr;
  EXPECT_OK(cuGraphGetRootNodes(parent, nullptr, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_OK(cuGraphGetRootNodes(parent, &found, &count));
  EXPECT_EQ(found, nodes[0]);
  EXPECT_OK(cuGraphNodeGetDependentNodes(nodes[0], &found, nullptr, &count));
  EXPECT_EQ(found, nodes[1]);
  EXPECT_OK(cuGraphNodeGetDependencies(nodes[1], &found, nullptr, &count));
  EXPECT_EQ(found, nodes[0]);
  EXPECT_OK(cuGraphNodeGetDependentNodes(nodes[1], nullptr, nullptr, &count));
  EXPECT_EQ(count, 0u);
  EXPECT_OK(cuGraphNodeGetDependencies(nodes[0], nullptr, nullptr, &count));
  EXPECT_EQ(count, 0u);

  const Executable exec(parent);
  EXPECT_EQ(hostgpuUpdateInGraph(clone, &two, 8), 0);  // no node has kernel 8
  EXPECT_EQ(hostgpuUpdateInGraph(parent, &two, 7), 0);
  ASSERT_EQ(hostgpuUpdateInGraph(clone, &two, 7), 1);
  EXPECT_OK(cuGraphGetNodes(clone, &found, &(count = 1)));
  EXPECT_EQ(found, cloned);
  exec.Run(first_);
  EXPECT_EQ(journal.Read(), (std::vector<int>{1, 1}));
  CUgraphExecUpdateResultInfo info{};
  ASSERT_OK(cuGraphExecUpdate(exec, parent, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  exec.Run(first_);
  EXPECT_EQ(journal.Read(), (std::vector<int>{1, 1, 1, 2}));
  // `exec` has two nodes, so it cannot be updated to `parent` with only one.
  EXPECT_OK(cuGraphDestroyNode(nodes[1]));
  EXPECT_EQ(cuGraphExecUpdate(exec, parent, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  exec.Run(first_);
  EXPECT_EQ(journal.Read(), (std::vector<int>{1, 1, 1, 2, 1, 2}));
}

// Runs a random sequence of copies and fills, some on a forked stream, directly and as a graph.
TEST_F(Graphs, ReplayEqualsDirectExecutionBitForBit) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr size_t kBytes = 4096;
  const DeviceMemory first(kBytes), second(kBytes), third(kBytes);
  const CUdeviceptr memory[] = {first, second, third};
  std::vector<unsigned char> host(kBytes);
  unsigned char* pinned = nullptr;
  ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), kBytes, 0));
  const auto start = [&](unsigned char first) {
    std::iota(pinned, pinned + kBytes, first);
    for (const CUdeviceptr address : memory) {
      EXPECT_OK(cuMemsetD8Async(address, first, kBytes, first_));
    }
  };
  const auto read = [&](CUstream stream) {
    std::vector<unsigned char> all;
    EXPECT_OK(cuStreamSynchronize(stream));
    for (const CUdeviceptr address : memory) {
      EXPECT_OK(cuMemcpyDtoH(host.data(), address, kBytes));
      all.insert(all.end(), host.begin(), host.end());
    }
    return all;
  };
  for (int round = 0; round < 20; ++round) {
    const unsigned program = random();
    const auto run = [&] {
      std::mt19937 choose(program);
      for (int step = 0; step < 30; ++step) {
        const CUdeviceptr to = memory[choose() % 3], from = memory[choose() % 3];
        const size_t at = choose() % (kBytes / 2), bytes = choose() % (kBytes / 2);
        switch (choose() % 4) {
          case 0:
            EXPECT_OK(
                cuMemsetD8Async(to + at, static_cast<unsigned char>(choose()), bytes, first_));
            break;
          case 1:
            if (to != from) {
              EXPECT_OK(cuMemcpyDtoDAsync(to + at, from + kBytes / 2, bytes, first_));
            }
            break;
          case 2:
            EXPECT_OK(cuMemcpyHtoDAsync(to + at, pinned + at / 2, bytes, first_));
            break;
          default:
            Chain(first_, event_, second_);
            EXPECT_OK(cuMemcpyHtoDAsync(to + at, pinned + at, bytes, second_));
            Chain(second_, other_event_, first_);
        }
      }
    };
    const Executable exec = Captured(first_, run);
    for (const unsigned char value : {1, 7}) {  // the second changes all inputs
      start(value);
      run();
      const auto direct = read(first_);
      start(value);
      EXPECT_OK(cuStreamSynchronize(first_));
      EXPECT_OK(cuGraphLaunch(exec, outside_));
      EXPECT_EQ(read(outside_), direct);
    }
  }
  EXPECT_OK(cuMemFreeHost(pinned));
}

TEST_F(Graphs, ARecordedPageableCopyReadsItsSourceAtReplay) {
  const DeviceMemory memory(sizeof(int));
  int source = 1, seen = 0;
  const Executable exec = Captured(
      first_, [&] { EXPECT_OK(cuMemcpyHtoDAsync(memory, &source, sizeof source, first_)); });
  source = 2;
  exec.Run(first_);
  EXPECT_OK(cuMemcpyDtoH(&seen, memory, sizeof seen));
  EXPECT_EQ(seen, 2);
}

TEST_F(Graphs, LaunchesOfOneNeverOverlap) {
  struct Seen {
    std::atomic<int> inside{0}, most{0}, runs{0};
  } seen;
  const Executable exec = Captured(first_, [&] {
    EXPECT_OK(cuLaunchHostFunc(
        first_,
        [](void* argument) {
          auto* seen = static_cast<Seen*>(argument);
          const int inside = ++seen->inside;
          if (inside > seen->most) seen->most = inside;
          std::this_thread::yield();
          --seen->inside;
          ++seen->runs;
        },
        &seen));
  });
  // The gate holds the first launch. The second launch, on a stream with no other work, waits for
  // the first one.
  Gate gate;
  gate.Launch(first_);
  EXPECT_OK(cuGraphLaunch(exec, first_));
  EXPECT_OK(cuGraphLaunch(exec, second_));
  EXPECT_EQ(cuStreamQuery(second_), CUDA_ERROR_NOT_READY);
  gate.Open();
  for (int i = 0; i < 50; ++i) EXPECT_OK(cuGraphLaunch(exec, i % 2 ? first_ : second_));
  EXPECT_OK(cuStreamSynchronize(first_));
  EXPECT_OK(cuStreamSynchronize(second_));
  EXPECT_EQ(seen.runs, 52);
  EXPECT_EQ(seen.most, 1);
}

// Each graph waits, while it runs, until the other one has begun.
TEST_F(Graphs, TwoRunAtOnceOnTwoStreams) {
  struct Meeting {
    std::mutex mutex;
    std::condition_variable changed;
    int arrived = 0;
  } meeting;
  const auto meet = [](void* argument) {
    auto* meeting = static_cast<Meeting*>(argument);
    std::unique_lock lock(meeting->mutex);
    ++meeting->arrived;
    meeting->changed.notify_all();
    meeting->changed.wait(lock, [&] { return meeting->arrived >= 2; });
  };
  const auto record = [&] { EXPECT_OK(cuLaunchHostFunc(first_, meet, &meeting)); };
  const Executable one = Captured(first_, record), other = Captured(first_, record);
  EXPECT_OK(cuGraphLaunch(one, first_));
  EXPECT_OK(cuGraphLaunch(other, second_));
  EXPECT_OK(cuStreamSynchronize(first_));
  EXPECT_OK(cuStreamSynchronize(second_));
  EXPECT_EQ(meeting.arrived, 2);
}

TEST_F(Graphs, ALaunchIsCapturedAsOneNode) {
  Journal journal;
  Line one{&journal, 1};
  const Executable inner =
      Captured(first_, [&] { EXPECT_OK(cuLaunchHostFunc(first_, Line::Write, &one)); });
  const Executable outer = Captured(second_, [&] {
    EXPECT_OK(cuGraphLaunch(inner, second_));
    EXPECT_OK(cuGraphLaunch(inner, second_));
  });
  EXPECT_TRUE(journal.Read().empty());
  outer.Run(outside_);
  EXPECT_EQ(journal.Read(), (std::vector<int>{1, 1}));
}

TEST_F(Graphs, OutliveWhatTheyWereMadeFrom) {
  Journal journal;
  Line one{&journal, 1};
  CUstream gone = nullptr;
  ASSERT_OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
  Begin(gone);
  EXPECT_OK(cuLaunchHostFunc(gone, Line::Write, &one));
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamEndCapture(gone, &graph));
  ASSERT_OK(cuStreamDestroy(gone));
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  ASSERT_OK(cuGraphDestroy(graph));
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  Gate gate;
  gate.Launch(first_);
  EXPECT_OK(cuGraphLaunch(exec, first_));
  EXPECT_OK(cuGraphExecDestroy(exec));  // the graph still runs and is destroyed afterwards
  EXPECT_EQ(cuGraphLaunch(exec, first_), CUDA_ERROR_INVALID_VALUE);
  gate.Open();
  EXPECT_OK(cuStreamSynchronize(first_));
  EXPECT_EQ(journal.Read(), std::vector<int>{1});
}

TEST_F(Graphs, NodesAreListedWithTheirTypes) {
  const DeviceMemory memory(64);
  std::atomic<int> ran{0};
  const Graph graph(first_, [&] {
    EXPECT_OK(cuMemsetD8Async(memory, 1, 32, first_));
    EXPECT_OK(cuMemcpyDtoDAsync(memory + 32, memory, 32, first_));
    EXPECT_EQ(Enqueue(first_, Increment, &ran), 1);
  });
  CUgraphNode nodes[5] = {nullptr, nullptr, nullptr, nullptr, reinterpret_cast<CUgraphNode>(this)};
  size_t count = 4;
  EXPECT_OK(cuGraphGetNodes(graph, nodes, &count));
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(nodes[3], nullptr);
  EXPECT_EQ(nodes[4], reinterpret_cast<CUgraphNode>(this));
  const CUgraphNodeType expected[] = {CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_MEMCPY,
                                      CU_GRAPH_NODE_TYPE_KERNEL};
  for (int i = 0; i < 3; ++i) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    EXPECT_OK(cuGraphNodeGetType(nodes[i], &type));
    EXPECT_EQ(type, expected[i]) << i;
  }
  count = 2;
  EXPECT_OK(cuGraphGetNodes(graph, nodes, &count));
  EXPECT_EQ(count, 2u);
}

TEST_F(Graphs, WhoseMemoryWasFreedAreRefusedByName) {
  CUdeviceptr memory = 0, again = 0;
  ASSERT_OK(cuMemAlloc(&memory, 64));
  const Executable exec =
      Captured(first_, [&] { EXPECT_OK(cuMemsetD8Async(memory, 1, 64, first_)); });
  EXPECT_OK(cuGraphLaunch(exec, first_));
  EXPECT_OK(cuMemFree(memory));
  ASSERT_OK(cuMemAlloc(&again, 64));
  EXPECT_EQ(again, memory);  // a new allocation at the same address
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cuGraphLaunch(exec, first_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("freed since"), std::string::npos);
  EXPECT_OK(cuMemFree(again));
}

TEST_F(Graphs, FlagsAreChecked) {
  const Graph graph(first_, [] {});
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphInstantiate(&exec, graph, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphInstantiate(&exec, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
  EXPECT_OK(cuGraphLaunch(exec, first_));  // an empty graph can be launched, too
  EXPECT_OK(cuStreamSynchronize(first_));
  EXPECT_OK(cuGraphExecDestroy(exec));
}

TEST_F(Graphs, TheRuntimeSpeaksOfTheSameGraphs) {
  Journal journal;
  Line one{&journal, 1};
  ASSERT_OK(cudaStreamBeginCapture(first_, cudaStreamCaptureModeGlobal));
  EXPECT_OK(cudaLaunchHostFunc(first_, Line::Write, &one));
  cudaGraph_t graph = nullptr;
  ASSERT_OK(cudaStreamEndCapture(first_, &graph));
  size_t count = 1;
  cudaGraphNode_t node = nullptr;
  EXPECT_OK(cudaGraphGetNodes(graph, &node, &count));
  cudaGraphNodeType type = cudaGraphNodeTypeKernel;
  EXPECT_OK(cudaGraphNodeGetType(node, &type));
  EXPECT_EQ(type, cudaGraphNodeTypeHost);
  cudaGraphExec_t exec = nullptr, with_flags = nullptr;
  ASSERT_OK(cudaGraphInstantiate(&exec, graph, 0));
  ASSERT_OK(cudaGraphInstantiateWithFlags(&with_flags, graph, 0));
  EXPECT_OK(cudaGraphDestroy(graph));
  EXPECT_OK(cudaGraphLaunch(exec, second_));
  EXPECT_OK(cudaGraphLaunch(with_flags, second_));
  EXPECT_OK(cudaStreamSynchronize(second_));
  EXPECT_EQ(journal.Read(), (std::vector<int>{1, 1}));
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_OK(cudaGraphExecDestroy(with_flags));
  EXPECT_EQ(cudaGraphLaunch(exec, second_), cudaErrorInvalidValue);
}

TEST_F(Graphs, HoldUserObjectsUntilNoneCanRunAnyMore) {
  const CUstream stream = first_;
  std::atomic<int> ends = 0;
  std::atomic<bool> released = false;
  CUuserObject object = nullptr;
  EXPECT_OK(cuUserObjectCreate(&object, &ends, Increment, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  Begin(stream);
  EXPECT_OK(cuLaunchHostFunc(
      stream, [](void* word) { static_cast<std::atomic<bool>*>(word)->wait(false); }, &released));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph captured = nullptr, graph = nullptr;
  EXPECT_OK(cuStreamGetCaptureInfo(stream, &status, &id, &captured, nullptr, nullptr, nullptr));
  EXPECT_OK(cuGraphRetainUserObject(captured, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  EXPECT_EQ(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE) << "it is the graph's";
  EXPECT_OK(cuStreamEndCapture(stream, &graph));
  CUgraphExec exec = nullptr;
  EXPECT_OK(cuGraphInstantiate(&exec, graph, 0));
  EXPECT_OK(cuGraphDestroy(graph));
  EXPECT_EQ(ends, 0);
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_EQ(ends, 0) << "it runs";
  released = true;
  released.notify_all();
  EXPECT_OK(cuStreamSynchronize(stream));
  for (int i = 0; i < 1000 && ends == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(ends, 1);
}

TEST_F(Graphs, HoldUserObjectsBesideTheProgram) {
  std::atomic<int> ends = 0;
  CUuserObject object = nullptr;
  CUgraph graph = nullptr;
  EXPECT_OK(cuGraphCreate(&graph, 0));
  EXPECT_OK(cuUserObjectCreate(&object, &ends, Increment, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  EXPECT_OK(cuGraphRetainUserObject(graph, object, 2, 0));
  EXPECT_OK(cuUserObjectRelease(object, 1));
  EXPECT_EQ(ends, 0);
  EXPECT_OK(cuGraphDestroy(graph));
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace hostgpu::testing
