// Tests execution plans that no other engine can replace within the limit, on the stand-in's real
// arithmetic. A plan's own pieces keep its promise, once the pieces have run in this process and
// were compared with the plan itself.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "db/sqlite_store.h"
#include "graph_program.h"

namespace ucudnn::interposer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

bool& PiecesFail() {
  static bool fail = false;
  return fail;
}
// Counts plans of pieces and of undivided convolutions that were executed, or became native graphs,
// since the latest program was made.
struct SeenPlans {
  int pieces = 0, wholes = 0;
};
SeenPlans& PlansSeen() {
  static SeenPlans seen;
  return seen;
}
// Counts `plan` in PlansSeen(). Returns whether it is a piece that must fail.
bool CountAndFail(cudnnBackendDescriptor_t plan) {
  const cudnn::Functions real = test::StandInGraphs();
  const auto read = cudnn::ReadTemplate(real, plan);
  const bool piece = read.ok() && read->convolution.problem.n < 8;
  ++(piece ? PlansSeen().pieces : PlansSeen().wholes);
  return piece && PiecesFail();
}
cudnnStatus_t FailPieces(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                         cudnnBackendDescriptor_t pack) {
  return CountAndFail(plan) ? CUDNN_STATUS_EXECUTION_FAILED
                            : ::cudnnBackendExecute(handle, plan, pack);
}
cudnnStatus_t FailNativePieces(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                               cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
  return CountAndFail(plan) ? CUDNN_STATUS_EXECUTION_FAILED
                            : ::cudnnBackendPopulateCudaGraph(handle, plan, pack, graph);
}

size_t BytesOf(int images) { return NeedOf(WithBatch(Problem(Operation::kForward), images)); }
// REQUIRES at the first call of PartBytes() and of NeedBytes(): no other Program exists, because
// BytesOf makes one.
size_t PartBytes() {
  static const size_t bytes = BytesOf(kPart);
  return bytes;
}
size_t NeedBytes() {
  static const size_t bytes = BytesOf(8);
  return bytes;
}

Options LimitedToParts() { return test::Within(std::min(PartBytes(), NeedBytes() - 1)); }
// Returns LimitedToParts() with measuring on: plans are measured before their workspace is told.
Options MeasuringParts() {
  Options options = LimitedToParts();
  options.tuning.on = true;
  options.tuning.kernel_seconds = options.tuning.process_seconds = 600;
  return options;
}

// A program whose library finalizes plans of kEngine only. Its own plan is made by Finalize().
class OwnEngineOnly : public OnePlan {
 public:
  explicit OwnEngineOnly(const Options& options = LimitedToParts(),
                         decltype(cudnn::Functions::cudnnBackendExecute) execute = FailPieces,
                         planning::MeasurementStore* shared = nullptr)
      : OnePlan(Problem(Operation::kForward), false, options, execute, shared),
        unseen_(Unseen(program_.hooked)),
        unseen_graph_(problem_, graph_options_, unseen_, {program_.handle}) {
    PiecesFail() = false;
    PlansSeen() = {};
    undivided_ = whole_.Plan(kEngine);
    program_.under.cudnnBackendFinalize = FinalizeOwnEngine;
    program_.under.cudnnBackendPopulateCudaGraph = FailNativePieces;
  }
  // Stores the time of the plan's own engine for `images`.
  void Measured(int images, double time_ms) { PartsMeasured(kEngine, time_ms, images); }
  // Stores a time of pieces as if another process had measured and compared them.
  void PartsKnown() { PartsMeasured(kEngine, 1); }
  void Finalize() {
    plan_ = hooked_.Plan(kEngine);
    EXPECT_TRUE(plan_ && undivided_);
  }
  // Returns whether the notes of kEngine, as the interposer reports them, claim support for native
  // CUDA graphs. They are the notes of a plan that the interposer never saw finalized.
  bool ClaimsNativeGraphs() {
    const auto plan = unseen_graph_.Plan(kEngine);
    if (!plan) return false;
    const auto notes = cudnn::ReadNotes(program_.hooked, plan->get());
    EXPECT_TRUE(notes.ok()) << notes.message();
    return notes.ok() && BecomesNative(*notes);
  }

 private:
  static cudnn::Functions Unseen(cudnn::Functions hooked) {
    hooked.cudnnBackendFinalize = &::cudnnBackendFinalize;
    return hooked;
  }
  const cudnn::Functions unseen_;
  const test::Graph unseen_graph_;
};

class Alone : public OwnEngineOnly {
 public:
  explicit Alone(decltype(cudnn::Functions::cudnnBackendExecute) execute = FailPieces)
      : Alone(LimitedToParts(), execute) {}
  // `shared` is the store of other programs; if it is null, the program has a store of its own.
  Alone(const Options& options, decltype(cudnn::Functions::cudnnBackendExecute) execute,
        planning::MeasurementStore* shared = nullptr)
      : OwnEngineOnly(options, execute, shared) {
    PartsKnown();
    Finalize();
  }
};

// A store in a file, like one that processes share.
class StoreOnDisk {
 public:
  StoreOnDisk() {
    std::string pattern = ::testing::TempDir() + "/alone_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~StoreOnDisk() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  StoreOnDisk(const StoreOnDisk&) = delete;
  StoreOnDisk& operator=(const StoreOnDisk&) = delete;

  // Returns a new connection to the store's file, such as a new process opens.
  db::SqliteStore Opened() const { return db::SqliteStore({folder_ + "/measurements.db"}); }

 private:
  std::string folder_;
};

TEST(GraphPiecesAlone, KeepThePromise) {
  Alone subject;
  EXPECT_EQ(subject.ToldBytes(), PartBytes());
  subject.ExpectRight();
  EXPECT_EQ(subject.Fallbacks(), "[]");
  const auto kernel = subject.Kernel();
  EXPECT_EQ(kernel["workspace_bytes"], PartBytes());
  EXPECT_EQ(kernel["plan"][0]["count"], 8 / kPart);
}

TEST(GraphPiecesAlone, KeepThePromiseInTheNextProcess) {
  constexpr int kLarger = 2 * kPart;
  const size_t limit = BytesOf(kLarger);
  ASSERT_GT(limit, PartBytes());
  ASSERT_LT(limit, NeedBytes());
  const StoreOnDisk disk;
  {
    db::SqliteStore store = disk.Opened();
    Alone first(test::Within(limit), FailPieces, &store);
    EXPECT_EQ(first.ToldBytes(), PartBytes());
    // From now on the store has larger pieces, which are faster and fit the limit.
    first.Measured(kLarger, 0.1);
  }
  db::SqliteStore store = disk.Opened();
  const auto kept = store.ListPromises();
  ASSERT_TRUE(kept.ok()) << kept.message();
  ASSERT_THAT(*kept, SizeIs(1));
  EXPECT_TRUE(kept->front().undivided.empty());
  EXPECT_EQ(kept->front().workspace_bytes, PartBytes());
  Alone next(test::Within(limit), FailPieces, &store);
  EXPECT_EQ(next.ToldBytes(), PartBytes());
  next.ExpectRight(1);
  EXPECT_EQ(next.Fallbacks(), "[]");
}

TEST(GraphPiecesAlone, MayBeCapturedAtTheFirstCall) {
  Alone subject;
  CaptureSetting(subject).ExpectReplaysBesideCalls();
}

// Pieces that never ran in this process may load modules or allocate, which breaks a capture.
TEST(GraphPiecesAlone, PromiseNothingOfAPlanThatIsFinalizedInACapture) {
  OwnEngineOnly subject;
  subject.PartsKnown();
  {
    test::HandleStream stream(subject.program().interposer, subject.program().handle);
    const CUgraph graph = stream.Capture([&] {
      subject.Finalize();
      EXPECT_EQ(subject.ToldBytes(), NeedBytes());
    });
    EXPECT_EQ(test::NodesOf(graph), 0u);
    EXPECT_EQ(PlansSeen().pieces + PlansSeen().wholes, 0);
    EXPECT_THAT(subject.Fallbacks(), HasSubstr("cannot be brought under the workspace limit"));
  }
  subject.ExpectRight(1);
  EXPECT_EQ(PlansSeen().pieces, 0) << "it runs as it is";
}

TEST(GraphPiecesAlone, BecomeANativeGraph) {
  Alone subject;
  const auto memory = subject.Memory();
  PlansSeen() = {};
  const NativeGraphOf native(subject, *memory);
  ASSERT_EQ(native.status(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(native.Nodes(), size_t{8 / kPart});
  EXPECT_EQ(PlansSeen().pieces, 8 / kPart);
  memory->Fill(2);
  native.Launch();
  EXPECT_EQ(memory->Output(), subject.Undivided(2));
  EXPECT_TRUE(memory->GuardsAreIntact());
}

TEST(GraphPiecesAlone, OfWhichOneCannotBecomeANativeGraphAreRefusedAndThePlanItselfBecomesNone) {
  Alone subject;
  const auto memory = subject.Memory();
  PlansSeen() = {};
  PiecesFail() = true;
  {
    const NativeGraphOf native(subject, *memory);
    EXPECT_EQ(native.status(), CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(native.Nodes(), 0u);
  }
  EXPECT_EQ(PlansSeen().pieces, 1);
  EXPECT_EQ(PlansSeen().wholes, 0) << "it needs more than the program was told";
  PiecesFail() = false;
  EXPECT_EQ(NativeGraphOf(subject, *memory).status(), CUDNN_STATUS_SUCCESS);
}

TEST(GraphPiecesAlone, DoNotClaimToBecomeNativeGraphs) {
  OwnEngineOnly subject;
  subject.PartsKnown();
  EXPECT_FALSE(subject.ClaimsNativeGraphs());
  subject.Finalize();
  EXPECT_EQ(subject.ToldBytes(), PartBytes());
  EXPECT_FALSE(subject.ClaimsNativeGraphs());
}

TEST(GraphPiecesAlone, OfWhichNothingIsKnownLeaveThePlanWholeWhichClaimsIt) {
  OwnEngineOnly subject;
  EXPECT_TRUE(subject.ClaimsNativeGraphs());
  subject.Finalize();
  EXPECT_EQ(subject.ToldBytes(), NeedBytes());
  EXPECT_TRUE(subject.ClaimsNativeGraphs());
}

TEST(GraphPiecesAlone, ThatAreMeasuredOnlyLaterDoNotClaimItEither) {
  OwnEngineOnly subject(MeasuringParts());
  EXPECT_FALSE(subject.ClaimsNativeGraphs());
  subject.Finalize();
  EXPECT_LE(subject.ToldBytes(), PartBytes());
  EXPECT_FALSE(subject.ClaimsNativeGraphs());
}

TEST(GraphPiecesAlone, ThatFailReturnTheirErrorAndThePlanItselfNeverRuns) {
  Alone subject;
  const auto memory = subject.Memory();
  PiecesFail() = true;
  EXPECT_EQ(memory->Execute(subject.program().hooked, subject.program().handle, subject.plan()),
            CUDNN_STATUS_EXECUTION_FAILED);
  EXPECT_TRUE(memory->GuardsAreIntact());
  EXPECT_THAT(subject.Fallbacks(), HasSubstr("its error is returned"));
  PiecesFail() = false;
  subject.ExpectRight(1);
}

TEST(GraphPiecesAlone, ThatAreWrongPromiseNothing) {
  Alone subject(SkipPieces);
  EXPECT_EQ(subject.ToldBytes(), NeedBytes());
  EXPECT_THAT(subject.Fallbacks(), AllOf(HasSubstr("a divided plan is wrong and never used"),
                                         HasSubstr("cannot be brought under the workspace limit")));
  subject.ExpectRight(1);
}

}  // namespace
}  // namespace ucudnn::interposer
