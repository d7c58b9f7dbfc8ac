#include "interposer/legacy/promise_book.h"

#include <gtest/gtest.h>

#include <thread>

namespace ucudnn::interposer {
namespace {

planning::Promise PromiseOf(size_t workspace_bytes, double time_ms) {
  planning::Promise promise;
  promise.workspace_bytes = workspace_bytes;
  promise.configuration = {{{{"legacy:1", 8, time_ms, workspace_bytes, true}, 1}}};
  return promise;
}

TEST(PromiseBook, GivesTheFastestThatFits) {
  PromiseBook book;
  book.Add({}, PromiseOf(100, 3));
  book.Add({}, PromiseOf(200, 1));
  book.Add({}, PromiseOf(50, 4));
  EXPECT_FALSE(book.Find({}, 49));
  EXPECT_EQ(book.Find({}, 50)->workspace_bytes, 50u);
  EXPECT_EQ(book.Find({}, 199)->workspace_bytes, 100u);
  EXPECT_EQ(book.Find({}, 1000)->workspace_bytes, 200u);
}

TEST(PromiseBook, OneToldToBeDeterministicLeavesOthersOut) {
  PromiseBook book;
  planning::Promise random = PromiseOf(50, 1), deterministic = PromiseOf(100, 3);
  deterministic.reported.deterministic = true;
  book.Add({}, random);
  book.Add({}, deterministic);
  book.Add({}, PromiseOf(100, 2));
  EXPECT_EQ(book.Find({}, 99)->configuration, random.configuration);
  EXPECT_EQ(book.Find({}, 100)->configuration, deterministic.configuration);
}

TEST(PromiseBook, TheSamePlanToldMoreStrictlyIsANewPromise) {
  PromiseBook book;
  planning::Promise promise = PromiseOf(100, 3);
  book.Add({}, promise);
  promise.reported.deterministic = true;
  book.Add({}, promise);
  EXPECT_TRUE(book.Find({}, 100)->reported.deterministic);
}

TEST(PromiseBook, FindsWhatTheReportedAlgorithmCanKeepAlone) {
  PromiseBook book;
  planning::Promise promise = PromiseOf(100, 3);
  promise.undivided.engine = "legacy:0";
  promise.alone = PromiseOf(80, 4).configuration;
  book.Add({}, PromiseOf(100, 1));
  EXPECT_FALSE(book.FindAlone({}, 1000));
  book.Add({}, promise);
  EXPECT_FALSE(book.FindAlone({}, 99));
  EXPECT_EQ(book.FindAlone({}, 100)->configuration, promise.alone);
  EXPECT_TRUE(book.FindAlone({}, 100)->undivided.engine.empty());
  EXPECT_EQ(book.FindAlone({}, 100)->owned_bytes, 0u);
  PromiseBook of_budget;
  promise.alone = PromiseOf(120, 4).configuration;
  of_budget.Add({}, promise);
  EXPECT_EQ(of_budget.FindAlone({}, 100)->owned_bytes, 120u) << "the caller's do not hold it";
  EXPECT_EQ(of_budget.LastReported({})->assured_bytes, 120u);
}

TEST(PromiseBook, RemembersWhatWasReportedLast) {
  PromiseBook book;
  EXPECT_FALSE(book.LastReported({}));
  book.Add({}, PromiseOf(100, 3));
  book.Add({}, PromiseOf(200, 1));
  EXPECT_EQ(book.LastReported({})->workspace_bytes, 200u);
  book.Add({}, PromiseOf(100, 3));
  EXPECT_EQ(book.LastReported({})->workspace_bytes, 100u);
  EXPECT_EQ(book.Find({}, 1000)->workspace_bytes, 200u);
}

TEST(PromiseBook, OnlyNewPromisesOfTheSameKeyChangeAPagesVersion) {
  PromiseBook book;
  PromiseKey other;
  other.algorithm = 1;
  const PromiseBook::Page& page = book.PageOf({});
  const uint64_t before = page.version();
  book.Add(other, PromiseOf(100, 3));
  EXPECT_EQ(page.version(), before);
  book.Add({}, PromiseOf(100, 3));
  const uint64_t after = page.version();
  EXPECT_GT(after, before);
  book.Add({}, PromiseOf(100, 3));
  EXPECT_EQ(page.version(), after);
}

TEST(PromiseBook, NamesTheUndividedAlgorithmOfThePromiseThatFits) {
  PromiseBook book;
  EXPECT_FALSE(book.FindUndivided({}, 1000));
  planning::Promise promise = PromiseOf(100, 3);
  promise.undivided.engine = "legacy:5";
  book.Add({}, promise);
  EXPECT_FALSE(book.FindUndivided({}, 99));
  EXPECT_EQ(book.FindUndivided({}, 100), 5);
}

TEST(PromiseBook, KeepsKernelsAlgorithmsAndPlatformsApart) {
  PromiseBook book;
  PromiseKey key;
  book.Add(key, PromiseOf(100, 3));
  PromiseKey other = key;
  other.algorithm = 1;
  EXPECT_FALSE(book.Find(other, 1000));
  other = key;
  other.platform = 1;
  EXPECT_FALSE(book.Find(other, 1000));
  other = key;
  other.problem.math = MathType::kTensorOp;
  EXPECT_FALSE(book.Find(other, 1000));
  EXPECT_TRUE(book.Find(key, 1000));
}

TEST(PromiseBook, ServesManyThreads) {
  PromiseBook book;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&book, t] {
      for (int i = 0; i < 200; ++i) {
        PromiseKey key;
        key.algorithm = i % 7;
        book.Add(key, PromiseOf(100 * t + i % 3, 1));
        EXPECT_TRUE(book.Find(key, 1000));
        EXPECT_TRUE(book.LastReported(key));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ucudnn::interposer
