// A library built as all that are loaded into strangers: what it throws must find its handler with
// the unwinder it carries.
#include <stdexcept>
#include <vector>

namespace {

[[gnu::noinline]] int Element(const std::vector<int>& values, size_t index) {
  return values.at(index);
}

}  // namespace

// 1 when the exception arrived.
extern "C" __attribute__((visibility("default"))) int ucudnnTestThrowAndCatch(size_t index) {
  try {
    return Element({0, 0}, index);
  } catch (const std::out_of_range&) {
    return 1;
  }
}
