#include "tests/unit/spatial/rank_job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tests/support/stand_in.h"
#include "transport/loopback.h"
#include "transport/opening.h"
#include "transport/ranks.h"

namespace ucudnn::test {
namespace {

const cudnn::Functions& Library() {
  static const cudnn::Functions functions = StandIn();
  return functions;
}

// Runs a rank's local call on the stand-in without changes.
class PlainCall : public spatial::LocalCall {
 public:
  cudnnStatus_t Run(const cudnn::ConvolutionCall& call) override {
    return cudnn::Convolve(Library(), call);
  }
};

std::unique_ptr<transport::Ranks> JoinAs(int rank, const SpatialGrid& grid,
                                         const JobOptions& options, const std::string& file) {
  transport::Meeting meeting;
  meeting.membership = {rank, grid.Ranks(), grid.GroupOf(rank), grid.GroupRankOf(rank),
                        grid.GroupSize()};
  meeting.place.path = file;
  meeting.version = "test";
  meeting.times.timeout = options.timeout;
  meeting.times.heartbeat = std::chrono::milliseconds(100);
  auto ranks = transport::Ranks::Join(meeting);
  EXPECT_TRUE(ranks.ok()) << ranks.message();
  return ranks.ok() ? std::move(*ranks) : nullptr;
}

}  // namespace

cudnnStatus_t RankState::Run(const ConvolutionProblem& problem,
                             const cudnn::ConvolutionCall& call) {
  PlainCall plain;
  spatial::SplitCall split{problem, call, context, stream,
                           cuda::IsCapturing(*cuda::GetDriver(), stream)};
  split.declared = declared;
  return calls->Run(split, plain);
}

StripeResult RankState::RunStripe(const WholeCase& whole, const Stripe& stripe) {
  return test::RunStripe(whole, stripe, handle, [&](const cudnn::ConvolutionCall& call) {
    return Run(stripe.problem, call);
  });
}

void OpenRank(RankState& rank, const SpatialGrid& grid, const JobOptions& options,
              const std::string& file) {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&rank.context, rank.device), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(rank.context), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&rank.stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cudnnCreate(&rank.handle), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnSetStream(rank.handle, reinterpret_cast<cudaStream_t>(rank.stream)),
            CUDNN_STATUS_SUCCESS);
  auto ranks = JoinAs(rank.rank, grid, options, file);
  ASSERT_NE(ranks, nullptr);
  spatial::SplitSettings settings;
  settings.grid = grid;
  settings.shared_options = "test";
  settings.agrees_each_time = options.agrees_each_time;
  settings.ones = options.ones;
  rank.sums = std::make_unique<spatial::GradientSums>(options.sums_gradients);
  settings.sums = rank.sums.get();
  settings.most_buffer_bytes = [bytes = options.most_buffer_bytes] { return bytes; };
  settings.warning = options.warning;
  settings.timeout = options.timeout;
  settings.waits_for_records = options.waits_for_records;
  settings.times_exchanges = options.times_exchanges;
  const auto open =
      [&options, number = rank.rank](
          const transport::ChannelSetup& setup) -> Result<std::unique_ptr<transport::Channel>> {
    if (options.exchanges_as_processes) return transport::OpenLoopbackChannel(setup);
    auto opened = transport::OpenChannel(setup, options.transport, options.cudnn_file);
    if (!opened.ok()) return opened.status();
    if (options.wrap) return options.wrap(number, std::move(opened->channel));
    return std::move(opened->channel);
  };
  rank.ranks = ranks.get();
  rank.calls = std::make_unique<spatial::SplitCalls>(
      settings, options.functions != nullptr ? *options.functions : Library(),
      options.driver != nullptr ? *options.driver : *cuda::GetDriver(), std::move(ranks), open);
}

void CloseRank(RankState& rank) {
  if (rank.calls != nullptr) rank.calls->Leave();
  EXPECT_EQ(cuStreamSynchronize(rank.stream), CUDA_SUCCESS);
  rank.calls.reset();
  EXPECT_EQ(cudnnDestroy(rank.handle), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(rank.stream), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(rank.device), CUDA_SUCCESS);
}

// A thread that runs the work it is given.
struct RankJob::Worker {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> work;
  bool ends = false;
  std::thread thread;

  Worker() : thread([this] { Loop(); }) {}
  ~Worker() {
    {
      std::lock_guard lock(mutex);
      ends = true;
    }
    changed.notify_all();
    thread.join();
  }
  void Loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ends || work; });
      if (!work) return;
      lock.unlock();
      work();
      lock.lock();
      work = nullptr;
      changed.notify_all();
    }
  }
  void Begin(std::function<void()> given) {
    {
      std::lock_guard lock(mutex);
      work = std::move(given);
    }
    changed.notify_all();
  }
  void Await() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !work; });
  }
};

RankJob::RankJob(const JobOptions& options) : options_(options) {
  grid_ = *SpatialGrid::Parse(options.grid);
  static std::atomic<int> jobs = 0;
  const std::string file = testing::TempDir() + "ucudnn-ranks-" + std::to_string(getpid()) + "-" +
                           std::to_string(++jobs);
  for (int rank = 0; rank < size(); ++rank) {
    ranks_.push_back(std::make_unique<RankState>());
    ranks_.back()->rank = rank;
    // Ranks that exchange by NCCL, or as processes do, have a device each, because two ranks on one
    // device could wait for each other for ever. A rank that waits for its device, for example to
    // free memory, would also wait for the other rank's work on that device. This work may in turn
    // wait for a message of the first rank.
    if (options.transport == Transport::kNccl || options.exchanges_as_processes) {
      ranks_.back()->device = rank;
    }
    workers_.push_back(std::make_unique<Worker>());
  }
  OnAll([&](RankState& rank) { OpenRank(rank, grid_, options_, file); });
}

RankJob::~RankJob() { OnAll(CloseRank); }

void RankJob::OnAll(const std::function<void(RankState&)>& work) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    workers_[rank]->Begin([&, rank] { work(*ranks_[rank]); });
  }
  for (const auto& worker : workers_) worker->Await();
}

std::optional<std::vector<Stripe>> CutInto(const ConvolutionProblem& whole, const SpatialGrid& grid,
                                           const AxisExtents& extents) {
  const std::array<char, 3> letters = {'d', 'h', 'w'};
  std::array<AxisCut, 3> cuts;
  for (size_t axis = 0; axis < 3; ++axis) {
    auto cut = CutAxis(letters[axis], WindowOf(whole, axis), extents[axis]);
    if (!cut.ok()) return std::nullopt;
    cuts[axis] = *cut;
  }
  std::vector<Stripe> stripes;
  for (int rank = 0; rank < grid.Ranks(); ++rank) {
    const GridCell cell = grid.CellOf(rank);
    const std::array<int, 3> part = {cell.d, cell.h, cell.w};
    Stripe stripe = {whole, {}, {}};
    for (size_t axis = 0; axis < 3; ++axis) {
      stripe.elements[axis] = cuts[axis].elements[static_cast<size_t>(part[axis])];
      stripe.windows[axis] = cuts[axis].windows[static_cast<size_t>(part[axis])];
      stripe.problem.x[axis] = static_cast<int32_t>(stripe.elements[axis].Length());
    }
    SetPackedStrides(stripe.problem);
    stripes.push_back(stripe);
  }
  return stripes;
}

}  // namespace ucudnn::test
