// This library is linked like libucudnn, with its own unwinder. The unwinder must find the handler
// of an exception that the library throws.
#include <stdexcept>
#include <vector>

namespace {

[[gnu::noinline]] int Element(const std::vector<int>& values, size_t index) {
  return values.at(index);
}

}  // namespace

// Returns 1 if std::out_of_range was caught.
extern "C" __attribute__((visibility("default"))) int ucudnnTestThrowAndCatch(size_t index) {
  try {
    return Element({0, 0}, index);
  } catch (const std::out_of_range&) {
    return 1;
  }
}
