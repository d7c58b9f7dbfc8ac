// Objects that live as long as the process: none is destroyed at its end, when other threads may
// still use them. Thread-safe.
#pragma once

namespace hostgpu {

// Returns the one object of type T, which the first call makes.
template <class T>
T& Leaked() {
  static T* const object = new T;
  return *object;
}

}  // namespace hostgpu
