// Tests notes in stores. The last note under a key counts. A file without a table of notes is
// sound, and gets the table at the first note.
#include <gmock/gmock.h>

#include "db/inspection.h"
#include "fixture.h"

namespace ucudnn::db {
namespace {

using ::testing::IsEmpty;

class NotesTest : public StoreTest {
 protected:
  static std::optional<std::string> Find(SqliteStore& store, const ConvolutionProblem& problem,
                                         const planning::Platform& platform = kPlatform,
                                         const std::string& about = "tiles") {
    const auto found = store.FindNote(problem, platform, about);
    EXPECT_TRUE(found.ok()) << found.message();
    return found.ok() ? *found : std::nullopt;
  }
};

TEST_F(NotesTest, AColdStoreHasNoneAndMakesNoFile) {
  SqliteStore store({Path()});
  EXPECT_EQ(Find(store, Problem()), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(Path()));
}

TEST_F(NotesTest, TheLastOneCounts) {
  SqliteStore store({Path()});
  ASSERT_TRUE(store.KeepNote(Problem(), kPlatform, "tiles", "two\nlines").ok());
  SqliteStore other({Path()});
  EXPECT_EQ(Find(other, Problem()), "two\nlines");
  ASSERT_TRUE(other.KeepNote(Problem(), kPlatform, "tiles", "").ok());
  EXPECT_EQ(Find(store, Problem()), "");
}

TEST_F(NotesTest, EverythingInTheKeyKeepsThemApart) {
  SqliteStore store({Path()});
  ASSERT_TRUE(store.KeepNote(Problem(), kPlatform, "tiles", "here").ok());
  EXPECT_EQ(Find(store, Problem()), "here");
  EXPECT_EQ(Find(store, Problem(32)), std::nullopt);
  EXPECT_EQ(Find(store, Problem(64, 32)), std::nullopt);
  EXPECT_EQ(Find(store, Problem(), kPlatform, "grids"), std::nullopt);
  for (const planning::Platform& platform :
       {planning::Platform{"another", kPlatform.cudnn, kPlatform.driver},
        planning::Platform{kPlatform.device, 1, kPlatform.driver},
        planning::Platform{kPlatform.device, kPlatform.cudnn, 1}}) {
    EXPECT_EQ(Find(store, Problem(), platform), std::nullopt);
  }
}

TEST_F(NotesTest, TheEarlierFileComesFirst) {
  ASSERT_TRUE(SqliteStore({Path("own.db")}).KeepNote(Problem(), kPlatform, "a", "own").ok());
  SqliteStore shared({Path("shared.db")});
  ASSERT_TRUE(shared.KeepNote(Problem(), kPlatform, "a", "shared").ok());
  ASSERT_TRUE(shared.KeepNote(Problem(), kPlatform, "b", "shared").ok());
  SqliteStore both({Path("own.db"), Path("shared.db")});
  EXPECT_EQ(Find(both, Problem(), kPlatform, "a"), "own");
  EXPECT_EQ(Find(both, Problem(), kPlatform, "b"), "shared");
}

TEST_F(NotesTest, AFileWithoutTheTableIsSoundAndGetsIt) {
  RowStore store({Path()});
  ASSERT_TRUE(store.Write(Problem(), kPlatform, {Row("legacy:1", 64, 1)}).ok());
  EXPECT_EQ(Find(store, Problem()), std::nullopt);
  const auto rows = *store.List();
  ASSERT_TRUE(store.KeepNote(Problem(), kPlatform, "tiles", "here").ok());
  EXPECT_EQ(Find(store, Problem()), "here");
  EXPECT_EQ(*store.List(), rows);
  const auto contents = Inspect(Path());
  ASSERT_TRUE(contents.ok()) << contents.message();
  EXPECT_THAT(contents->faults, IsEmpty());
  EXPECT_EQ(contents->version, kSchemaVersion);
}

TEST_F(NotesTest, ThoseOfOldPlatformsArePruned) {
  RowStore store({Path()});
  planning::Platform old = kPlatform;
  old.cudnn -= 1;
  ASSERT_TRUE(store.Write(Problem(), old, {Row("legacy:1", 64, 1)}).ok());
  const auto dry = store.Prune("", true);
  ASSERT_TRUE(dry.ok()) << dry.message();
  EXPECT_THAT(dry->platforms, IsEmpty());
  ASSERT_TRUE(store.KeepNote(Problem(64, 32), old, "tiles", "old").ok());
  ASSERT_TRUE(store.KeepNote(Problem(64, 16), kPlatform, "tiles", "new").ok());
  const auto pruned = store.Prune("", false);
  ASSERT_TRUE(pruned.ok()) << pruned.message();
  EXPECT_EQ(pruned->kernels, 2u);
  EXPECT_EQ(Find(store, Problem(64, 32), old), std::nullopt);
  EXPECT_EQ(Find(store, Problem(64, 16)), "new");
}

}  // namespace
}  // namespace ucudnn::db
