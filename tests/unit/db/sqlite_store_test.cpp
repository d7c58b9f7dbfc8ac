#include "db/sqlite_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "convolution/partial_sums.h"
#include "db/inspection.h"
#include "fixture.h"
#include "tests/support/random_problem.h"

namespace ucudnn::db {
namespace {

using planning::Measurement;
using planning::Platform;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using SqliteStoreTest = StoreTest;

std::vector<Measurement> ReadAll(RowStore& store, const ConvolutionProblem& problem = Problem(),
                                 const Platform& platform = kPlatform) {
  auto rows = store.Rows(problem, platform);
  EXPECT_TRUE(rows.ok()) << rows.message();
  return rows.ok() ? *rows : std::vector<Measurement>();
}

TEST_F(SqliteStoreTest, AColdStoreHasNoRowsAndMakesNoFile) {
  RowStore store({Path("a/b.db")});
  EXPECT_THAT(ReadAll(store), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(Path("a")));
}

TEST_F(SqliteStoreTest, AWarmStoreGivesBackWhatAnotherWrote) {
  const std::vector<Measurement> rows = {Row("legacy:0", 1, 0.25), Row("legacy:1", 1, 0.5, 4096),
                                         Row("legacy:1", 64, 3.5, size_t{1} << 40)};
  {
    RowStore store({Path()});
    ASSERT_TRUE(store.Write(Problem(), kPlatform, rows).ok());
    EXPECT_EQ(ReadAll(store), rows);
  }
  RowStore store({Path()});
  EXPECT_EQ(ReadAll(store), rows);
}

TEST_F(SqliteStoreTest, RowsOfOtherMiniBatchesOfTheFamilyAreTheSame) {
  RowStore store({Path()});
  ASSERT_TRUE(store.Write(Problem(64), kPlatform, {Row("legacy:1", 32, 1)}).ok());
  EXPECT_THAT(ReadAll(store, Problem(256)), ElementsAre(Row("legacy:1", 32, 1)));
}

TEST_F(SqliteStoreTest, TheFirstWriterWins) {
  RowStore store({Path()});
  ASSERT_TRUE(store.Write(Problem(), kPlatform, {Row("legacy:1", 32, 1)}).ok());
  ASSERT_TRUE(
      store.Write(Problem(), kPlatform, {Row("legacy:1", 32, 2), Row("legacy:1", 16, 3)}).ok());
  EXPECT_THAT(ReadAll(store), ElementsAre(Row("legacy:1", 16, 3), Row("legacy:1", 32, 1)));
}

TEST_F(SqliteStoreTest, EverythingThatChangesAMeasurementKeepsRowsApart) {
  RowStore store({Path()});
  ASSERT_TRUE(store.Write(Problem(), kPlatform, {Row("legacy:1", 32, 1)}).ok());
  for (const auto edit : std::vector<void (*)(ConvolutionProblem&)>{
           [](auto& p) { p.operation = Operation::kBackwardData; },
           [](auto& p) { p.c = 32; },
           [](auto& p) { p.k = 32; },
           [](auto& p) { p.groups = 2; },
           [](auto& p) { p.x[1] = 28; },
           [](auto& p) { p.x[2] = 28; },
           [](auto& p) { p.w[1] = 3; },
           [](auto& p) { p.w[2] = 3; },
           [](auto& p) { p.pad[1] = 1; },
           [](auto& p) { p.pad[2] = 1; },
           [](auto& p) { p.stride[1] = 2; },
           [](auto& p) { p.stride[2] = 2; },
           [](auto& p) { p.dilation[1] = 2; },
           [](auto& p) { p.dilation[2] = 2; },
           [](auto& p) { p.type = DataType::kHalf; },
           [](auto& p) { p.compute = DataType::kHalf; },
           [](auto& p) { p.layout = Layout::kNhwc; },
           [](auto& p) { p.math = MathType::kFma; },
           [](auto& p) { p.mode = ConvolutionMode::kConvolution; },
           [](auto& p) { p.alignment = 16; },
           [](auto& p) { p.spatial_rank = 3; }}) {
    ConvolutionProblem other = Problem();
    edit(other);
    SetPackedStrides(other);
    EXPECT_THAT(ReadAll(store, other), IsEmpty()) << Describe(other);
  }
  for (const size_t axis : {0, 1, 3, 4}) {
    ConvolutionProblem other = Problem();
    other.x_strides[axis] += 1;
    EXPECT_THAT(ReadAll(store, other), IsEmpty()) << "x stride " << axis;
    other = Problem();
    other.y_strides[axis] += 1;
    EXPECT_THAT(ReadAll(store, other), IsEmpty()) << "y stride " << axis;
  }
  EXPECT_THAT(ReadAll(store, Problem(), {"another device", 91900, 13000}), IsEmpty());
  EXPECT_THAT(ReadAll(store, Problem(), {kPlatform.device, 91901, 13000}), IsEmpty());
  EXPECT_THAT(ReadAll(store, Problem(), {kPlatform.device, 91900, 13001}), IsEmpty());
  EXPECT_EQ(ReadAll(store).size(), 1u);
}

TEST_F(SqliteStoreTest, RowsOfUnknownVersionsAreForOfflineUseOnly) {
  RowStore store({Path()});
  const Platform unknown{kPlatform.device, 0, 0};
  ASSERT_TRUE(store.Write(Problem(), unknown, {Row("any text", 32, 1)}).ok());
  EXPECT_THAT(ReadAll(store), IsEmpty());
  EXPECT_THAT(ReadAll(store, Problem(), unknown), ElementsAre(Row("any text", 32, 1)));
}

TEST_F(SqliteStoreTest, AskingOfflineGivesTheNewestPlatformsRowsAlone) {
  RowStore store({Path()});
  const std::string& device = kPlatform.device;
  ASSERT_TRUE(store.Write(Problem(), {device, 0, 0}, {Row("imported", 8, 9)}).ok());
  ASSERT_TRUE(store.Write(Problem(), {device, 91900, 13000}, {Row("legacy:1", 8, 1)}).ok());
  ASSERT_TRUE(store.Write(Problem(), {device, 90000, 13010}, {Row("legacy:1", 8, 2)}).ok());
  EXPECT_THAT(ReadAll(store, Problem(), {device, 0, 0}), ElementsAre(Row("legacy:1", 8, 1)));
}

TEST_F(SqliteStoreTest, TimesComeBackToTheBit) {
  RowStore store({Path()});
  std::mt19937_64 random(5);
  std::vector<Measurement> rows;
  for (int i = 1; i <= 500; ++i) {
    rows.push_back(Row("e", i, std::exp(std::uniform_real_distribution<>(-600, 600)(random))));
  }
  rows.push_back(Row("e", 501, 0.0));
  rows.push_back(Row("e", 502, std::numeric_limits<double>::denorm_min()));
  rows.push_back(Row("e", 503, std::numeric_limits<double>::max()));
  rows.push_back(Row("e", 504, 0.1, static_cast<size_t>(std::numeric_limits<int64_t>::max())));
  ASSERT_TRUE(store.Write(Problem(), kPlatform, rows).ok());
  EXPECT_EQ(ReadAll(store), rows);
}

TEST_F(SqliteStoreTest, EveryProblemSurvivesTheStore) {
  const unsigned seed = 99;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<StoredMeasurement> rows;
  for (int i = 0; i < 500; ++i) {
    rows.push_back({"layer " + std::to_string(i), RandomProblem(random), kPlatform,
                    Row("e" + std::to_string(i), 1 + i % 7, i * 0.1)});
  }
  RowStore store({Path()});
  const auto added = store.Add(rows);
  ASSERT_TRUE(added.ok()) << added.message();
  EXPECT_EQ(*added, rows.size());
  const auto listed = RowStore({Path()}).List();
  ASSERT_TRUE(listed.ok()) << listed.message();
  EXPECT_EQ(*listed, rows);
  for (StoredMeasurement& row : rows) {
    row.measurement.verified = false;  // not verified by a run of this store
    EXPECT_THAT(ReadAll(store, row.problem), ::testing::Contains(row.measurement));
  }
}

TEST_F(SqliteStoreTest, AddCountsNewRowsOnly) {
  RowStore store({Path()});
  const StoredMeasurement row{"conv1", Problem(), kPlatform, Row("legacy:1", 32, 1)};
  EXPECT_EQ(*store.Add({row, row}), 1u);
  EXPECT_EQ(*store.Add({row}), 0u);
  EXPECT_THAT(*store.List(), ElementsAre(row));
}

TEST_F(SqliteStoreTest, SizesAreCompleteWhenTheWriterSaysSo) {
  SqliteStore store({Path()});
  ASSERT_TRUE(
      store.Write(Problem(), kPlatform, {Row("a", 4, 1), Row("a", 8, 2), Row("b", 8, 3)}, {8})
          .ok());
  auto known = store.Read(Problem(), kPlatform);
  ASSERT_TRUE(known.ok()) << known.message();
  EXPECT_EQ(known->rows.size(), 3u);
  EXPECT_THAT(known->complete_sizes, ElementsAre(8));
  // The next write completes size 4. A row that is there already keeps its old time.
  ASSERT_TRUE(store.Write(Problem(), kPlatform, {Row("a", 4, 9), Row("b", 4, 5)}, {4}).ok());
  known = SqliteStore({Path()}).Read(Problem(), kPlatform);
  ASSERT_TRUE(known.ok()) << known.message();
  EXPECT_THAT(known->rows,
              ElementsAre(Row("a", 4, 1), Row("b", 4, 5), Row("a", 8, 2), Row("b", 8, 3)));
  EXPECT_THAT(known->complete_sizes, ElementsAre(4, 8));
  const Platform other{kPlatform.device, kPlatform.cudnn, kPlatform.driver + 1};
  EXPECT_EQ(*store.Read(Problem(), other), planning::KernelMeasurements());
  EXPECT_EQ(*store.Read(Problem(64, 32), kPlatform), planning::KernelMeasurements());
}

TEST_F(SqliteStoreTest, ASizeCompleteInAnyFileIsComplete) {
  ASSERT_TRUE(SqliteStore({Path("shared.db")})
                  .Write(Problem(), kPlatform, {Row("a", 8, 1), Row("b", 8, 2)}, {8})
                  .ok());
  SqliteStore store({Path("own.db"), Path("shared.db")});
  ASSERT_TRUE(store.Write(Problem(), kPlatform, {Row("a", 8, 3), Row("a", 4, 4)}, {}).ok());
  EXPECT_THAT(store.Read(Problem(), kPlatform)->complete_sizes, ElementsAre(8));
}

TEST_F(SqliteStoreTest, WhatCameByImportIsCompleteAndNotTrusted) {
  SqliteStore store({Path()});
  const StoredMeasurement row{"conv1", Problem(), kPlatform, Row("legacy:1", 32, 1)};
  ASSERT_TRUE(row.measurement.verified);
  ASSERT_TRUE(store.Add({row}).ok());
  const auto known = store.Read(Problem(), kPlatform);
  ASSERT_TRUE(known.ok()) << known.message();
  ASSERT_EQ(known->rows.size(), 1u);
  EXPECT_FALSE(known->rows[0].verified);
  EXPECT_THAT(known->complete_sizes, ElementsAre(32));
  EXPECT_THAT(*store.List(), ElementsAre(row));  // with `verified` as it was added
}

TEST_F(SqliteStoreTest, ImportedSumsAndCopiesCompleteNoSize) {
  SqliteStore store({Path()});
  const StoredMeasurement engine{"conv1", Problem(), kPlatform, Row("legacy:1", 32, 1)};
  const StoredMeasurement sum{"conv1", Problem(), kPlatform, Row("sum", 1, 1)};
  const StoredMeasurement pack{"conv1", Problem(), kPlatform, Row("pack", 2, 1)};
  ASSERT_TRUE(store.Add({engine, sum, pack}).ok());
  const auto known = store.Read(Problem(), kPlatform);
  ASSERT_TRUE(known.ok()) << known.message();
  EXPECT_EQ(known->rows.size(), 3u);
  EXPECT_EQ(Inspect(Path())->incomplete_sizes, 0u);
  EXPECT_THAT(known->complete_sizes, ElementsAre(32));
}

TEST_F(SqliteStoreTest, MarkedRowsAreVerifiedOnThatPlatformAlone) {
  const Platform other{kPlatform.device, kPlatform.cudnn + 1, kPlatform.driver};
  SqliteStore store({Path()});
  std::vector<Measurement> rows = {Row("a", 4, 1), Row("a", 8, 2), Row("b", 8, 3)};
  for (Measurement& row : rows) row.verified = false;
  for (const Platform& platform : {kPlatform, other}) {
    ASSERT_TRUE(store.Write(Problem(), platform, rows, {}).ok());
  }
  ASSERT_TRUE(store.MarkVerified(Problem(16), kPlatform, {rows[1].micro}).ok());
  ASSERT_TRUE(store.MarkVerified(Problem(16), kPlatform, {rows[1].micro}).ok());
  EXPECT_EQ(SqliteStore({Path()}).Read(Problem(), other)->rows, rows);
  rows[1].verified = true;
  EXPECT_EQ(SqliteStore({Path()}).Read(Problem(), kPlatform)->rows, rows);
  const auto listed = store.List();
  ASSERT_TRUE(listed.ok()) << listed.message();
  int verified = 0;
  for (const StoredMeasurement& row : *listed) verified += row.measurement.verified ? 1 : 0;
  EXPECT_EQ(verified, 1);
}

TEST_F(SqliteStoreTest, RowsOfASharedFileAreMarkedInTheFirst) {
  const StoredMeasurement row{"", Problem(), kPlatform, Row("a", 8, 1)};
  ASSERT_TRUE(SqliteStore({Path("shared.db")}).Add({row}).ok());
  const std::string before = Bytes(Path("shared.db"));
  SqliteStore store({Path("own.db"), Path("shared.db")});
  ASSERT_TRUE(store.MarkVerified(Problem(), kPlatform, {row.measurement.micro}).ok());
  EXPECT_THAT(store.Read(Problem(), kPlatform)->rows, ElementsAre(row.measurement));
  EXPECT_EQ(Bytes(Path("shared.db")), before);
}

TEST_F(SqliteStoreTest, TextIsStoredAsItIs) {
  RowStore store({Path()});
  StoredMeasurement row{"it's; DROP TABLE kernels;--", Problem(), kPlatform,
                        Row("'e' [k2=1]", 1, 1)};
  row.platform.device = "caf\xc3\xa9 \"x\"";
  ASSERT_TRUE(store.Add({row}).ok());
  EXPECT_THAT(*store.List(), ElementsAre(row));
}

TEST_F(SqliteStoreTest, RowsThatMakeNoSenseAreRefusedWhole) {
  RowStore store({Path()});
  const auto refusal = [&](const Measurement& bad) {
    return store.Write(Problem(), kPlatform, {Row("good", 1, 1), bad}).message();
  };
  EXPECT_THAT(refusal(Row("e", 0, 1)), HasSubstr("micro-batch 0; expected 1 or more"));
  EXPECT_THAT(refusal(Row("e", 1, std::nan(""))), HasSubstr("expected 0 or more"));
  EXPECT_THAT(refusal(Row("e", 1, -1)), HasSubstr("time -1.0"));
  EXPECT_THAT(refusal(Row("e", 1, HUGE_VAL)), HasSubstr("time inf"));
  EXPECT_THAT(refusal(Row("", 1, 1)), HasSubstr("its engine has no name"));
  EXPECT_THAT(refusal(Row(std::string("a\0b", 3), 1, 1)), HasSubstr("NUL byte"));
  EXPECT_THAT(refusal(Row("e", 1, 1, ~size_t{0})), HasSubstr("a workspace of"));
  EXPECT_THAT(ReadAll(store), IsEmpty());
}

TEST_F(SqliteStoreTest, LaterFilesAreReadAndNeverWritten) {
  ASSERT_TRUE(RowStore({Path("shared.db")})
                  .Write(Problem(), kPlatform, {Row("legacy:0", 8, 1), Row("legacy:1", 8, 2)})
                  .ok());
  const std::string before = Bytes(Path("shared.db"));
  RowStore store({Path("own.db"), Path("shared.db"), Path("missing.db")});
  EXPECT_THAT(ReadAll(store), ElementsAre(Row("legacy:0", 8, 1), Row("legacy:1", 8, 2)));
  ASSERT_TRUE(
      store.Write(Problem(), kPlatform, {Row("legacy:1", 8, 3), Row("legacy:1", 4, 4)}).ok());
  EXPECT_THAT(ReadAll(store),
              ElementsAre(Row("legacy:1", 4, 4), Row("legacy:0", 8, 1), Row("legacy:1", 8, 3)));
  const std::vector<ConvolutionProblem> problems{Problem(64, 32), Problem(), Problem(7)};
  const auto all = store.ReadAll(problems, kPlatform);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 3u);
  EXPECT_THAT((*all)[0].rows, IsEmpty());
  EXPECT_EQ((*all)[1].rows, ReadAll(store));
  EXPECT_EQ((*all)[2], (*all)[1]);
  EXPECT_EQ(store.List()->size(), 3u);
  EXPECT_EQ(Bytes(Path("shared.db")), before);
  EXPECT_FALSE(std::filesystem::exists(Path("missing.db")));
}

TEST_F(SqliteStoreTest, WithoutFilesNothingIsStored) {
  RowStore store(std::vector<std::string>{});
  EXPECT_TRUE(store.Write(Problem(), kPlatform, {Row("legacy:0", 8, 1)}).ok());
  EXPECT_THAT(ReadAll(store), IsEmpty());
}

TEST_F(SqliteStoreTest, MissingFoldersAreMadeForThisUserAlone) {
  RowStore store({Path("a/b/c.db")});
  ASSERT_TRUE(store.Write(Problem(), kPlatform, {Row("legacy:0", 8, 1)}).ok());
  for (const char* folder : {"a", "a/b"}) {
    struct stat info;
    ASSERT_EQ(stat(Path(folder).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
  }
}

TEST_F(SqliteStoreTest, RelativePathsAndOddNamesAreFiles) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  for (const char* name : {"plain.db", "file:a.db?mode=memory", ":memory:", "d/e.db"}) {
    EXPECT_TRUE(RowStore({name}).Write(Problem(), kPlatform, {Row("e", 8, 1)}).ok()) << name;
    EXPECT_TRUE(std::filesystem::exists(Path(name))) << name;
  }
  std::filesystem::current_path(before);
}

TEST_F(SqliteStoreTest, ThreadsShareOneStore) {
  RowStore store({Path()});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 10; ++i) {
        EXPECT_TRUE(store.Write(Problem(), kPlatform, {Row("e" + std::to_string(t), i, i)}).ok());
        EXPECT_TRUE(store.Rows(Problem(), kPlatform).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ReadAll(store).size(), 40u);
}

TEST_F(SqliteStoreTest, SumsAreNoEnginesThatASizeLacks) {
  SqliteStore store({Path()});
  const Measurement sum = Row(kPartialSum, kPartialSumBatch, 0.1);
  ASSERT_TRUE(store.Write(Problem(), kPlatform, {sum, Row("legacy:1", 4, 1)}, {4}).ok());
  EXPECT_EQ(Inspect(Path())->incomplete_sizes, 0u);
  ASSERT_TRUE(store.Write(Problem(), kPlatform, {Row("legacy:1", kPartialSumBatch, 1)}, {}).ok());
  EXPECT_EQ(Inspect(Path())->incomplete_sizes, 1u);
}

}  // namespace
}  // namespace ucudnn::db
