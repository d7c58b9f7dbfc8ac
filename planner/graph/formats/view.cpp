#include "planner/graph/formats/view.h"

#include <algorithm>
#include <limits>

namespace ucudnn::planner {
namespace {

constexpr std::array<const char*, kViewAxes> kNames = {"n", "c", "d", "h", "w", "d'", "h'", "w'"};

void Append(Digits& digits, const Digit& digit) {
  if (digit.size == 1 && digit.axis != ViewAxis::kBatch) return;
  digits.push_back(digit);
}

}  // namespace

NodeExtents ExtentsOf(const Shape& shape, int64_t batch) {
  return {batch, shape.c, shape.extents[0], shape.extents[1], shape.extents[2]};
}

int64_t Extent(const Digits& digits) {
  int64_t extent = 1;
  for (const Digit& digit : digits) {
    if (digit.size > (int64_t{1} << 48) / extent) return -1;
    extent *= digit.size;
  }
  return extent;
}

std::vector<int64_t> Extents(const View& view) {
  std::vector<int64_t> extents;
  for (const Digits& digits : view) extents.push_back(Extent(digits));
  return extents;
}

Digits AllOf(const View& view) {
  Digits all;
  for (const Digits& digits : view) all.insert(all.end(), digits.begin(), digits.end());
  return all;
}

View WithImages(View view, int64_t images) {
  for (Digits& digits : view) {
    for (Digit& digit : digits) {
      if (digit.axis == ViewAxis::kBatch) digit.size = images;
    }
  }
  return view;
}

bool Holds(const Digits& digits, ViewAxis axis) {
  return std::any_of(digits.begin(), digits.end(),
                     [&](const Digit& digit) { return digit.axis == axis; });
}

bool AreWhole(const Digits& digits, const std::vector<ViewAxis>& axes, const NodeExtents& extents) {
  Digits whole;
  for (const ViewAxis axis : axes) {
    Append(whole, {axis, extents[static_cast<size_t>(axis)], 1});
  }
  return Joined(digits) == whole;
}

View PlainView(const NodeExtents& extents, size_t rank) {
  View view(rank);
  const auto put = [&](size_t at, ViewAxis axis) {
    Append(view[at], {axis, extents[static_cast<size_t>(axis)], 1});
  };
  put(0, ViewAxis::kBatch);
  if (rank > 1) put(1, ViewAxis::kChannel);
  for (size_t at = 2; at < rank; ++at) {
    put(at, static_cast<ViewAxis>(kNodeAxes - rank + at));
  }
  return view;
}

Digits Joined(const Digits& digits) {
  Digits joined;
  for (const Digit& digit : digits) {
    if (!joined.empty() && joined.back().axis == digit.axis &&
        joined.back().stride == digit.stride * digit.size) {
      joined.back() = {digit.axis, joined.back().size * digit.size, digit.stride};
    } else {
      joined.push_back(digit);
    }
  }
  return joined;
}

std::optional<View> Reshaped(const View& from, const std::vector<int64_t>& extents) {
  const Digits digits = AllOf(from);
  View view;
  size_t next = 0;
  Digit rest;  // the remainder of digits[next] if a part of it was taken
  if (!digits.empty()) rest = digits[0];
  const auto advance = [&] {
    if (++next < digits.size()) rest = digits[next];
  };
  for (const int64_t extent : extents) {
    Digits taken;
    int64_t left = extent;
    if (left < 1) return std::nullopt;
    // If the next digit is that of a batch of 1, the axis that begins here gets it.
    while (next < digits.size() && rest.axis == ViewAxis::kBatch && rest.size == 1) {
      taken.push_back(rest);
      advance();
    }
    while (left > 1) {
      if (next == digits.size()) return std::nullopt;
      if (left % rest.size == 0) {
        left /= rest.size;
        taken.push_back(rest);
        advance();
      } else if (rest.size % left == 0) {
        rest.size /= left;
        taken.push_back({rest.axis, left, rest.stride * rest.size});
        left = 1;
      } else {
        return std::nullopt;
      }
    }
    view.push_back(Joined(taken));
  }
  while (next < digits.size() && rest.size == 1 && !view.empty()) {
    if (rest.axis == ViewAxis::kBatch) view.back().push_back(rest);
    advance();
  }
  if (next < digits.size()) return std::nullopt;
  return view;
}

std::optional<std::pair<Digits, Digits>> Aligned(const Digits& a, const Digits& b) {
  const auto split = [](const Digits& digits, const Digits& other) -> std::optional<Digits> {
    std::vector<int64_t> sizes;
    for (const Digit& digit : other) {
      if (digit.size > 1) sizes.push_back(digit.size);
    }
    Digits counted;
    for (const Digit& digit : digits) {
      if (digit.size > 1) counted.push_back(digit);
    }
    Digits parts;
    size_t next = 0;
    for (Digit digit : counted) {
      while (digit.size > 1) {
        if (next == sizes.size()) return std::nullopt;
        const int64_t size = sizes[next];
        if (digit.size % size == 0) {
          digit.size /= size;
          parts.push_back({digit.axis, size, digit.stride * digit.size});
          ++next;
        } else if (size % digit.size == 0) {
          sizes[next] /= digit.size;
          parts.push_back(digit);
          digit.size = 1;
        } else {
          return std::nullopt;
        }
      }
    }
    if (next < sizes.size()) return std::nullopt;
    return parts;
  };
  const auto first = split(a, b);
  if (!first) return std::nullopt;
  const auto second = split(b, *first);
  if (!second) return std::nullopt;
  return std::pair(*first, *second);
}

bool RunsInOrder(const Digits& digits, const NodeExtents& extents) {
  Digits counted;
  for (const Digit& digit : digits) {
    if (digit.size > 1) counted.push_back(digit);
  }
  Digits whole;
  for (size_t axis = 0; axis < kNodeAxes; ++axis) {
    if (extents[axis] > 1) whole.push_back({static_cast<ViewAxis>(axis), extents[axis], 1});
  }
  return Joined(counted) == whole;
}

Remainder Compacted(const View& kept) {
  Remainder remainder;
  remainder.view = kept;
  for (size_t axis = 0; axis < kNodeAxes; ++axis) {
    std::vector<Digit*> digits;
    for (Digits& of_axis : remainder.view) {
      for (Digit& digit : of_axis) {
        if (digit.axis == static_cast<ViewAxis>(axis)) digits.push_back(&digit);
      }
    }
    std::stable_sort(digits.begin(), digits.end(),
                     [](const Digit* a, const Digit* b) { return a->stride < b->stride; });
    for (Digit* digit : digits) {
      int64_t& extent = remainder.extents[axis];
      digit->stride = extent;
      // An extent that overflows 64 bits becomes the largest number of 64 bits. That exceeds 32
      // bits, so the node is refused later.
      if (__builtin_mul_overflow(extent, digit->size, &extent)) {
        extent = std::numeric_limits<int64_t>::max();
      }
    }
  }
  for (Digits& of_axis : remainder.view) of_axis = Joined(of_axis);
  return remainder;
}

Separation SeparationOf(const Digits& mixed, const NodeExtents& extents) {
  Separation separation;
  const int64_t channels = extents[static_cast<size_t>(ViewAxis::kChannel)];
  // All channels up to the end of the largest mixed digit depend on each other, so a part has this
  // many channels.
  int64_t part = 1;
  for (const Digit& digit : mixed) {
    if (digit.axis == ViewAxis::kChannel) part = std::max(part, digit.stride * digit.size);
  }
  separation.channel_parts = channels % part == 0 ? channels / part : 1;
  separation.rows = !Holds(mixed, ViewAxis::kHeight);
  separation.columns = !Holds(mixed, ViewAxis::kWidth);
  return separation;
}

std::string Describe(const View& view) {
  std::string text;
  for (const Digits& digits : view) {
    std::string axis;
    for (const Digit& digit : digits) {
      axis += (axis.empty() ? "" : " ") + std::string(kNames[static_cast<size_t>(digit.axis)]) +
              std::to_string(digit.size) +
              (digit.stride == 1 ? "" : "/" + std::to_string(digit.stride));
    }
    text += "[" + axis + "]";
  }
  return text;
}

}  // namespace ucudnn::planner
