// The rules of FoldConstants() for operators that move, select, repeat and join elements, and for
// padding and resizing.
#include <algorithm>
#include <numeric>
#include <string>

#include "planner/graph/formats/onnx_folding_rules.h"

namespace ucudnn::planner {
namespace {

Folded FoldSame(const Folding& folding) { return Seen(folding, folding.Dims()); }

Folded FoldTranspose(const Folding& folding) {
  const Sizes& dims = folding.Dims();
  Sizes permutation = folding.attributes.Numbers("perm");
  if (permutation.empty()) {
    for (size_t axis = dims.size(); axis-- > 0;) permutation.push_back(static_cast<int64_t>(axis));
  }
  Sizes sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  Sizes every(dims.size());
  std::iota(every.begin(), every.end(), 0);
  if (sorted != every) return NotKnown();
  Sizes turned;
  for (const int64_t axis : permutation) turned.push_back(dims[static_cast<size_t>(axis)]);
  OnnxConstant made = Picked(folding.In(0), turned, [&](const Sizes& at) {
    Sizes source(at.size());
    for (size_t axis = 0; axis < at.size(); ++axis) {
      source[static_cast<size_t>(permutation[axis])] = at[axis];
    }
    return source;
  });
  made.tensor = folding.In(0).tensor;
  return One(made);
}

Folded FoldReshape(const Folding& folding) {
  const auto to = folding.List(1, "shape");
  if (!to) return NotKnown();
  return Seen(folding,
              ReshapedExtents(folding.Dims(), *to, folding.attributes.Number("allowzero", 0) != 0));
}

Folded FoldFlatten(const Folding& folding) {
  const Sizes& dims = folding.Dims();
  const int64_t given = folding.attributes.Number("axis", 1);
  const auto axis =
      given == static_cast<int64_t>(dims.size()) ? dims.size() : AxisOf(given, dims.size());
  if (!axis) return NotKnown();
  const auto middle = dims.begin() + static_cast<std::ptrdiff_t>(*axis);
  return Seen(folding, Sizes{Product({dims.begin(), middle}), Product({middle, dims.end()})});
}

Folded FoldSqueeze(const Folding& folding) {
  const auto axes = folding.List(1, "axes");
  const Sizes& dims = folding.Dims();
  if (!axes) return NotKnown();
  std::vector<bool> gone(dims.size(), false);
  for (size_t axis = 0; axes->empty() && axis < dims.size(); ++axis) gone[axis] = dims[axis] == 1;
  for (const int64_t given : *axes) {
    const auto axis = AxisOf(given, dims.size());
    if (!axis || dims[*axis] != 1) return NotKnown();
    gone[*axis] = true;
  }
  Sizes left;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (!gone[axis]) left.push_back(dims[axis]);
  }
  return Seen(folding, left);
}

Folded FoldUnsqueeze(const Folding& folding) {
  const auto axes = folding.List(1, "axes");
  if (!axes) return NotKnown();
  const size_t rank = folding.Dims().size() + axes->size();
  std::vector<bool> is_new(rank, false);
  for (const int64_t given : *axes) {
    const auto axis = AxisOf(given, rank);
    if (!axis || is_new[*axis]) return NotKnown();
    is_new[*axis] = true;
  }
  Sizes dims;
  size_t next = 0;
  for (const bool added : is_new) dims.push_back(added ? 1 : folding.Dims()[next++]);
  Folded seen = Seen(folding, dims);
  if (const auto& steps = folding.In(0).steps; steps && seen[0].is_known) {
    next = 0;
    seen[0].steps.emplace();
    for (const bool added : is_new) seen[0].steps->push_back(added ? 0 : (*steps)[next++]);
  }
  return seen;
}

Folded FoldExpand(const Folding& folding) {
  const auto to = folding.List(1, "");
  const auto dims = to ? Broadcast(folding.Dims(), *to) : std::nullopt;
  if (!dims) return NotKnown();
  const OnnxConstant& from = folding.In(0);
  return *dims == from.dims ? FoldSame(folding) : One(Repeated(from, *dims));
}

Folded FoldTile(const Folding& folding) {
  const auto repeats = folding.List(1, "repeats");
  Sizes dims = folding.Dims();
  if (!repeats || repeats->size() != dims.size()) return NotKnown();
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if ((*repeats)[axis] < 0 || (*repeats)[axis] > kLargestConstantExtent ||
        (dims[axis] > 0 && (*repeats)[axis] > kLargestConstantExtent / dims[axis])) {
      return NotKnown();
    }
    dims[axis] *= (*repeats)[axis];
  }
  return One(Picked(folding.In(0), dims, [&](Sizes at) {
    for (size_t axis = 0; axis < at.size(); ++axis) at[axis] %= folding.Dims()[axis];
    return at;
  }));
}

Folded FoldGather(const Folding& folding) {
  const OnnxConstant& from = folding.In(0);
  const OnnxConstant& indices = folding.In(1);
  const auto axis = AxisOf(folding.attributes.Number("axis", 0), from.dims.size());
  if (!axis) return NotKnown();
  const auto at_axis = from.dims.begin() + static_cast<std::ptrdiff_t>(*axis);
  Sizes dims(from.dims.begin(), at_axis);
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), at_axis + 1, from.dims.end());
  const auto numbers = indices.WholeNumbers();
  const int64_t extent = from.dims[*axis];
  bool fits = numbers.has_value();
  for (size_t at = 0; fits && at < numbers->size(); ++at) {
    fits = (*numbers)[at] >= -extent && (*numbers)[at] < extent;
  }
  OnnxConstant source = from;
  if (!fits) source.values.reset();
  const Sizes strides = StridesOf(indices.dims);
  return One(Picked(source, dims, [&](const Sizes& at) {
    Sizes place(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(*axis));
    int64_t position = 0;
    for (size_t i = 0; i < strides.size(); ++i) position += at[*axis + i] * strides[i];
    const int64_t index = (*numbers)[static_cast<size_t>(position)];
    place.push_back(index < 0 ? index + extent : index);
    place.insert(place.end(), at.begin() + static_cast<std::ptrdiff_t>(*axis + strides.size()),
                 at.end());
    return place;
  }));
}

Folded FoldGatherNd(const Folding& folding) {
  const OnnxConstant& from = folding.In(0);
  const Sizes& indices = folding.In(1).dims;
  const int64_t shared = folding.attributes.Number("batch_dims", 0);
  const auto rank = static_cast<int64_t>(from.dims.size());
  if (indices.empty() || shared < 0 || shared >= static_cast<int64_t>(indices.size()) ||
      indices.back() > rank - shared) {
    return NotKnown();
  }
  Sizes dims(indices.begin(), indices.end() - 1);
  dims.insert(dims.end(), from.dims.begin() + shared + indices.back(), from.dims.end());
  OnnxConstant source = from;
  source.values.reset();
  return One(Picked(source, dims, [](const Sizes& at) { return at; }));
}

Folded FoldSlice(const Folding& folding) {
  const auto starts = folding.List(1, "starts");
  const auto ends = folding.List(2, "ends");
  auto axes = folding.List(3, "axes");
  const auto steps = folding.List(4, "steps");
  if (!starts || !ends || !axes || !steps || starts->size() != ends->size()) return NotKnown();
  if (axes->empty()) {
    axes->resize(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (axes->size() != starts->size() || !(steps->empty() || steps->size() == starts->size())) {
    return NotKnown();
  }
  Sizes dims = folding.Dims();
  std::vector<SlicedAxis> sliced;
  for (const int64_t extent : dims) sliced.push_back({0, 1, extent});
  for (size_t i = 0; i < axes->size(); ++i) {
    const auto axis = AxisOf((*axes)[i], dims.size());
    const int64_t step = steps->empty() ? 1 : (*steps)[i];
    if (!axis || step == 0) return NotKnown();
    sliced[*axis] = SliceOf(dims[*axis], (*starts)[i], (*ends)[i], step);
  }
  for (size_t axis = 0; axis < dims.size(); ++axis) dims[axis] = sliced[axis].count;
  return One(Picked(folding.In(0), dims, [&](Sizes at) {
    for (size_t axis = 0; axis < at.size(); ++axis) {
      at[axis] = sliced[axis].begin + at[axis] * sliced[axis].step;
    }
    return at;
  }));
}

Folded FoldSplit(const Folding& folding) {
  const auto axis = AxisOf(folding.attributes.Number("axis", 0), folding.Dims().size());
  const auto list = folding.List(1, "split");
  const auto parts = axis ? SplitExtents(folding.node, folding.Dims()[*axis], list) : std::nullopt;
  Folded folded;
  if (!parts) return folded;
  int64_t begin = 0;
  for (const int64_t part : *parts) {
    Sizes dims = folding.Dims();
    dims[*axis] = part;
    folded.push_back(Picked(folding.In(0), dims, [&](Sizes at) {
      at[*axis] += begin;
      return at;
    }));
    begin += part;
  }
  return folded;
}

Folded FoldConcat(const Folding& folding) {
  const auto axis =
      AxisOf(folding.attributes.Number("axis", folding.opset < 4 ? 1 : 0), folding.Dims().size());
  if (!axis) return NotKnown();
  OnnxConstant made = Computed(folding, folding.Dims());
  made.dims[*axis] = 0;
  made.repeated = false;
  made.numbers = 0;
  for (const OnnxConstant* input : folding.inputs) {
    Sizes rest = input->dims;
    if (rest.size() != made.dims.size()) return NotKnown();
    made.dims[*axis] += rest[*axis];
    made.numbers += input->numbers;
    rest[*axis] = made.dims[*axis];
    if (rest != made.dims) return NotKnown();
  }
  made = Bounded(made);
  if (!made.is_known || made.Elements() > kMostConstantValues) return One(made);
  const bool all_known =
      std::all_of(folding.inputs.begin(), folding.inputs.end(),
                  [](const OnnxConstant* input) { return input->values.has_value(); });
  if (!all_known) return One(made);
  made.values.emplace();
  std::vector<Sizes> strides;
  for (const OnnxConstant* input : folding.inputs) strides.push_back(StridesOf(input->dims));
  ForEach(made.dims, [&](Sizes at) {
    size_t part = 0;
    while (at[*axis] >= folding.In(part).dims[*axis]) at[*axis] -= folding.In(part++).dims[*axis];
    int64_t position = 0;
    for (size_t i = 0; i < at.size(); ++i) position += at[i] * strides[part][i];
    made.values->push_back((*folding.In(part).values)[static_cast<size_t>(position)]);
  });
  return One(made);
}

Folded FoldPad(const Folding& folding) {
  const auto pads = folding.List(1, "pads");
  const auto axes = folding.List(3, "axes");
  Sizes dims = folding.Dims();
  if (!pads || !axes) return NotKnown();
  const size_t count = axes->empty() ? dims.size() : axes->size();
  if (pads->size() != 2 * count) return NotKnown();
  for (size_t i = 0; i < count; ++i) {
    const auto axis = AxisOf(axes->empty() ? static_cast<int64_t>(i) : (*axes)[i], dims.size());
    if (!axis) return NotKnown();
    for (const int64_t more : {(*pads)[i], (*pads)[i + count]}) {
      if (more < -kLargestConstantExtent || more > kLargestConstantExtent) return NotKnown();
      dims[*axis] += more;
    }
  }
  OnnxConstant padded = Computed(folding, dims);
  padded.repeated = false;
  padded.numbers = std::min(folding.In(0).numbers, padded.numbers);
  return One(padded);
}

// Computes the extents, but not the interpolated elements.
Folded FoldResize(const Folding& folding) {
  const auto sizes = folding.List(3, "");
  const bool is_plain = folding.attributes.Find("axes") == nullptr &&
                        folding.attributes.Find("keep_aspect_ratio_policy") == nullptr;
  if (!sizes || !is_plain || sizes->size() != folding.Dims().size()) return NotKnown();
  for (const int64_t size : *sizes) {
    if (size < 1 || size > kLargestConstantExtent) return NotKnown();
  }
  OnnxConstant resized = Computed(folding, *sizes);
  resized.type = folding.In(0).type;
  resized.repeated = folding.In(0).repeated || folding.In(0).Elements() == 1;
  resized.numbers = std::min(folding.In(0).numbers, resized.numbers);
  return One(resized);
}

}  // namespace

const std::map<std::string, Rule>& AxisRules() {
  static const auto* const rules = new std::map<std::string, Rule>{
      {"Concat", FoldConcat},      {"Dropout", FoldSame},  {"Expand", FoldExpand},
      {"Flatten", FoldFlatten},    {"Gather", FoldGather}, {"GatherND", FoldGatherNd},
      {"Identity", FoldSame},      {"Pad", FoldPad},       {"Reshape", FoldReshape},
      {"Resize", FoldResize},      {"Slice", FoldSlice},   {"Split", FoldSplit},
      {"Squeeze", FoldSqueeze},    {"Tile", FoldTile},     {"Transpose", FoldTranspose},
      {"Unsqueeze", FoldUnsqueeze}};
  return *rules;
}

}  // namespace ucudnn::planner
