#include "convolution/engine_id.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "convolution/numeric_class.h"

namespace ucudnn {
namespace {

using Graph = EngineId::Graph;
using Legacy = EngineId::Legacy;
using namespace std::string_literals;

// Texts that ucudnn does not write for an engine. An imported row or a row of another release may
// contain them.
std::vector<std::string> ForeignTexts() {
  return {"mine",
          " ",
          "legacy:1 ",
          " legacy:1",
          "legacy: 1",
          "legacy:",
          "legacy",
          "legacy:007",
          "legacy:+1",
          "legacy:-1",
          "legacy:-0",
          "legacy:100",
          "legacy:99999999999",
          "Legacy:1",
          "legacy:1[math=9]",
          "legacy:1[math=4]",
          "legacy:1[math=-1]",
          "legacy:1[math=01]",
          "legacy:1[math=]",
          "legacy:1[math=1",
          "legacy:1[math=1]]",
          "legacy:1[]",
          "legacy:1\n",
          "legacy:1+relu",
          "legacy:x",
          "legacy:01",
          "legacy:1[",
          "legacy:1[math=10]",
          "legacy:1[math=1]x",
          "legacy:1[math=1][math=1]",
          "legacy:1[k2=1]",
          "legacy:%n%n%n",
          "legacy:1\0"s,
          "\0"s,
          "graph",
          "graph:",
          "graph:x",
          "graph: 1",
          "graph:007",
          "graph:+1",
          "graph:-0",
          "graph:1 ",
          "graph:1[]",
          "graph:1[k2]",
          "graph:1[k2=]",
          "graph:1[k2=1",
          "graph:1[k2=01]",
          "graph:1[2=1]",
          "graph:1[k2=1,]",
          "graph:1[k2=1,14=0]",
          "graph:1[k2=1]]",
          "graph:1[k2=1]relu",
          "graph:1[k2=1][k3=1]",
          "graph:9223372036854775808",
          "graph:1[k2147483648=1]",
          "graph:1\0"s,
          "Graph:1",
          "graph:\xff\xfe",
          "\xff\xfe\x80",
          "sum ",
          "Sum",
          "sum+relu",
          "+relu",
          "+",
          std::string(10 << 10, 'x'),
          "legacy:" + std::string(10 << 10, '1'),
          "graph:" + std::string(10 << 10, '1')};
}

std::vector<std::string> GraphTexts() {
  return {"graph:0",
          "graph:38",
          "graph:-1",
          "graph:9223372036854775807",
          "graph:38[k2=1]",
          "graph:38[k2=1,k14=0]",
          "graph:38[k14=0,k2=1]",
          "graph:38[k2=-9,k2=7]",
          "graph:38+relu",
          "graph:38:fp16+relu",
          "graph:38[k2=1]:bf16+bias:fp32+relu[alpha=2]",
          "graph:38[k2=1,k14=0]+residual+bias+relu",
          "graph:38+",
          "graph:38+a[k1=2]+ \xff\0"s,
          "graph:38+" + std::string(10 << 10, '+')};
}

std::vector<std::string> LegacyTexts() {
  std::vector<std::string> texts;
  for (int algorithm = 0; algorithm <= EngineId::kMostAlgorithm; ++algorithm) {
    texts.push_back("legacy:" + std::to_string(algorithm));
    for (int math = 0; math < 4; ++math) {
      texts.push_back(texts.back().substr(0, texts.back().find('[')) +
                      "[math=" + std::to_string(math) + "]");
    }
  }
  return texts;
}

std::vector<std::string> AllTexts() {
  std::vector<std::string> texts = {"", "sum", "pack"};
  for (const auto& some : {ForeignTexts(), GraphTexts(), LegacyTexts()}) {
    texts.insert(texts.end(), some.begin(), some.end());
  }
  return texts;
}

TEST(EngineId, GivesEveryTextBack) {
  for (const std::string& text : AllTexts()) {
    EXPECT_EQ(EngineId(text).Text(), text);
    EXPECT_EQ(EngineId(std::string_view(text)).Text(), text);
    EXPECT_EQ(EngineId(text).empty(), text.empty());
  }
}

TEST(EngineId, LegacyTextsAreAlgorithmAndMath) {
  for (const std::string& text : LegacyTexts()) {
    const EngineId engine = text;
    ASSERT_NE(engine.legacy(), nullptr) << text;
    EXPECT_EQ(EngineId(*engine.legacy()).Text(), text);
    EXPECT_EQ(engine.graph(), nullptr);
    EXPECT_FALSE(engine.is_partial_sum() || engine.of_graph_api());
  }
  const EngineId plain = "legacy:7", with_math = "legacy:12[math=3]";
  EXPECT_EQ(*plain.legacy(), (Legacy{7, std::nullopt}));
  EXPECT_EQ(*with_math.legacy(), (Legacy{12, MathType::kFma}));
}

TEST(EngineId, GraphTextsAreNumberKnobsAndFusion) {
  for (const std::string& text : GraphTexts()) {
    const EngineId engine = text;
    ASSERT_NE(engine.graph(), nullptr) << text;
    EXPECT_EQ(EngineId(*engine.graph()).Text(), text);
    EXPECT_EQ(engine.legacy(), nullptr);
    EXPECT_TRUE(engine.of_graph_api());
  }
  EXPECT_EQ(*EngineId("graph:38").graph(), (Graph{38, {}, ""}));
  EXPECT_EQ(*EngineId("graph:5[k2=1,k14=-3]+bias+relu").graph(),
            (Graph{5, {{2, 1}, {14, -3}}, "+bias+relu"}));
  EXPECT_EQ(*EngineId("graph:5:fp16+relu").graph(), (Graph{5, {}, ":fp16+relu"}));
}

TEST(EngineId, ForeignTextsNameNothing) {
  for (const std::string& text : ForeignTexts()) {
    const EngineId engine = text;
    EXPECT_EQ(engine.legacy(), nullptr) << text;
    EXPECT_EQ(engine.graph(), nullptr) << text;
    EXPECT_FALSE(engine.is_partial_sum()) << text;
    EXPECT_EQ(engine.of_graph_api(), text.starts_with("graph:")) << text;
    EXPECT_EQ(engine.Unfused(), engine) << text;
  }
}

// A program may name an algorithm by any number. The text of an unknown algorithm reads back as the
// same foreign engine, never as an algorithm.
TEST(EngineId, AnAlgorithmBeyondAllIsForeign) {
  for (const Legacy& legacy :
       {Legacy{100, std::nullopt}, Legacy{-1, std::nullopt}, Legacy{1, static_cast<MathType>(4)}}) {
    const EngineId engine = legacy;
    EXPECT_EQ(engine.legacy(), nullptr);
    EXPECT_EQ(engine, EngineId(engine.Text()));
  }
  EXPECT_EQ(EngineId(Legacy{100, MathType::kFma}).Text(), "legacy:100[math=3]");
}

TEST(EngineId, OnlyItsOwnTextIsTheSum) {
  EXPECT_TRUE(EngineId("sum").is_partial_sum());
  EXPECT_EQ(EngineId(EngineId::PartialSum{}), "sum");
  EXPECT_EQ(EngineId(EngineId::PartialSum{}).Text(), "sum");
}

TEST(EngineId, OnlyItsOwnTextIsThePacking) {
  EXPECT_TRUE(EngineId("pack").is_packing());
  EXPECT_FALSE(EngineId("packs").is_packing());
  EXPECT_EQ(EngineId(EngineId::Packing{}).Text(), "pack");
  EXPECT_NE(EngineId("pack"), EngineId("sum"));
  for (const char* const text : {"sum", "pack"}) EXPECT_TRUE(EngineId(text).is_auxiliary());
  for (const char* const text : {"", "legacy:1", "graph:38", "mine"}) {
    EXPECT_FALSE(EngineId(text).is_auxiliary());
  }
}

TEST(EngineId, UnfusedIsTheSameEngineAlone) {
  EXPECT_EQ(EngineId("graph:38[k2=1,k14=0]+bias+relu").Unfused(), "graph:38[k2=1,k14=0]");
  EXPECT_EQ(EngineId("graph:38+").Unfused(), "graph:38");
  EXPECT_EQ(EngineId("graph:38[k2=1]:fp16+relu").Unfused(), "graph:38[k2=1]");
  for (const char* const text : {"", "sum", "legacy:1", "graph:38", "mine+yours"}) {
    EXPECT_EQ(EngineId(text).Unfused().Text(), text);
  }
}

// Ties between engines are decided by their texts, and stores list their rows in the order of the
// texts.
TEST(EngineId, IsOrderedAndEqualAsTextsAre) {
  const std::vector<std::string> texts = AllTexts();
  for (const std::string& a : texts) {
    for (const std::string& b : texts) {
      ASSERT_EQ(EngineId(a) == EngineId(b), a == b) << a << " " << b;
      ASSERT_EQ(EngineId(a) <=> EngineId(b), a <=> b) << a << " " << b;
    }
  }
}

TEST(EngineId, HashesAsItsTextDoes) {
  for (const std::string& text : AllTexts()) {
    EXPECT_EQ(std::hash<EngineId>()(EngineId(text)), std::hash<std::string>()(text)) << text;
  }
}

TEST(EngineId, ComparesWithTexts) {
  const EngineId engine = "legacy:1";
  EXPECT_TRUE(engine == "legacy:1" && "legacy:1" == engine && engine == "legacy:1"s);
  EXPECT_TRUE(engine != "legacy:2" && engine < "legacy:2");
}

TEST(EngineId, PrintsItsText) {
  std::ostringstream out;
  out << EngineId("graph:1[k2=3]") << ' ' << EngineId("legacy:1[math=1]") << ' ' << EngineId();
  EXPECT_EQ(out.str(), "graph:1[k2=3] legacy:1[math=1] ");
}

TEST(EngineId, CopiesOutliveAndMovesLeaveNone) {
  static_assert(std::is_nothrow_move_constructible_v<EngineId> &&
                std::is_nothrow_move_assignable_v<EngineId>);
  for (const std::string& text : AllTexts()) {
    EngineId copy;
    {
      const EngineId engine = text;
      copy = engine;
    }
    EXPECT_EQ(copy.Text(), text);
    EngineId moved = std::move(copy);
    EXPECT_EQ(moved.Text(), text);
    EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move): a move leaves no engine
    copy = std::move(moved);
    EXPECT_EQ(copy.Text(), text);
    EXPECT_TRUE(moved.empty());  // NOLINT(bugprone-use-after-move): a move leaves no engine
  }
}

TEST(NumericClass, WinogradIsTheCoarsestAndNothingIsDirect) {
  constexpr auto kDirect = NumericClass::kDirect, kFft = NumericClass::kFft,
                 kWinograd = NumericClass::kWinograd;
  static_assert(Coarsest({kDirect}) == kDirect);
  EXPECT_EQ(Coarsest({}), kDirect);
  std::vector<NumericClass> classes = {kDirect, kDirect, kFft};
  do {
    EXPECT_EQ(Coarsest(classes), kFft);
  } while (std::next_permutation(classes.begin(), classes.end()));
  classes = {kDirect, kFft, kWinograd};
  do {
    EXPECT_EQ(Coarsest(classes), kWinograd);
  } while (std::next_permutation(classes.begin(), classes.end()));
}

}  // namespace
}  // namespace ucudnn
