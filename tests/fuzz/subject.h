// Gives access to ucudnn's own entry points, as the drop-in calls them. The entry points use an
// interposer with the setting's options and measurements. A process has one Subject at a time, and
// only one thread uses it.
#pragma once

#include <memory>

#include "cudnn/functions.h"
#include "draw.h"
#include "interposer/interposer.h"
#include "tests/support/memory_store.h"

namespace ucudnn::fuzz {

class Subject {
 public:
  explicit Subject(const Setting& setting);  // keeps a reference to `setting`
  ~Subject();
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  const cudnn::Functions& functions() const;
  cudnnHandle_t handle() const { return handle_; }
  // Returns whether a comparison with the undivided engine found a plan wrong. This must never
  // happen, because no plan here is wrong.
  bool SuspectsAPlan();

 private:
  test::MemoryStore store_;
  interposer::Interposer interposer_;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace ucudnn::fuzz
