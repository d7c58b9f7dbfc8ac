// This library is built like all that programs load without knowing them: an exception that it
// throws must find its handler with the unwinder that the library carries.
#include <stdexcept>
#include <vector>

namespace {

[[gnu::noinline]] int Element(const std::vector<int>& values, size_t index) {
  return values.at(index);
}

}  // namespace

// Returns 1 when the exception arrived.
extern "C" __attribute__((visibility("default"))) int ucudnnTestThrowAndCatch(size_t index) {
  try {
    return Element({0, 0}, index);
  } catch (const std::out_of_range&) {
    return 1;
  }
}
