// Generates random numbers that depend only on a seed and a place in a sequence, so that a problem
// can be drawn again without the problems before it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <vector>

namespace ucudnn::fuzz {

class Random {
 public:
  Random(uint64_t seed, std::initializer_list<uint64_t> place) : state_(seed) {
    for (const uint64_t number : place) state_ = Next() ^ (number * 0xd1342543de82ef95u);
  }

  uint64_t Next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t Between(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(int percent) { return Between(1, 100) <= percent; }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // in [0, 1)

  template <typename Value>
  Value OneOf(std::initializer_list<Value> values) {
    return *(values.begin() + Between(0, static_cast<int64_t>(values.size()) - 1));
  }
  template <typename Value>
  const Value& OneOf(const std::vector<Value>& values) {
    return values[Between(0, static_cast<int64_t>(values.size()) - 1)];
  }

 private:
  uint64_t state_;
};

}  // namespace ucudnn::fuzz
