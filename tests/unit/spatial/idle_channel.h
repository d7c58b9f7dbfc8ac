// A channel that exchanges nothing, for tests of single parts of a rank.
#pragma once

#include <atomic>

#include "transport/channel.h"

namespace ucudnn::test {

struct IdleChannel : transport::Channel {
  Status Exchange(std::span<const transport::Message>, std::span<const transport::Message>,
                  CUstream) override {
    return Status::Ok();
  }
  Status AllReduce(CUdeviceptr, size_t, transport::Element, CUstream) override {
    return Status::Ok();
  }
  Status Reserve(size_t, size_t) override { return Status::Ok(); }
  size_t device_bytes() const override { return 100; }
  Status Check() override { return Status::Ok(); }
  transport::DeviceProgress Progress() override { return {}; }
  void Abort() override { ++aborts; }

  std::atomic<int> aborts = 0;
};

}  // namespace ucudnn::test
