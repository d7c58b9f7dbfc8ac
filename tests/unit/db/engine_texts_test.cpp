// Tests a store of the last release that stored engines as texts. A program with EngineIds must
// find the store's promises and its verified rows.
#include <gmock/gmock.h>

#include "fixture.h"

namespace ucudnn::db {
namespace {

const planning::Platform kHost{"Host stand-in (CPU times)", 91900, 13000};

class EngineTextsTest : public StoreTest {
 protected:
  EngineTextsTest() {
    std::ostringstream sql;
    sql << std::ifstream(SCHEMA_FOLDER "/strings_for_engines.sql").rdbuf();
    RunSql(Path(), sql.str().c_str());
  }
  // Returns the problem of one of the two kernels in the store.
  static ConvolutionProblem Forward(Layout layout, int n) {
    if (layout == Layout::kNhwc) {
      return test::ProblemWith(
          {.n = n, .c = 16, .k = 24, .x = {1, 12, 12}, .layout = layout, .alignment = 16});
    }
    return test::ProblemWith(
        {.n = n, .k = 16, .x = {1, 12, 12}, .w = {1, 5, 5}, .pad = {0, 2, 2}, .alignment = 16});
  }
};

TEST_F(EngineTextsTest, PromisesAreFound) {
  SqliteStore store({Path()});
  const EngineId fused = EngineId::Graph{1, {{25, 0}}, "+bias+relu[upperClip=3.40282347e+38]"};
  for (const auto& [engine, undivided] :
       {std::pair<EngineId, EngineId>(EngineId::Graph{1, {{25, 0}}, ""}, "graph:2[k25=0]"),
        std::pair<EngineId, EngineId>(fused, "graph:0+bias+relu[upperClip=3.40282347e+38]")}) {
    SCOPED_TRACE(engine.Text());
    const auto found = store.FindPromise({Forward(Layout::kNhwc, 8), kHost, engine, 65536});
    ASSERT_TRUE(found.ok()) << found.message();
    ASSERT_TRUE(*found);
    EXPECT_EQ((*found)->workspace_bytes, 58880u);
    EXPECT_EQ((*found)->undivided, undivided);
    EXPECT_TRUE((*found)->any_engine);
  }
}

TEST_F(EngineTextsTest, VerifiedRowsAreFound) {
  SqliteStore store({Path()});
  const auto known = store.Read(Forward(Layout::kNchw, 16), kHost);
  ASSERT_TRUE(known.ok()) << known.message();
  std::vector<std::pair<int, EngineId>> verified;
  for (const planning::Measurement& row : known->rows) {
    if (row.verified) verified.emplace_back(row.micro.micro_batch, row.micro.engine);
  }
  EXPECT_THAT(verified, ::testing::UnorderedElementsAre(
                            std::pair(4, EngineId(EngineId::Legacy{0, std::nullopt})),
                            std::pair(16, EngineId(EngineId::Graph{1, {{25, 0}}, ""})),
                            std::pair(16, EngineId(EngineId::Graph{1, {{25, 2}}, ""}))));
}

}  // namespace
}  // namespace ucudnn::db
