// Objects that a program attaches to graphs. The program, graphs, executable graphs and launches
// hold references; when the last reference ends, the object is destroyed. Thread-safe.
#pragma once

#include <memory>

#include "shim/host/cuda/driver_api.h"

namespace hostgpu {

class UserObject {
 public:
  UserObject(void* data, CUhostFn destroy) : data_(data), destroy_(destroy) {}
  ~UserObject() { destroy_(data_); }
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

 private:
  void* const data_;
  const CUhostFn destroy_;
};
using HeldObject = std::shared_ptr<UserObject>;

}  // namespace hostgpu
