#include "tuning/spread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/becomes.h"

namespace ucudnn::tuning {
namespace {

using ucudnn::test::Becomes;

// Counts how often each unit was done, and notes the devices that failed.
struct Tally {
  explicit Tally(size_t units) : done(units) {}
  DeviceLost Lost() {
    return [this](size_t device, const Status& why) {
      lost.push_back(std::to_string(device) + ": " + why.message());
    };
  }
  bool EachOnce() const {
    return std::all_of(done.begin(), done.end(), [](const auto& times) { return times == 1; });
  }
  std::vector<std::atomic<int>> done;
  std::vector<std::string> lost;
};

TEST(SpreadTest, EveryUnitIsDoneOnce) {
  for (const size_t devices : {1, 2, 7}) {
    for (const size_t units : {0, 1, 3, 100}) {
      Tally tally(units);
      const Status status = SpreadOverDevices(
          devices, units,
          [&](size_t, size_t unit) {
            ++tally.done[unit];
            return Status::Ok();
          },
          tally.Lost());
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(tally.EachOnce()) << devices << " devices, " << units << " units";
      EXPECT_TRUE(tally.lost.empty());
    }
  }
}

TEST(SpreadTest, OneDeviceKeepsTheOrderAndTheThread) {
  std::vector<size_t> order;
  const auto here = std::this_thread::get_id();
  const Status status = SpreadOverDevices(
      1, 5,
      [&](size_t, size_t unit) {
        EXPECT_EQ(std::this_thread::get_id(), here);
        order.push_back(unit);
        return Status::Ok();
      },
      [](size_t, const Status&) {});
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4}));
}

TEST(SpreadTest, DevicesWorkAtTheSameTime) {
  std::atomic<int> begun = 0;
  const Status status = SpreadOverDevices(
      3, 3,
      [&](size_t, size_t) {
        ++begun;
        return Becomes([&] { return begun == 3; }) ? Status::Ok()
                                                   : Status::Error("a device waits for another");
      },
      [](size_t, const Status&) {});
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(SpreadTest, FailedDevicesWorkIsDoneByOthers) {
  constexpr size_t kUnits = 20;
  for (const size_t bad : {0, 1, 2}) {
    Tally tally(kUnits);
    std::atomic<int> tried = 0;
    const Status status = SpreadOverDevices(
        3, kUnits,
        [&](size_t device, size_t unit) {
          if (device == bad) {
            ++tried;
            return Status::Error("fell off the bus");
          }
          if (!Becomes([&] { return tried > 0; })) return Status::Error("the bad one gets no unit");
          ++tally.done[unit];
          return Status::Ok();
        },
        tally.Lost());
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(tally.EachOnce());
    EXPECT_EQ(tried, 1);
    EXPECT_EQ(tally.lost, std::vector{std::to_string(bad) + ": fell off the bus"});
  }
}

TEST(SpreadTest, LastDevicesErrorIsTold) {
  Tally tally(4);
  const Status status = SpreadOverDevices(
      2, 4, [](size_t, size_t) { return Status::Error("no engine"); }, tally.Lost());
  EXPECT_EQ(status.message(), "no engine");
  EXPECT_EQ(tally.lost.size(), 1u);  // nobody is left to take the last device's work
}

TEST(SpreadTest, WhatIsThrownIsAFailure) {
  std::atomic<bool> thrown = false;
  Tally tally(2);
  const Status status = SpreadOverDevices(
      2, 2,
      [&](size_t device, size_t unit) {
        if (device == 1) {
          thrown = true;
          throw std::bad_alloc();
        }
        if (!Becomes([&] { return thrown.load(); })) return Status::Error("nothing is thrown");
        ++tally.done[unit];
        return Status::Ok();
      },
      tally.Lost());
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(tally.EachOnce());
  EXPECT_EQ(tally.lost, std::vector<std::string>{"1: out of memory"});
}

TEST(SpreadTest, NoDeviceIsAnError) {
  EXPECT_FALSE(SpreadOverDevices(
                   0, 1, [](size_t, size_t) { return Status::Ok(); }, [](size_t, const Status&) {})
                   .ok());
}

}  // namespace
}  // namespace ucudnn::tuning
