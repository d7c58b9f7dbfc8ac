#include "db/measurements_csv.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "fixture.h"
#include "tests/support/random_problem.h"

namespace ucudnn::db {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader =
    "name,n,c,h,w,k,r,s,op,engine,micro_batch,time_ms,workspace_bytes,deterministic\n";

std::string Refusal(const std::string& text, const std::string& device = "gpu") {
  return ParseMeasurementsCsv(text, "m.csv", device).message();
}

TEST(MeasurementsCsv, AbsentColumnsMeanUnknown) {
  const auto rows = ParseMeasurementsCsv(
      std::string(kHeader) + "conv1,8,3,9,9,4,3,3,backward_data,legacy:1,4,0.5,1024,1\n", "m.csv",
      "gpu");
  ASSERT_TRUE(rows.ok()) << rows.message();
  ASSERT_EQ(rows->measurements.size(), 1u);
  const StoredMeasurement& row = rows->measurements.front();
  EXPECT_EQ(row.name, "conv1");
  EXPECT_EQ(row.problem.n, 8);
  EXPECT_EQ(row.problem.operation, Operation::kBackwardData);
  EXPECT_EQ(row.problem.alignment, 1);
  EXPECT_EQ(row.platform, (planning::Platform{"gpu", 0, 0}));
  EXPECT_EQ(row.measurement.micro, (MicroConfiguration{"legacy:1", 4, 0.5, 1024, true}));
  EXPECT_EQ(row.measurement.samples, 0);
  EXPECT_FALSE(row.measurement.verified);
}

TEST(MeasurementsCsv, TheRowsOwnDeviceGoesBeforeTheGivenOne) {
  const std::string text =
      "c,h,w,k,r,s,op,engine,micro_batch,time_ms,workspace_bytes,deterministic,device\n"
      "3,9,9,4,3,3,forward,e,4,1e-3,0,0,own\n"
      "3,9,9,4,3,3,forward,e,4,1,0,0,\n";
  const auto rows = ParseMeasurementsCsv(text, "m.csv", "given");
  ASSERT_TRUE(rows.ok()) << rows.message();
  EXPECT_EQ(rows->measurements[0].platform.device, "own");
  EXPECT_EQ(rows->measurements[1].platform.device, "given");
  EXPECT_EQ(Refusal(text, ""),
            "m.csv:3: column 'device': empty; expected a device, or one given with --device NAME");
}

std::vector<StoredMeasurement> RandomRows(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::vector<StoredMeasurement> rows;
  for (int i = 0; i < count; ++i) {
    StoredMeasurement row;
    row.name = i % 3 == 0 ? "" : "layer, \"" + std::to_string(i) + "\"";
    row.problem = RandomProblem(random);
    row.platform = {i % 2 == 0 ? "NVIDIA H200" : "a,b\nc", i % 4 == 0 ? 0 : 91900, i % 5 * 13000};
    row.measurement = {{"graph:38[k2=1,k14=" + std::to_string(i) + "]", 1 + i % 64,
                        std::exp(std::uniform_real_distribution<>(-40, 40)(random)),
                        random() * size_t{8191}, i % 2 == 0},
                       i % 9,
                       i % 3 == 0};
    rows.push_back(row);
  }
  return rows;
}

std::vector<planning::EnginePromise> RandomPromises(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::vector<planning::EnginePromise> promises;
  for (int i = 0; i < count; ++i) {
    planning::EnginePromise promise;
    promise.problem = RandomProblem(random);
    promise.problem.n = 1 + i;  // a promise is for 1 image or more
    promise.platform = {i % 2 == 0 ? "NVIDIA H200" : "a,b\nc", 91900, i % 5 * 13000};
    promise.engine = "graph:38[k2=1,k14=" + std::to_string(i) + "]";
    promise.limit_bytes = i == 0 ? size_t{1} << 62 : random() * size_t{8191};
    promise.workspace_bytes = promise.limit_bytes - promise.limit_bytes / (1 + i % 3);
    if (i % 4 != 0) promise.undivided = "graph:0+relu";  // otherwise only pieces keep the promise
    promise.any_engine = i % 3 == 0;
    promises.push_back(promise);
  }
  return promises;
}

TEST(MeasurementsCsv, AnyRowsSurviveWritingAndReading) {
  const unsigned seed = 31;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const StoredRows rows = {RandomRows(seed, 1000), RandomPromises(seed, 300)};
  const auto read = ParseMeasurementsCsv(WriteMeasurementsCsv(rows), "m.csv", "");
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(*read, rows);
}

using MeasurementsCsvStoreTest = StoreTest;

TEST_F(MeasurementsCsvStoreTest, ImportingAndExportingGivesTheSameFile) {
  const auto add = [&](const std::string& file, const std::string& text) {
    const auto rows = ParseMeasurementsCsv(text, "m.csv", "");
    ASSERT_TRUE(rows.ok()) << rows.message();
    SqliteStore store({Path(file)});
    EXPECT_EQ(*store.Add(rows->measurements), 300u);
    EXPECT_EQ(*store.AddPromises(rows->promises), 200u);
  };
  const auto whole = [&](const std::string& file) {
    SqliteStore store({Path(file)});
    return WriteMeasurementsCsv({*store.List(), *store.ListPromises()});
  };
  const StoredRows rows = {RandomRows(32, 300), RandomPromises(33, 200)};
  const std::string text = WriteMeasurementsCsv(rows);
  add("first.db", text);
  const std::string exported = whole("first.db");
  const auto read = ParseMeasurementsCsv(exported, "m.csv", "");
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->measurements, rows.measurements);
  EXPECT_THAT(read->promises, ::testing::UnorderedElementsAreArray(rows.promises));
  add("second.db", exported);
  EXPECT_EQ(whole("second.db"), exported);
}

// Files that were written before promises existed, and files of stores without promises, lack the
// columns of promises.
TEST(MeasurementsCsv, WithoutPromisesTheirColumnsAreLeftOut) {
  const std::string text = WriteMeasurementsCsv({RandomRows(34, 1), {}});
  EXPECT_EQ(text.find("limit_bytes"), std::string::npos);
  EXPECT_TRUE(ParseMeasurementsCsv(text, "m.csv", "").ok());
}

TEST(MeasurementsCsv, ARowIsAMeasurementOrAPromise) {
  const std::string header =
      "n,c,h,w,k,r,s,op,engine,micro_batch,time_ms,workspace_bytes,deterministic,limit_bytes,"
      "undivided,any_engine\n";
  const auto refusal = [&](const std::string& row) { return Refusal(header + row + "\n"); };
  EXPECT_EQ(refusal("8,3,9,9,4,3,3,forward,graph:38,,,10,,20,graph:0,1"), "");
  EXPECT_EQ(refusal("8,3,9,9,4,3,3,forward,graph:38,4,,10,,20,graph:0,1"),
            "m.csv:2: column 'micro_batch': '4'; expected none of a promise, as which "
            "'limit_bytes' makes the row");
  EXPECT_EQ(refusal("8,3,9,9,4,3,3,forward,graph:38,4,1,10,1,,graph:0,"),
            "m.csv:2: column 'undivided': 'graph:0'; expected none without a 'limit_bytes', which "
            "makes a promise");
  EXPECT_THAT(refusal(",3,9,9,4,3,3,forward,graph:38,,,10,,20,graph:0,1"), HasSubstr("column 'n'"));
  EXPECT_THAT(refusal("8,3,9,9,4,3,3,forward,graph:38,,,30,,20,graph:0,1"),
              HasSubstr("m.csv:2: a promise cannot be kept: 30 bytes exceed the limit of 20"));
}

TEST(MeasurementsCsv, APromiseWithoutAnUndividedEngineIsKeptByPiecesAlone) {
  const std::string header =
      "n,c,h,w,k,r,s,op,engine,micro_batch,time_ms,workspace_bytes,deterministic,limit_bytes";
  const std::string row = "8,3,9,9,4,3,3,forward,graph:38,,,10,,20";
  for (const std::string& text :
       {header + "\n" + row + "\n", header + ",undivided\n" + row + ",\n"}) {
    const auto rows = ParseMeasurementsCsv(text, "m.csv", "gpu");
    ASSERT_TRUE(rows.ok()) << rows.message();
    ASSERT_EQ(rows->promises.size(), 1u);
    EXPECT_TRUE(rows->promises[0].undivided.empty());
    EXPECT_EQ(rows->promises[0].engine, "graph:38");
    EXPECT_EQ(rows->promises[0].workspace_bytes, 10u);
    EXPECT_FALSE(rows->promises[0].any_engine);
  }
}

struct Bad {
  const char* name;
  const char* row;
  const char* message;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class MeasurementsCsvRefusal : public ::testing::TestWithParam<Bad> {};

TEST_P(MeasurementsCsvRefusal, NamesFileLineColumnAndWhatWasExpected) {
  EXPECT_EQ(Refusal(std::string(kHeader) + GetParam().row + "\n"),
            std::string("m.csv:2: ") + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    MeasurementsCsv, MeasurementsCsvRefusal,
    ::testing::Values(
        Bad{"Operation", "a,8,3,9,9,4,3,3,back,e,4,1,0,1",
            "column 'op': 'back'; expected one of forward, backward_data, backward_filter"},
        Bad{"NoOperation", "a,8,3,9,9,4,3,3,,e,4,1,0,1",
            "column 'op': empty; expected forward, backward_data or backward_filter"},
        Bad{"NoEngine", "a,8,3,9,9,4,3,3,forward,,4,1,0,1",
            "column 'engine': empty; expected what selects it, such as legacy:1"},
        Bad{"MicroBatch", "a,8,3,9,9,4,3,3,forward,e,0,1,0,1",
            "column 'micro_batch': '0'; expected a whole number from 1 to 2147483647"},
        Bad{"NoTime", "a,8,3,9,9,4,3,3,forward,e,4,,0,1",
            "column 'time_ms': empty; expected a time in milliseconds, 0 or more"},
        Bad{"NegativeTime", "a,8,3,9,9,4,3,3,forward,e,4,-1,0,1",
            "column 'time_ms': '-1'; expected a time in milliseconds, 0 or more"},
        Bad{"InfiniteTime", "a,8,3,9,9,4,3,3,forward,e,4,inf,0,1",
            "column 'time_ms': 'inf'; expected a time in milliseconds, 0 or more"},
        Bad{"TimeWithUnit", "a,8,3,9,9,4,3,3,forward,e,4,1ms,0,1",
            "column 'time_ms': '1ms'; expected a time in milliseconds, 0 or more"},
        Bad{"Workspace", "a,8,3,9,9,4,3,3,forward,e,4,1,64MiB,1",
            "column 'workspace_bytes': '64MiB'; expected a whole number from 0 to "
            "9223372036854775807"},
        Bad{"Deterministic", "a,8,3,9,9,4,3,3,forward,e,4,1,0,yes",
            "column 'deterministic': 'yes'; expected a whole number from 0 to 1"},
        Bad{"Shape", "a,8,3,9,9,4,10,3,forward,e,4,1,0,1",
            "column 'r': '10'; expected a filter that with its dilation spans at most the padded "
            "image, but it spans 10 of 9"}),
    [](const auto& info) { return info.param.name; });

TEST(MeasurementsCsv, AnUnknownColumnNamesTheNearest) {
  EXPECT_THAT(Refusal("workspace\n"), HasSubstr("m.csv:1: unknown column 'workspace'"));
  EXPECT_THAT(Refusal("c,h,w,k,r,s,workspace_byte\n"), HasSubstr("nearest: workspace_bytes"));
}

TEST(MeasurementsCsv, AFileOfNoRowsIsFine) {
  const auto rows = ParseMeasurementsCsv(WriteMeasurementsCsv({}), "m.csv", "");
  ASSERT_TRUE(rows.ok()) << rows.message();
  EXPECT_EQ(*rows, StoredRows());
}

}  // namespace
}  // namespace ucudnn::db
