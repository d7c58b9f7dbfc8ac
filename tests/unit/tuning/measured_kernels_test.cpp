#include "tuning/measured_kernels.h"

#include <algorithm>
#include <array>
#include <thread>

#include "convolution/partial_sums.h"
#include "cudnn/legacy_engines.h"
#include "measured_kernels_setting.h"

namespace ucudnn::tuning {
namespace {

using planning::Proof;

TEST_F(MeasuredKernelsTest, EverySizeOfThePolicyIsMeasured) {
  MeasuredKernels kernels(nullptr, std::nullopt, kNoFolder);
  const Rows rows = Must(Get(kernels));
  EXPECT_EQ(SizesOf(rows), (std::set{1, 2, 4, 8}));
  EXPECT_EQ(kernels.measured(), static_cast<long>(rows.size()));
  EXPECT_GE(EnginesAt(rows, 8).size(), 2u);
  for (const MicroConfiguration& row : rows) EXPECT_GT(row.time_ms, 0) << row.engine;
}

TEST_F(MeasuredKernelsTest, IdenticalKernelsAreMeasuredOnce) {
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  const Rows first = Must(Get(kernels));
  const long measured = kernels.measured();
  const Rows second = Must(Get(kernels));
  EXPECT_EQ(second, first);
  EXPECT_EQ(kernels.measured(), measured);
  // The rows of smaller micro-batches also hold for the kernel with 16 images. Only the rows of
  // micro-batches of 16 images are missing.
  const Rows larger = Must(Get(kernels, Problem(16)));
  EXPECT_EQ(kernels.measured() - measured, static_cast<long>(EnginesAt(larger, 16).size()));
}

TEST_F(MeasuredKernelsTest, WhatTheStoreHasIsNotMeasured) {
  MeasuredKernels cold(&store_, std::nullopt, kNoFolder);
  const Rows measured = Must(Get(cold));
  MeasuredKernels warm(&store_, std::nullopt, kNoFolder);
  const Rows read = Must(Get(warm));
  EXPECT_EQ(warm.measured(), 0);
  EXPECT_EQ(read, measured);
}

// Rows of a store may be wrong or measured with other settings, so the library's own statement of
// the workspace counts if it is larger.
TEST_F(MeasuredKernelsTest, RowsSayNoLessThanTheLibraryNeeds) {
  MeasuredKernels cold(&store_, std::nullopt, kNoFolder);
  const Rows measured = Must(Get(cold));
  MeasuredKernels warm(&store_, std::nullopt, kNoFolder);
  int asked = 0;
  Question question = Asking(Problem(), false);
  question.need = [&](int images, const EngineId& engine) -> std::optional<size_t> {
    ++asked;
    if (engine == "legacy:0") return std::nullopt;
    if (images == 2) return cudnn::LegacyNeeds::kNeverServes;
    return images == 8 ? 12345678 : 0;
  };
  const MeasuredRows answer = warm.Get(device_, question);
  for (const MicroConfiguration& row : measured) {
    const auto known =
        std::find_if(answer.rows.begin(), answer.rows.end(), [&](const MicroConfiguration& other) {
          return other.engine == row.engine && other.micro_batch == row.micro_batch;
        });
    const bool told = row.engine != "legacy:0";
    ASSERT_EQ(known != answer.rows.end(), !told || row.micro_batch != 2) << row.engine;
    if (known == answer.rows.end()) continue;
    EXPECT_EQ(known->workspace_bytes, told && row.micro_batch == 8
                                          ? std::max<size_t>(row.workspace_bytes, 12345678)
                                          : row.workspace_bytes);
  }
  EXPECT_EQ(asked, static_cast<int>(measured.size()));
  warm.Get(device_, question);
  EXPECT_LT(asked, 2 * static_cast<int>(measured.size())) << "what was told is not asked again";
  EXPECT_EQ(warm.measured(), 0);
}

// Acts as if another process measured at the same time. The rows of the first write, which the test
// makes, can be read only after the second write, which MeasuredKernels makes.
class RacedStore : public MemoryStore {
 public:
  Result<planning::KernelMeasurements> Read(const ConvolutionProblem& problem,
                                            const planning::Platform& platform) override {
    if (writes < 2) return planning::KernelMeasurements();
    return MemoryStore::Read(problem, platform);
  }
};

// Expects exactly one row of algorithm 0 for all 8 images, with the time that the test stored.
void ExpectStoredRow(const Rows& rows) {
  int found = 0;
  for (const MicroConfiguration& row : rows) {
    if (row.engine != "legacy:0" || row.micro_batch != 8) continue;
    EXPECT_EQ(row.time_ms, 1234);
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST_F(MeasuredKernelsTest, TheFirstWriterWins) {
  RacedStore store;
  StoreRow(store, 1234, {8});
  MeasuredKernels kernels(&store, std::nullopt, kNoFolder);
  const Rows rows = Must(Get(kernels));
  ExpectStoredRow(rows);
}

TEST_F(MeasuredKernelsTest, AFailingStoreCostsOnlyWhatItWouldHaveKept) {
  store_.read_fails = true;
  MeasuredKernels unreadable(&store_, std::nullopt, kNoFolder);
  EXPECT_TRUE(Get(unreadable).ok());
  EXPECT_GT(unreadable.measured(), 0);

  MemoryStore full;
  full.write_fails = true;
  MeasuredKernels unwritable(&full, std::nullopt, kNoFolder);
  const Rows rows = Must(Get(unwritable));
  EXPECT_EQ(SizesOf(rows), (std::set{1, 2, 4, 8}));
  const long measured = unwritable.measured();
  EXPECT_TRUE(Get(unwritable).ok());
  EXPECT_EQ(unwritable.measured(), measured);
}

TEST_F(MeasuredKernelsTest, MayNotMeasureMeansWhatIsKnown) {
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  EXPECT_FALSE(Get(kernels, Problem(), false).ok());
  EXPECT_EQ(kernels.measured(), 0);
  StoreRow(store_, 5, {8});
  MeasuredKernels informed(&store_, std::nullopt, kNoFolder);
  const Rows rows = Must(Get(informed, Problem(), false));
  EXPECT_EQ(rows.size(), 1u);
  EXPECT_EQ(informed.measured(), 0);
}

TEST_F(MeasuredKernelsTest, AllMemoryIsGivenBack) {
  const size_t before = FreeBytes();
  MeasuredKernels kernels(nullptr, std::nullopt, kNoFolder);
  ASSERT_TRUE(Get(kernels).ok());
  EXPECT_EQ(FreeBytes(), before);
}

TEST_F(MeasuredKernelsTest, EnginesWithoutMemoryAreLeftOut) {
  const ConvolutionProblem problem = Problem(64);
  MeasuredKernels roomy(nullptr, std::nullopt, kNoFolder);
  const Rows all = Must(Get(roomy, problem));
  size_t largest = 0;
  for (const MicroConfiguration& row : all) largest = std::max(largest, row.workspace_bytes);
  ASSERT_GT(largest, size_t{1} << 20);
  // The free memory suffices for the operands (2 * 64 * 16 * 12 * 12 * 4 bytes = 1.18 MB, and 9 KB
  // for the filter), but not also for the largest workspace.
  CUdeviceptr occupied;
  ASSERT_EQ(cuMemAlloc(&occupied, FreeBytes() - largest), CUDA_SUCCESS);
  const size_t before = FreeBytes();
  MeasuredKernels narrow(&store_, std::nullopt, kNoFolder);
  const Result<Rows> some = Get(narrow, problem);
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(cuMemFree(occupied), CUDA_SUCCESS);
  ASSERT_TRUE(some.ok()) << some.message();
  EXPECT_LT(EnginesAt(*some, 64).size(), EnginesAt(all, 64).size());
  EXPECT_GE(EnginesAt(*some, 64).size(), 1u);
  // Another process may hold the memory only for a while, so engines that did not fit are measured
  // later.
  EXPECT_FALSE(narrow.HasAllEngines(device_, problem));
  EXPECT_TRUE(roomy.HasAllEngines(device_, problem));
  MeasuredKernels later(&store_, std::nullopt, kNoFolder);
  const Rows again = Must(Get(later, problem));
  EXPECT_EQ(EnginesAt(again, 64), EnginesAt(all, 64));
  EXPECT_TRUE(later.HasAllEngines(device_, problem));
}

TEST_F(MeasuredKernelsTest, ASizeThatIsNotCompleteIsCompletedAndItsRowsStay) {
  StoreRow(store_, 1234, {});
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  const Rows known = Must(Get(kernels, Problem(), false));
  EXPECT_EQ(known.size(), 1u);
  EXPECT_FALSE(kernels.HasAllEngines(device_, Problem()));
  const Rows rows = Must(Get(kernels));
  EXPECT_TRUE(kernels.HasAllEngines(device_, Problem()));
  EXPECT_GT(EnginesAt(rows, 8).size(), 1u);
  ExpectStoredRow(rows);
  const auto stored = store_.Read(Problem(), device_.platform);
  EXPECT_EQ(stored->complete_sizes, (std::vector{1, 2, 4, 8}));
  EXPECT_EQ(stored->rows.size(), rows.size());
}

TEST_F(MeasuredKernelsTest, WhatFailedIsNotTriedAgain) {
  MeasuredKernels kernels(nullptr, std::nullopt, kNoFolder);
  hostgpuInjectFault("stream", 1);
  EXPECT_FALSE(Get(kernels).ok());
  hostgpuInjectFault("stream", 0);
  const Result<Rows> again = Get(kernels);
  EXPECT_FALSE(again.ok());
  EXPECT_EQ(hostgpuFaultCount("stream"), 0);
  EXPECT_EQ(again.message(), "no engine could be measured before");
}

TEST_F(MeasuredKernelsTest, AnyFaultIsAnErrorOrAnEngineLess) {
  const size_t before = FreeBytes();
  for (const char* site : {"alloc", "stream", "event", "handle", "query", "convolution"}) {
    for (const long k : {1, 2, 3, 4}) {
      SCOPED_TRACE(std::string(site) + ":" + std::to_string(k));
      hostgpuInjectFault(site, k);
      MeasuredKernels kernels(nullptr, std::nullopt, kNoFolder);
      const Result<Rows> rows = Get(kernels);
      if (rows.ok()) {
        EXPECT_GE(EnginesAt(*rows, 8).size(), 1u);
      } else {
        EXPECT_FALSE(rows.message().empty());
      }
      hostgpuInjectFault(site, 0);
      EXPECT_EQ(FreeBytes(), before);
    }
  }
}

std::set<cudaStream_t>& StreamsSet() {
  static std::set<cudaStream_t> streams;
  return streams;
}

TEST_F(MeasuredKernelsTest, RunsOnAStreamOfItsOwnAndKeepsTheContext) {
  CUstream callers;
  ASSERT_EQ(cuStreamCreate(&callers, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  cudnn::Functions functions = StandIn();
  functions.cudnnSetStream = [](cudnnHandle_t handle, cudaStream_t stream) {
    StreamsSet().insert(stream);
    return ::cudnnSetStream(handle, stream);
  };
  Device device = device_;
  device.functions = &functions;
  MeasuredKernels kernels(nullptr, std::nullopt, kNoFolder);
  EXPECT_TRUE(kernels.Get(device, Asking(Problem(2), true)).status.ok());
  EXPECT_EQ(StreamsSet().size(), 1u);
  for (CUstream shared : {callers, CUstream{}, CU_STREAM_LEGACY}) {
    EXPECT_FALSE(StreamsSet().contains(shared));
  }
  CUcontext current = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, device_.context);
  EXPECT_EQ(cuStreamQuery(callers), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(callers), CUDA_SUCCESS);
}

// Destroying a handle would wait for the device, which breaks captures on other threads.
TEST_F(MeasuredKernelsTest, HandlesAreUsedAgainAndNeverDestroyed) {
  cudnn::Functions functions = StandIn();
  functions.cudnnDestroy = [](cudnnHandle_t handle) {
    ADD_FAILURE() << "a handle was destroyed";
    return ::cudnnDestroy(handle);
  };
  Device device = device_;
  device.functions = &functions;
  const auto measure = [&] {
    MeasuredKernels kernels(nullptr, std::nullopt, kNoFolder);
    EXPECT_TRUE(kernels.Get(device, Asking(Problem(2), true)).status.ok());
  };
  measure();
  hostgpuInjectFault("handle", 0);
  measure();
  EXPECT_EQ(hostgpuFaultCount("handle"), 0);
  cudnnHandle_t handle = nullptr;
  EXPECT_EQ(::cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(hostgpuFaultCount("handle"), 1);
  EXPECT_EQ(::cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
}

TEST_F(MeasuredKernelsTest, ThreadsShareOneMeasurement) {
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  std::array<Rows, 2> found;
  std::vector<std::thread> threads;
  for (Rows& rows : found) {
    // These threads have no context of their own; measuring makes its own context current.
    threads.emplace_back([&] {
      Result<Rows> result = Get(kernels);
      ASSERT_TRUE(result.ok()) << result.message();
      rows = std::move(*result);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(kernels.measured(), static_cast<long>(found[0].size()));
}

TEST_F(MeasuredKernelsTest, AKernelTooSlowToCompareIsNotComparedForEver) {
  Tuning bounds;
  bounds.kernel_seconds = 1e-7;
  MeasuredKernels kernels(nullptr, bounds, "/no such folder");  // shares no lock
  const MicroConfiguration undivided = {"legacy:0", 8, 1, 0, true};
  const Configuration configuration = {{{{"legacy:0", 4, 1, 0, true}, 2}}};
  const Trust first = kernels.Verify(device_, Problem(), {configuration, undivided, Proof::kOnce});
  const Trust second = kernels.Verify(device_, Problem(), {configuration, undivided, Proof::kOnce});
  EXPECT_EQ(first.message, "verifying takes too long");
  EXPECT_EQ(second.kind, Trust::Kind::kUnknown);
  EXPECT_EQ(second.message, "the time for measuring is used up");
}

ConvolutionProblem FilterGradient(DataType type) {
  ConvolutionProblem problem = Problem();
  problem.operation = Operation::kBackwardFilter;
  problem.type = type;
  return problem;
}

// Returns the measurements of summing partials that the store has.
std::vector<MicroConfiguration> StoredSums(MemoryStore& store, const ConvolutionProblem& problem,
                                           const planning::Platform& platform) {
  std::vector<MicroConfiguration> sums;
  const planning::KernelMeasurements stored = *store.Read(problem, platform);
  for (const planning::Measurement& row : stored.rows) {
    if (row.micro.engine == kPartialSum) sums.push_back(row.micro);
  }
  return sums;
}

// Rows of fewer images than the mini-batch include the workspace and the time of summing partials.
TEST_F(MeasuredKernelsTest, PiecesOfSixteenBitFilterGradientsCostTheirSum) {
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
    const ConvolutionProblem problem = FilterGradient(type);
    MemoryStore store;
    MeasuredKernels kernels(&store, std::nullopt, kNoFolder);
    const Rows rows = Must(Get(kernels, problem));
    EXPECT_EQ(SizesOf(rows), (std::set{1, 2, 4, 8}));
    const auto sums = StoredSums(store, problem, device_.platform);
    ASSERT_EQ(sums.size(), 1u);
    EXPECT_GT(sums[0].time_ms, 0);
    EXPECT_EQ(sums[0].workspace_bytes, PartialSumBytes(problem));
    size_t compared = 0;
    const planning::KernelMeasurements stored = *store.Read(problem, device_.platform);
    for (const planning::Measurement& measured : stored.rows) {
      if (measured.micro.engine == kPartialSum) continue;
      MicroConfiguration expected = measured.micro;
      if (expected.micro_batch < problem.n) {
        expected.time_ms += sums[0].time_ms;
        expected.workspace_bytes += PartialSumBytes(problem);
      }
      EXPECT_NE(std::find(rows.begin(), rows.end(), expected), rows.end());
      ++compared;
    }
    EXPECT_EQ(compared, rows.size());
  }
}

// A comparison of engines says nothing about the sum of their partials.
TEST_F(MeasuredKernelsTest, SumsOfPartialsAreTrustedApart) {
  const ConvolutionProblem problem = FilterGradient(DataType::kHalf);
  MeasuredKernels first(&store_, std::nullopt, kNoFolder);
  const Rows rows = Must(Get(first, problem));
  ASSERT_TRUE(store_.MarkVerified(problem, device_.platform, {RowOf(rows, 4)}).ok());
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  EXPECT_EQ(VerifyHalves(kernels, rows, Proof::kKnown, problem), Trust::Kind::kUnknown);
  EXPECT_EQ(VerifyHalves(kernels, rows, Proof::kOnce, problem), Trust::Kind::kTrusted);
  // The next process finds that the sum was compared.
  MeasuredKernels next(&store_, std::nullopt, kNoFolder);
  EXPECT_EQ(VerifyHalves(next, rows, Proof::kKnown, problem), Trust::Kind::kTrusted);
}

// Pieces that another process compared have not run in this process.
TEST_F(MeasuredKernelsTest, WhatWasComparedElsewhereIsNoProofThatItRanHere) {
  MeasuredKernels first(&store_, std::nullopt, kNoFolder);
  const Rows rows = Must(Get(first));
  ASSERT_TRUE(store_.MarkVerified(Problem(), device_.platform, {RowOf(rows, 4)}).ok());
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  const auto verify = [&](Proof proof) { return VerifyHalves(kernels, rows, proof); };
  EXPECT_EQ(verify(Proof::kKnown), Trust::Kind::kTrusted);
  EXPECT_EQ(verify(Proof::kKnownHere), Trust::Kind::kUnknown);
  EXPECT_EQ(verify(Proof::kHere), Trust::Kind::kTrusted);
  EXPECT_EQ(verify(Proof::kKnownHere), Trust::Kind::kTrusted);
}

// These engines support at most four images.
class FewImages : public cudnn::Engines {
 public:
  FewImages(const cudnn::Functions& functions, cudnnHandle_t handle) : all_(functions, handle) {}
  Result<std::vector<cudnn::ListedEngine>> List(const ConvolutionProblem& part) override {
    if (part.n > 4) return Status::Error("too many images");
    return all_.List(part);
  }
  Result<std::unique_ptr<cudnn::Piece>> MakePiece(const ConvolutionProblem& part,
                                                  const EngineId& engine,
                                                  const cudnn::PieceScales& scales,
                                                  size_t workspace_bytes) override {
    return all_.MakePiece(part, engine, scales, workspace_bytes);
  }
  Result<std::unique_ptr<cudnn::PartialSum>> MakeSum(const ConvolutionProblem& problem) override {
    return all_.MakeSum(problem);
  }

 private:
  cudnn::LegacyEngines all_;
};

TEST_F(MeasuredKernelsTest, WhereNoEngineServesTheWholeItsSumIsStillKnown) {
  GraphScope few{"graph:1"};
  few.make = [this](cudnnHandle_t handle) {
    return std::make_unique<FewImages>(*device_.functions, handle);
  };
  MeasuredKernels kernels(nullptr, std::nullopt, kNoFolder);
  ConvolutionProblem problem = FilterGradient(DataType::kHalf);
  Question question = Asking(problem, true, BatchSizePolicy::kUndivided);
  question.scope = few;
  const MeasuredRows whole = kernels.Get(device_, question);
  EXPECT_TRUE(whole.rows.empty());
  EXPECT_EQ(whole.status.message(), "too many images");
  problem.n = 4;
  question = Asking(problem, true);
  question.scope = few;
  EXPECT_EQ(SizesOf(kernels.Get(device_, question).rows), (std::set{1, 2, 4}));
}

TEST_F(MeasuredKernelsTest, ASingleImageLeavesTheSumToBeMeasured) {
  ConvolutionProblem problem = FilterGradient(DataType::kHalf);
  MeasuredKernels kernels(nullptr, std::nullopt, kNoFolder);
  problem.n = 1;
  ASSERT_TRUE(Get(kernels, problem).ok());
  problem.n = 8;
  const Rows rows = Must(Get(kernels, problem));
  EXPECT_EQ(SizesOf(rows), (std::set{1, 2, 4, 8}));
}

TEST_F(MeasuredKernelsTest, OtherKernelsHaveNoSum) {
  for (const ConvolutionProblem& problem : {Problem(), FilterGradient(DataType::kFloat)}) {
    MemoryStore store;
    MeasuredKernels kernels(&store, std::nullopt, kNoFolder);
    ASSERT_TRUE(Get(kernels, problem).ok());
    EXPECT_TRUE(StoredSums(store, problem, device_.platform).empty());
  }
}

// A store may lack the measurement of the sum, because an older release wrote the store or because
// there was no memory to measure the sum. Then only the sum is measured.
TEST_F(MeasuredKernelsTest, AMissingSumIsMeasuredBehindCompleteSizes) {
  const ConvolutionProblem problem = FilterGradient(DataType::kHalf);
  MeasuredKernels first(&store_, std::nullopt, kNoFolder);
  ASSERT_TRUE(Get(first, problem).ok());
  planning::KernelMeasurements known = *store_.Read(problem, device_.platform);
  std::erase_if(known.rows, [](const auto& row) { return row.micro.engine == kPartialSum; });
  MemoryStore older;
  ASSERT_TRUE(older.Write(problem, device_.platform, known.rows, known.complete_sizes).ok());

  MeasuredKernels silent(&older, std::nullopt, kNoFolder);
  const Rows whole = Must(Get(silent, problem, false));
  EXPECT_EQ(SizesOf(whole), (std::set{8}));
  MeasuredKernels kernels(&older, std::nullopt, kNoFolder);
  const Rows rows = Must(Get(kernels, problem));
  EXPECT_EQ(kernels.measured(), 1);
  EXPECT_EQ(SizesOf(rows), (std::set{1, 2, 4, 8}));
}

TEST_F(MeasuredKernelsTest, WithoutWhatSumsPartialsTheyStayWhole) {
  cudnn::Functions functions = functions_;
  functions.cudnnOpTensor = nullptr;
  device_.functions = &functions;
  MeasuredKernels kernels(&store_, std::nullopt, kNoFolder);
  const Result<Rows> rows = Get(kernels, FilterGradient(DataType::kHalf));
  device_.functions = &functions_;
  ASSERT_TRUE(rows.ok()) << rows.message();
  EXPECT_EQ(SizesOf(*rows), (std::set{8}));
}

}  // namespace
}  // namespace ucudnn::tuning
