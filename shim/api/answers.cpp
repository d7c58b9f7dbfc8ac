#include "api/answers.h"

#include <array>

#include "api/dropin_fill.h"

namespace ucudnn {
namespace {

constexpr const char* kNames[] = {
#define UCUDNN_NAME(name) #name,
    UCUDNN_ANSWERED(UCUDNN_NAME)
#undef UCUDNN_NAME
};
constexpr size_t kCount = std::size(kNames);
constexpr std::array<unsigned char, kCount> kKinds = {};  // 0 is kUcudnnReturnsStatus

void* slots[kCount] = {};

}  // namespace

void* AnswerOf(Answered function) {
  void** const slot = &slots[static_cast<size_t>(function)];
  void* target = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
  if (target != nullptr) return target;
  ucudnnPrivateFillDropin(slots, kNames, kKinds.data(), kCount, &slots);
  return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

}  // namespace ucudnn
