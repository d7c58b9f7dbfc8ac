// Tests which divisions into tiles a kernel may choose from, against an enumeration of all
// divisions.
#include "planning/tile_divisions.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "planning/knapsack_solver.h"
#include "planning/workspace_division.h"
#include "tests/support/problem.h"

namespace ucudnn::planning {
namespace {

std::shared_ptr<const Tiles> CutRows(int parts) {
  auto tiles =
      CutIntoTiles(test::ProblemWith({.n = 1, .x = {1, 64, 64}}), {.spatial = {1, parts, 1}});
  EXPECT_TRUE(tiles.ok()) << tiles.message();
  return std::make_shared<const Tiles>(std::move(*tiles));
}

MicroConfiguration RowOf(const Tiles& tiles, size_t kind, const std::string& engine, double time_ms,
                         size_t bytes) {
  MicroConfiguration row = {EngineId(engine), 1, time_ms, bytes, true};
  row.tile = tiles.kinds[kind].lengths;
  return row;
}

// Returns the least time, within `bytes`, of all ways to give each kind one of its rows.
double BruteForce(const Tiles& tiles, const std::vector<std::vector<MicroConfiguration>>& rows,
                  size_t bytes, size_t kind = 0) {
  if (kind == rows.size()) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (const MicroConfiguration& row : rows[kind]) {
    if (row.workspace_bytes > bytes) continue;
    least = std::min(least,
                     row.time_ms * tiles.CountOf(kind) + BruteForce(tiles, rows, bytes, kind + 1));
  }
  return least;
}

TEST(TileDivisions, AreTheFastestForEveryWorkspace) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto tiles = CutRows(2 + static_cast<int>(random() % 6));
    std::vector<std::vector<MicroConfiguration>> rows(tiles->kinds.size());
    for (size_t kind = 0; kind < rows.size(); ++kind) {
      for (size_t i = 0; i < 1 + random() % 4; ++i) {
        rows[kind].push_back(RowOf(*tiles, kind, "graph:" + std::to_string(i),
                                   static_cast<double>(1 + random() % 9), 10 * (random() % 6)));
      }
    }
    const std::vector<Division> front = DesirableTiles(tiles, rows);
    for (size_t bytes = 0; bytes <= 60; bytes += 5) {
      double least = std::numeric_limits<double>::infinity();
      for (const Division& division : front) {
        if (division.configuration.WorkspaceBytes() <= bytes) {
          least = division.configuration.TimeMs();
        }
      }
      EXPECT_EQ(least, BruteForce(*tiles, rows, bytes)) << round << ", " << bytes << " bytes";
    }
    for (size_t i = 0; i < front.size(); ++i) {
      EXPECT_TRUE(front[i].CheckCovers(test::ProblemWith({.n = 1, .x = {1, 64, 64}})).ok());
      if (i == 0) continue;
      EXPECT_GT(front[i].configuration.WorkspaceBytes(),
                front[i - 1].configuration.WorkspaceBytes());
      EXPECT_LT(front[i].configuration.TimeMs(), front[i - 1].configuration.TimeMs());
    }
  }
}

// Expensive edges decide which grid is chosen.
TEST(TileDivisions, EdgesCount) {
  const auto few = CutRows(2), many = CutRows(8);
  const auto divided = [](const std::shared_ptr<const Tiles>& tiles, double inner_ms,
                          double edge_ms) {
    std::vector<std::vector<MicroConfiguration>> rows(tiles->kinds.size());
    for (size_t kind = 0; kind < rows.size(); ++kind) {
      const bool is_inner = tiles->kinds.size() == 3 && kind == 1;
      rows[kind].push_back(RowOf(*tiles, kind, "graph:1", is_inner ? inner_ms : edge_ms, 0));
    }
    return DesirableTiles(tiles, rows);
  };
  const auto choose = [&](double edge_ms) {
    std::vector<Division> all = divided(few, 0, 4 + edge_ms);
    for (Division& division : divided(many, 1, edge_ms)) all.push_back(std::move(division));
    return Desirable(std::move(all));
  };
  ASSERT_EQ(choose(0.5).size(), 1u);
  EXPECT_EQ(choose(0.5)[0].tiles, many) << "6 + 2 * 0.5 ms against 2 * 4.5 ms";
  const auto cheap = divided(few, 0, 4), dear = divided(many, 1, 3);
  EXPECT_EQ(Desirable({cheap[0], dear[0]})[0].tiles, few) << "2 * 4 ms against 6 + 2 * 3 ms";
}

TEST(TileDivisions, AKindWithoutARowLeavesNone) {
  const auto tiles = CutRows(4);
  std::vector<std::vector<MicroConfiguration>> rows(3);
  rows[0].push_back(RowOf(*tiles, 0, "graph:1", 1, 0));
  rows[1].push_back(RowOf(*tiles, 1, "graph:1", 1, 0));
  EXPECT_TRUE(DesirableTiles(tiles, rows).empty());
}

// In one budget, tiles are choices like any others. Undivided, a kernel of one image uses most of
// the budget. In tiles it leaves enough for another kernel.
TEST(TileDivisions, ShareABudget) {
  const auto tiles = CutRows(4);
  std::vector<std::vector<MicroConfiguration>> rows(3);
  for (size_t kind = 0; kind < 3; ++kind)
    rows[kind].push_back(RowOf(*tiles, kind, "graph:1", 1, 10));
  const Configuration whole{{{{"graph:1", 1, 3, 100, true}, 1}}};
  std::vector<Division> choices = DesirableTiles(tiles, rows);
  choices.emplace_back(whole);
  DesirableConfigurations set;
  for (const Division& division : Desirable(std::move(choices))) {
    set.push_back(division.configuration);
  }
  ASSERT_EQ(set.size(), 2u);
  KnapsackSolver solver;
  const std::vector<DesirableConfigurations> kernels = {set, set};
  const auto divided = DivideWorkspace(kernels, 110, WorkspaceDivision::kDisjoint, solver);
  ASSERT_TRUE(divided.ok()) << divided.message();
  EXPECT_EQ(divided->total_bytes, 110u);
  EXPECT_NE(divided->chosen[0], divided->chosen[1]);
}

}  // namespace
}  // namespace ucudnn::planning
