// What is tried: ucudnn's own entry points, as the drop-in calls them, over an interposer with
// options and measurements of the test's. One at a time in a process; used by one thread.
#pragma once

#include <memory>

#include "cudnn/functions.h"
#include "draw.h"
#include "interposer/interposer.h"
#include "tests/support/memory_store.h"

namespace ucudnn::fuzz {

class Subject {
 public:
  explicit Subject(const Setting& setting);  // keeps a reference
  ~Subject();
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  const cudnn::Functions& functions() const;
  cudnnHandle_t handle() const { return handle_; }
  // Whether a comparison with the undivided engine found a plan wrong. No plan here is.
  bool SuspectsAPlan();

 private:
  test::MemoryStore store_;
  interposer::Interposer interposer_;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace ucudnn::fuzz
