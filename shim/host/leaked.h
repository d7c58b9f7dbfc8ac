// Objects that are never destroyed, because other threads may still use them while the process
// ends. Thread-safe.
#pragma once

namespace hostgpu {

// Returns the one object of type T; the first call creates it.
template <class T>
T& Leaked() {
  static T* const object = new T;
  return *object;
}

}  // namespace hostgpu
