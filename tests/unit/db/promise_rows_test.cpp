// Tests promises in stores: the first promise kept under a key stays, whoever asks.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db/inspection.h"
#include "fixture.h"

namespace ucudnn::db {
namespace {

using planning::EnginePromise;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

EnginePromise Promise(size_t workspace_bytes = 4096) {
  return {Problem(), kPlatform, "graph:38[k2=1]", 8192, workspace_bytes, "graph:0", true};
}

class PromiseRowsTest : public StoreTest {
 protected:
  static std::optional<EnginePromise> Find(SqliteStore& store, const EnginePromise& asked) {
    const auto found = store.FindPromise(asked);
    EXPECT_TRUE(found.ok()) << found.message();
    return found.ok() ? *found : std::nullopt;
  }
};

TEST_F(PromiseRowsTest, AColdStoreHasNoneAndMakesNoFile) {
  SqliteStore store({Path()});
  EXPECT_EQ(Find(store, Promise()), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(Path()));
}

TEST_F(PromiseRowsTest, TheFirstOneStays) {
  SqliteStore store({Path()});
  EXPECT_EQ(*store.KeepPromise(Promise()), Promise());
  EnginePromise later = Promise(2048);
  later.undivided = "graph:28";
  later.any_engine = false;
  EXPECT_EQ(*SqliteStore({Path()}).KeepPromise(later), Promise());
  EXPECT_EQ(Find(store, later), Promise());
}

TEST_F(PromiseRowsTest, ItIsFoundByItsKeyAlone) {
  SqliteStore store({Path()});
  EXPECT_EQ(*store.KeepPromise(Promise()), Promise());
  EnginePromise key = Promise(0);
  key.undivided = {};
  key.any_engine = false;
  EXPECT_EQ(Find(store, key), Promise());
}

TEST_F(PromiseRowsTest, EverythingInTheKeyKeepsThemApart) {
  SqliteStore store({Path()});
  ASSERT_TRUE(store.KeepPromise(Promise()).ok());
  for (const auto edit : std::vector<void (*)(EnginePromise&)>{
           [](auto& p) { p.problem.n = 32; }, [](auto& p) { p.problem.c = 32; },
           [](auto& p) { p.problem.operation = Operation::kBackwardData; },
           [](auto& p) { p.platform.device = "Other GPU"; },
           [](auto& p) { p.platform.cudnn = 92000; }, [](auto& p) { p.platform.driver = 13010; },
           [](auto& p) { p.engine = "graph:38[k2=2]"; }, [](auto& p) { p.limit_bytes = 8193; }}) {
    EnginePromise other = Promise();
    edit(other);
    EXPECT_EQ(Find(store, other), std::nullopt);
    other.workspace_bytes = 1;
    EXPECT_EQ(*store.KeepPromise(other), other);
  }
  EXPECT_EQ(Find(store, Promise()), Promise());
  EXPECT_EQ(Inspect(Path())->promises, 9u);
}

// Returns a promise that names no undivided engine. Only pieces of the plan's own engine keep it.
EnginePromise PromiseOfPiecesAlone() {
  EnginePromise promise = Promise();
  promise.engine = "graph:67";
  promise.undivided = {};
  promise.any_engine = false;
  return promise;
}

TEST_F(PromiseRowsTest, OnesThatOnlyPiecesKeepAreKeptLikeOthers) {
  const EnginePromise alone = PromiseOfPiecesAlone();
  {
    SqliteStore store({Path()});
    const auto kept = store.KeepPromise(alone);
    ASSERT_TRUE(kept.ok()) << kept.message();
    EXPECT_EQ(*kept, alone);
  }
  SqliteStore next({Path()});
  EXPECT_EQ(Find(next, alone), alone);
  EXPECT_THAT(Inspect(Path())->faults, IsEmpty());
  EXPECT_THAT(ReadStore(Path())->promises, ElementsAre(alone));
  EnginePromise later = alone;
  later.undivided = "graph:0";
  EXPECT_EQ(*next.KeepPromise(later), alone);
}

TEST_F(PromiseRowsTest, ProcessesThatKeepAtOnceAgree) {
  constexpr int kProcesses = 4;
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  for (int process = 0; process < kProcesses; ++process) {
    if (fork() != 0) continue;
    alarm(60);
    SqliteStore store({Path()});
    const auto kept = store.KeepPromise(Promise(100 + process));
    const size_t bytes = kept.ok() ? kept->workspace_bytes : 0;
    _exit(write(told[1], &bytes, sizeof bytes) == sizeof bytes ? 0 : 1);
  }
  close(told[1]);
  std::vector<size_t> answers(kProcesses);
  for (size_t& answer : answers) ASSERT_EQ(read(told[0], &answer, sizeof answer), 8);
  close(told[0]);
  while (wait(nullptr) > 0) {
  }
  EXPECT_GE(answers[0], 100u);
  EXPECT_EQ(answers, std::vector<size_t>(kProcesses, answers[0]));
}

TEST_F(PromiseRowsTest, OfSeveralFilesTheEarlierCounts) {
  ASSERT_TRUE(SqliteStore({Path("shared.db")}).KeepPromise(Promise()).ok());
  ASSERT_TRUE(SqliteStore({Path("own.db")}).KeepPromise(Promise(1)).ok());
  SqliteStore store({Path("shared.db"), Path("own.db")}, 1);
  EXPECT_EQ(Find(store, Promise()), Promise());
  EXPECT_EQ(*store.KeepPromise(Promise(2)), Promise());
}

TEST_F(PromiseRowsTest, TheyAreListedOnce) {
  EnginePromise other = Promise();
  other.engine = "graph:67";
  ASSERT_EQ(*SqliteStore({Path("shared.db")}).AddPromises({Promise(), other}), 2u);
  ASSERT_EQ(*SqliteStore({Path("own.db")}).AddPromises({Promise(1)}), 1u);
  EXPECT_THAT(*SqliteStore({Path("own.db"), Path("shared.db")}).ListPromises(),
              ElementsAre(Promise(1), other));
  EXPECT_THAT(*SqliteStore({Path("shared.db"), Path("own.db")}).ListPromises(),
              ElementsAre(Promise(), other));
}

TEST_F(PromiseRowsTest, WhatMakesNoSenseIsRefused) {
  SqliteStore store({Path()});
  for (const auto edit : std::vector<void (*)(EnginePromise&)>{
           [](auto& p) { p.engine = {}; }, [](auto& p) { p.problem.n = 0; },
           [](auto& p) { p.workspace_bytes = 8193; },
           [](auto& p) { p.limit_bytes = p.workspace_bytes = ~size_t{0}; },
           [](auto& p) { p.engine = p.engine.Text() + '\0'; },
           [](auto& p) { p.undivided = p.undivided.Text() + '\0'; }}) {
    EnginePromise promise = Promise();
    edit(promise);
    EXPECT_FALSE(store.KeepPromise(promise).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(Path()));
}

TEST_F(PromiseRowsTest, ARowEditedByHandIsNoneAndAFault) {
  for (const char* edit : {"workspace_bytes=-1", "workspace_bytes=9000", "workspace_bytes='much'",
                           "engine=''", "any_engine='maybe'"}) {
    SCOPED_TRACE(edit);
    std::filesystem::remove(Path());
    ASSERT_TRUE(SqliteStore({Path()}).KeepPromise(Promise()).ok());
    RunSql(Path(), (std::string("UPDATE promises SET ") + edit).c_str());
    SqliteStore store({Path()});
    EXPECT_EQ(Find(store, Promise()), std::nullopt);
    EXPECT_THAT(Inspect(Path())->faults, ElementsAre(HasSubstr("promise")));
    EXPECT_THAT(ReadStore(Path())->promises, IsEmpty());
  }
  RunSql(Path(), "PRAGMA foreign_keys=0; DELETE FROM families");
  EXPECT_THAT(Inspect(Path())->faults, ElementsAre(HasSubstr("belong to no kernel")));
}

TEST_F(PromiseRowsTest, MergingAddsThem) {
  EnginePromise other = Promise(1);
  other.engine = "graph:67";
  ASSERT_TRUE(SqliteStore({Path("from.db")}).KeepPromise(other).ok());
  ASSERT_TRUE(SqliteStore({Path("from.db")}).KeepPromise(Promise(2)).ok());
  EnginePromise alone = PromiseOfPiecesAlone();
  alone.problem.n = 32;
  ASSERT_TRUE(SqliteStore({Path("from.db")}).KeepPromise(alone).ok());
  SqliteStore store({Path()});
  ASSERT_TRUE(store.KeepPromise(Promise()).ok());
  const auto from = ReadStore(Path("from.db"));
  ASSERT_TRUE(from.ok()) << from.message();
  EXPECT_EQ(*store.AddPromises(from->promises), 2u);
  EXPECT_THAT(ReadStore(Path())->promises, UnorderedElementsAre(Promise(), other, alone));
}

TEST_F(PromiseRowsTest, PruningRemovesThoseOfOlderPlatforms) {
  EnginePromise older = Promise();
  older.platform.cudnn -= 100;
  EnginePromise unknown = Promise();
  unknown.platform.cudnn = 0;
  SqliteStore store({Path()});
  for (const EnginePromise& promise : {older, unknown, Promise()}) {
    ASSERT_TRUE(store.KeepPromise(promise).ok());
  }
  const auto pruned = store.Prune("", false);
  ASSERT_TRUE(pruned.ok()) << pruned.message();
  EXPECT_EQ(pruned->kernels, 0u);
  EXPECT_THAT(ReadStore(Path())->promises, UnorderedElementsAre(unknown, Promise()));
}

}  // namespace
}  // namespace ucudnn::db
