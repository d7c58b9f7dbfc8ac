#include "interposer/session/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "interposer/legacy/promise_book.h"
#include "tests/support/recording_cudnn.h"

namespace ucudnn::interposer {
namespace {

constexpr size_t kSlots = 4096;

cudnnHandle_t Handle(uintptr_t number) { return reinterpret_cast<cudnnHandle_t>(number * 16); }

CUstream Stream(uintptr_t number) { return reinterpret_cast<CUstream>(number); }

// Opens the session of Handle(number), on Stream(number).
Session* Open(SessionTable& table, uintptr_t number) {
  return table.FindOrOpen(Handle(number),
                          [&](Session& session) { session.Open({}, 0, Stream(number)); });
}

// Returns a decision that stays valid, because its page in the PromiseBook never gets a promise.
std::unique_ptr<CallState> AsAsked() {
  static PromiseBook book;
  auto decision = std::make_unique<CallState>();
  decision->page = &book.PageOf({});
  return decision;
}

TEST(SessionTable, FindsWhatWasOpened) {
  const auto table = std::make_unique<SessionTable>();
  EXPECT_EQ(table->Find(Handle(1)), nullptr);
  EXPECT_EQ(table->Find(nullptr), nullptr);
  Session* const session = Open(*table, 1);
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(table->Find(Handle(1)), session);
  EXPECT_EQ(Open(*table, 1), session);
  EXPECT_EQ(table->Find(Handle(2)), nullptr);
}

TEST(SessionTable, FullTableRefusesAndRecovers) {
  const auto table = std::make_unique<SessionTable>();
  std::set<Session*> sessions;
  for (uintptr_t i = 1; i <= kSlots; ++i) sessions.insert(Open(*table, i));
  EXPECT_EQ(sessions.size(), kSlots);
  EXPECT_FALSE(sessions.contains(nullptr));
  // Every slot is taken, so most handles collided. The table must still find each handle.
  for (uintptr_t i = 1; i <= kSlots; ++i) {
    ASSERT_NE(table->Find(Handle(i)), nullptr);
    EXPECT_EQ(table->Find(Handle(i))->stream(), Stream(i));
  }
  EXPECT_EQ(Open(*table, kSlots + 1), nullptr);
  EXPECT_EQ(table->Find(Handle(kSlots + 1)), nullptr);
  table->Close(Handle(7));
  ASSERT_NE(Open(*table, kSlots + 1), nullptr);
  EXPECT_EQ(table->Find(Handle(7)), nullptr);
  EXPECT_EQ(table->Find(Handle(kSlots + 1))->stream(), Stream(kSlots + 1));
}

TEST(SessionTable, ClosingUnknownHandlesChangesNothing) {
  const auto table = std::make_unique<SessionTable>();
  table->Close(Handle(1));
  Session* const session = Open(*table, 1);
  table->Close(Handle(2));
  EXPECT_EQ(table->Find(Handle(1)), session);
  table->Close(Handle(1));
  table->Close(Handle(1));
  EXPECT_EQ(table->Find(Handle(1)), nullptr);
}

TEST(SessionTable, HandlesThatComeAndGoAreAllFound) {
  const auto table = std::make_unique<SessionTable>();
  constexpr uintptr_t kLive = 50;
  for (uintptr_t i = 1; i <= 3 * kSlots; ++i) {
    ASSERT_NE(Open(*table, i), nullptr);
    if (i > kLive) table->Close(Handle(i - kLive));
    ASSERT_EQ(table->Find(Handle(i))->stream(), Stream(i));
  }
  for (uintptr_t i = 1; i <= 3 * kSlots; ++i) {
    EXPECT_EQ(table->Find(Handle(i)) != nullptr, i > 3 * kSlots - kLive) << i;
  }
}

TEST(SessionTable, AHandleAtAnOldAddressStartsAfresh) {
  const auto table = std::make_unique<SessionTable>();
  Session* const first = Open(*table, 1);
  first->Keep({}, AsAsked());
  ASSERT_NE(first->Find({}), nullptr);
  table->Close(Handle(1));
  int opened = 0;
  Session* const second = table->FindOrOpen(Handle(1), [&](Session&) { ++opened; });
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(second->Find({}), nullptr);
}

TEST(SessionTable, ThreadsWithHandlesOfTheirOwnDoNotMeet) {
  const auto table = std::make_unique<SessionTable>();
  std::vector<std::thread> threads;
  for (uintptr_t t = 0; t < 4; ++t) {
    threads.emplace_back([&table, t] {
      for (uintptr_t i = 0; i < 2000; ++i) {
        const uintptr_t number = 1 + 4 * (i % 300) + t;
        Session* const session = Open(*table, number);
        ASSERT_NE(session, nullptr);
        ASSERT_EQ(table->Find(Handle(number)), session);
        session->Keep({}, AsAsked());
        ASSERT_EQ(session->stream(), Stream(number));
        if (i % 3 != 0) table->Close(Handle(number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SessionTable, WhatIsOrderedWithTheSameIsOrdered) {
  const auto table = std::make_unique<SessionTable>();
  std::vector<Session*> sessions;
  for (uintptr_t i = 1; i <= 4; ++i) sessions.push_back(Open(*table, i));
  table->Order(Handle(1), Handle(2));
  table->Order(Handle(3), Handle(4));
  EXPECT_NE(sessions[0]->order(), nullptr);
  EXPECT_EQ(sessions[0]->order(), sessions[1]->order());
  EXPECT_NE(sessions[0]->order(), sessions[2]->order());
  table->Order(Handle(2), Handle(3));
  for (const Session* session : sessions) EXPECT_EQ(session->order(), sessions[0]->order());
}

TEST(SessionTable, AHandleAtAnOldAddressIsOrderedWithNobody) {
  const auto table = std::make_unique<SessionTable>();
  for (uintptr_t i = 1; i <= 3; ++i) Open(*table, i);
  table->Order(Handle(1), Handle(2));
  table->Close(Handle(1));
  Session* const again = Open(*table, 1);
  EXPECT_EQ(again->order(), nullptr);
  table->Order(Handle(1), Handle(3));
  EXPECT_EQ(again->order(), table->Find(Handle(3))->order());
  EXPECT_NE(again->order(), table->Find(Handle(2))->order());
}

TEST(SessionTable, IsEmptyAgainAfterOpeningFailed) {
  const auto table = std::make_unique<SessionTable>();
  const auto fail = [](Session&) { throw std::bad_alloc(); };
  EXPECT_THROW(table->FindOrOpen(Handle(1), fail), std::bad_alloc);
  EXPECT_EQ(table->Find(Handle(1)), nullptr);
  EXPECT_TRUE(table->empty());
  ASSERT_NE(Open(*table, 1), nullptr);
  EXPECT_FALSE(table->empty());
}

TEST(Session, ForgetsItsLaneOnlyWhereThatMayBeAnother) {
  Session session;
  session.Open({}, 0, Stream(1));
  EXPECT_EQ(session.lane(), 0u);
  session.set_lane(4);
  session.set_stream(Stream(1));
  EXPECT_EQ(session.lane(), 4u);
  session.set_stream(Stream(2));
  EXPECT_EQ(session.lane(), 0u);
  session.set_lane(8);
  session.set_order(&session);
  EXPECT_EQ(session.lane(), 0u);
}

TEST(Session, OnlyPromisesOfTheSameKernelOvertakeADecision) {
  PromiseBook book;
  PromiseKey key, other;
  other.algorithm = 1;
  Session session;
  session.Open({}, 0, nullptr);
  auto decision = std::make_unique<CallState>();
  decision->page = &book.PageOf(key);
  decision->version = decision->page->version();
  CallState* const kept = session.Keep({}, std::move(decision));
  EXPECT_EQ(session.Find({}), kept);
  book.Add(other, {});
  EXPECT_EQ(session.Find({}), kept);
  book.Add(key, {});
  EXPECT_EQ(session.Find({}), nullptr);
}

TEST(KernelState, IsDueAfterEnoughCallsAndWhereTheBudgetWasDividedAnew) {
  KernelState state;
  std::atomic<long> calls = 5;
  EXPECT_FALSE(state.IsDue(calls, 0)) << "it is final";
  state.due_at = 6;
  EXPECT_FALSE(state.IsDue(calls, 0));
  calls = 6;
  EXPECT_TRUE(state.IsDue(calls, 0));
  state.due_at = KernelState::kFinal;
  EXPECT_TRUE(state.IsDue(calls, 1));
  state.decided_epoch = 1;
  EXPECT_FALSE(state.IsDue(calls, 1));
}

TEST(Session, AReplacedDecisionStaysValid) {
  Session session;
  CallState* const first = session.Keep({}, AsAsked());
  CallState* const second = session.Keep({}, AsAsked());
  EXPECT_EQ(session.Find({}), second);
  first->ran = true;  // a call on another thread may still use `first`
  EXPECT_FALSE(second->ran);
}

}  // namespace
}  // namespace ucudnn::interposer
