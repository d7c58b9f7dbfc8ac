#include "planner/graph/formats/onnx_constants.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>

namespace ucudnn::planner {
namespace {

using Sizes = std::vector<int64_t>;

constexpr int64_t kMostValues = 4096;
constexpr size_t kMostDimensions = 16;
// Above what any tensor has: products of two fit.
constexpr int64_t kLargestExtent = int64_t{1} << 40;

enum OnnxType { kFloat = 1, kInt32 = 6, kInt64 = 7, kBool = 9, kHalf = 10, kDouble = 11 };
constexpr int64_t kBfloat16 = 16;

bool IsReal(int64_t type) {
  return type == kFloat || type == kHalf || type == kDouble || (type >= kBfloat16 && type <= 20);
}

OnnxConstant Unknown() {
  OnnxConstant constant;
  constant.is_known = false;
  return constant;
}

// What is larger is not computed with, so that small files cannot take much memory.
OnnxConstant Bounded(OnnxConstant constant) {
  if (constant.dims.size() > kMostDimensions) return Unknown();
  __int128 product = 1;  // also of a part of the axes, where another one has no elements
  for (const int64_t extent : constant.dims) {
    if (extent < 0 || extent > kLargestExtent) return Unknown();
    product *= std::max<int64_t>(1, extent);
    if (product > std::numeric_limits<int64_t>::max()) return Unknown();
  }
  if (constant.values && static_cast<int64_t>(constant.values->size()) != constant.Elements()) {
    constant.values.reset();
  }
  if (constant.values && constant.values->size() > kMostValues) constant.values.reset();
  return constant;
}

template <typename Number>
std::optional<std::vector<double>> FromBytes(const std::string& bytes, int64_t count) {
  if (bytes.size() != static_cast<size_t>(count) * sizeof(Number)) return std::nullopt;
  std::vector<double> values;
  for (size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    values.push_back(static_cast<double>(number));
  }
  return values;
}

template <typename Number, typename Numbers>
std::optional<std::vector<double>> FromEither(const Numbers& numbers, const std::string& bytes,
                                              int64_t count) {
  if (numbers.empty()) return FromBytes<Number>(bytes, count);
  if (numbers.size() != count) return std::nullopt;
  return std::vector<double>(numbers.begin(), numbers.end());
}

// What the file of its own has for a tensor; empty where there is none in `folder` itself.
std::string ExternalBytes(const onnx::TensorProto& proto, const std::string& folder,
                          int64_t length) {
  std::string location;
  int64_t offset = 0;
  for (const onnx::StringStringEntryProto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      const char* const end = entry.value().data() + entry.value().size();
      const auto [at, error] = std::from_chars(entry.value().data(), end, offset);
      if (error != std::errc() || at != end || offset < 0) return {};
    }
  }
  const std::filesystem::path path = std::filesystem::path(folder) / location;
  std::error_code fault;
  if (folder.empty() || location.empty() || location.find('/') != std::string::npos ||
      !std::filesystem::is_regular_file(path, fault)) {
    return {};
  }
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(static_cast<size_t>(length), '\0');
  stream.seekg(offset);
  if (!stream.read(bytes.data(), length)) return {};
  return bytes;
}

int64_t Product(const Sizes& extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) product *= extent;
  return product;
}

// Of a tensor in row-major order.
Sizes StridesOf(const Sizes& dims) {
  Sizes strides(dims.size(), 1);
  for (size_t at = dims.size(); at-- > 1;) strides[at - 1] = strides[at] * dims[at];
  return strides;
}

// Visits all positions of `dims`, at most kMostValues.
template <typename Visit>
void ForEach(const Sizes& dims, Visit visit) {
  Sizes at(dims.size(), 0);
  for (int64_t left = Product(dims); left > 0; --left) {
    visit(at);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++at[axis] < dims[axis]) break;
      at[axis] = 0;
    }
  }
}

// The steps of a constant, or those that its values turn out to have. An axis of one position has
// the step 0.
std::optional<Sizes> StepsOf(const OnnxConstant& constant) {
  const auto numbers = constant.WholeNumbers();
  if (constant.steps || !numbers || numbers->empty()) return constant.steps;
  const Sizes strides = StridesOf(constant.dims);
  Sizes steps(strides.size(), 0);
  for (size_t axis = 0; axis < steps.size(); ++axis) {
    if (constant.dims[axis] > 1) steps[axis] = (*numbers)[static_cast<size_t>(strides[axis])];
  }
  bool is_sum = true;
  size_t next = 0;
  ForEach(constant.dims, [&](const Sizes& at) {
    __int128 sum = 0;
    for (size_t axis = 0; axis < at.size(); ++axis) sum += __int128{at[axis]} * steps[axis];
    is_sum = is_sum && sum == (*numbers)[next++];
  });
  return is_sum ? std::optional(steps) : std::nullopt;
}

// The steps of a + b, or of a x b where b is one number; `rank` is that of the result.
std::optional<Sizes> StepsOf(const std::string& type, const OnnxConstant& a, const OnnxConstant& b,
                             size_t rank) {
  const auto steps = StepsOf(a);
  const auto others = type == "Add" ? StepsOf(b) : b.WholeNumbers();
  if (!steps || !others || (type != "Add" && (type != "Mul" || others->size() != 1))) {
    return std::nullopt;
  }
  Sizes made(rank, 0);
  for (size_t axis = 0; axis < rank; ++axis) {  // from the last one
    int64_t& step = made[rank - 1 - axis];
    if (axis < steps->size()) step = (*steps)[steps->size() - 1 - axis];
    const bool overflows =
        type == "Mul"
            ? __builtin_mul_overflow(step, others->front(), &step)
            : axis < others->size() &&
                  __builtin_add_overflow(step, (*others)[others->size() - 1 - axis], &step);
    if (overflows) return std::nullopt;
  }
  return made;
}

// A tensor of `dims` whose element at each position is that of `from` at `place(position)`.
template <typename Place>
OnnxConstant Picked(const OnnxConstant& from, const Sizes& dims, Place place) {
  OnnxConstant picked = from;
  picked.dims = dims;
  picked.values.reset();
  picked.steps.reset();
  picked.tensor = -1;
  picked = Bounded(picked);
  if (!picked.is_known) return picked;
  picked.numbers = std::min(from.numbers, picked.Elements());  // copies are no numbers of their own
  picked.repeated = from.repeated || (from.Elements() == 1 && from.values && picked.Elements() > 1);
  if (!from.values || picked.Elements() > kMostValues) return picked;
  picked.values.emplace();
  const Sizes strides = StridesOf(from.dims);
  ForEach(dims, [&](const Sizes& at) {
    const Sizes source = place(at);
    int64_t position = 0;
    for (size_t axis = 0; axis < source.size(); ++axis) position += source[axis] * strides[axis];
    picked.values->push_back((*from.values)[static_cast<size_t>(position)]);
  });
  return picked;
}

struct Folding {
  const onnx::NodeProto& node;
  const std::vector<const OnnxConstant*>& inputs;
  int64_t opset;
  OnnxAttributes attributes;

  bool Has(size_t input) const { return input < inputs.size() && inputs[input] != nullptr; }
  const OnnxConstant& In(size_t input) const { return *inputs[input]; }
  const Sizes& Dims() const { return In(0).dims; }
  std::optional<Sizes> List(size_t input, const char* attribute) const {
    return ListOf(node, inputs, input, attribute);
  }
};
using Folded = std::vector<OnnxConstant>;
using Rule = Folded (*)(const Folding&);

Folded One(OnnxConstant constant) { return {std::move(constant)}; }

// Numbers that are computed: as many are trained as there are, whatever they come from.
OnnxConstant Computed(const Folding& folding, const Sizes& dims) {
  OnnxConstant made;
  made.dims = dims;
  made = Bounded(made);
  bool repeated = true;
  for (const OnnxConstant* input : folding.inputs) {
    if (input == nullptr) continue;
    made.is_real = made.is_real || input->is_real;
    repeated = repeated && (input->repeated || input->Elements() == 1);
  }
  made.repeated = repeated && made.is_known && made.Elements() != 1;
  made.numbers = std::max<int64_t>(0, made.Elements());
  return made;
}

// The same numbers in other axes.
Folded Seen(const Folding& folding, const std::optional<Sizes>& dims) {
  if (!dims) return One(Unknown());
  OnnxConstant seen = folding.In(0);
  seen.dims = *dims;
  if (seen.dims != folding.Dims()) seen.steps.reset();
  return One(Bounded(seen));
}

Folded FoldSame(const Folding& folding) { return Seen(folding, folding.Dims()); }

Folded FoldCast(const Folding& folding) {
  OnnxConstant cast = folding.In(0);
  const int64_t to = folding.attributes.Number("to", cast.is_real ? kFloat : kInt64);
  cast.is_real =
      folding.node.op_type() == "CastLike" && folding.Has(1) ? folding.In(1).is_real : IsReal(to);
  if (!cast.is_real && cast.values) {
    for (double& value : *cast.values) {
      value = to == kBool ? (value != 0 ? 1 : 0) : std::trunc(value);
    }
  }
  return One(cast);
}

Folded FoldUnary(const Folding& folding) {
  static const auto* const functions = new std::map<std::string, double (*)(double)>{
      {"Abs", [](double x) { return std::abs(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Floor", [](double x) { return std::floor(x); }},
      {"Log", [](double x) { return std::log(x); }},
      {"Neg", [](double x) { return -x; }},
      {"Not", [](double x) { return x == 0 ? 1.0 : 0.0; }},
      {"Reciprocal", [](double x) { return 1 / x; }},
      {"Round", [](double x) { return std::nearbyint(x); }},
      {"Sqrt", [](double x) { return std::sqrt(x); }}};
  OnnxConstant made = Computed(folding, folding.Dims());
  const auto function = functions->find(folding.node.op_type());
  if (function != functions->end() && folding.In(0).values) {
    made.values = *folding.In(0).values;
    for (double& value : *made.values) value = function->second(value);
  }
  return One(made);
}

double Apply(const std::string& type, bool real, double a, double b) {
  if (type == "Add" || type == "Sum") return a + b;
  if (type == "Sub") return a - b;
  if (type == "Mul") return a * b;
  if (type == "Div") return real ? a / b : (b == 0 ? std::nan("") : std::trunc(a / b));
  if (type == "Mod") return b == 0 ? std::nan("") : a - std::floor(a / b) * b;
  if (type == "Pow") return std::pow(a, b);
  if (type == "Min") return std::min(a, b);
  if (type == "Max") return std::max(a, b);
  if (type == "Equal") return a == b;
  if (type == "Less") return a < b;
  if (type == "LessOrEqual") return a <= b;
  if (type == "Greater") return a > b;
  if (type == "GreaterOrEqual") return a >= b;
  if (type == "And") return a != 0 && b != 0;
  if (type == "Or") return a != 0 || b != 0;
  return std::nan("");
}

bool GivesTruth(const std::string& type) {
  return type == "Equal" || type == "Less" || type == "LessOrEqual" || type == "Greater" ||
         type == "GreaterOrEqual" || type == "And" || type == "Or" || type == "Xor";
}

// The values of an input, repeated to `dims`.
std::optional<std::vector<double>> Spread(const OnnxConstant& constant, const Sizes& dims) {
  if (!constant.values) return std::nullopt;
  const size_t more = dims.size() - constant.dims.size();
  return Picked(constant, dims,
                [&](const Sizes& at) {
                  Sizes source(constant.dims.size());
                  for (size_t axis = 0; axis < source.size(); ++axis) {
                    source[axis] = constant.dims[axis] == 1 ? 0 : at[axis + more];
                  }
                  return source;
                })
      .values;
}

Folded FoldElementwise(const Folding& folding) {
  Sizes dims;
  for (const OnnxConstant* input : folding.inputs) {
    const auto met = Broadcast(dims, input->dims);
    if (!met) return One(Unknown());
    dims = *met;
  }
  OnnxConstant made = Computed(folding, dims);
  const std::string& type = folding.node.op_type();
  const bool is_choice = type == "Where";
  if (is_choice) made.is_real = folding.In(1).is_real;
  const auto count = static_cast<int64_t>(std::min<size_t>(folding.inputs.size(), kMostValues));
  if (made.is_known && made.Elements() * count <= 4 * kMostValues) {
    std::vector<std::vector<double>> rows;
    for (const OnnxConstant* input : folding.inputs) {
      if (auto values = Spread(*input, dims)) rows.push_back(std::move(*values));
    }
    if (rows.size() == folding.inputs.size() && !rows.empty()) {
      made.values = rows[is_choice ? 2 : 0];
      for (size_t at = 0; at < made.values->size(); ++at) {
        double& value = (*made.values)[at];
        if (is_choice) {
          if (rows[0][at] != 0) value = rows[1][at];
          continue;
        }
        for (size_t row = 1; row < rows.size(); ++row) {
          value = Apply(type, made.is_real, value, rows[row][at]);
        }
      }
    }
  }
  if (!made.values && made.is_known && folding.inputs.size() == 2) {
    made.steps = StepsOf(type, folding.In(0), folding.In(1), dims.size());
    if (!made.steps) made.steps = StepsOf(type, folding.In(1), folding.In(0), dims.size());
  }
  if (GivesTruth(type)) made.is_real = false;
  return One(made);
}

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
  if (sorted != every) return One(Unknown());
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
  if (!to) return One(Unknown());
  return Seen(folding,
              ReshapedExtents(folding.Dims(), *to, folding.attributes.Number("allowzero", 0) != 0));
}

Folded FoldFlatten(const Folding& folding) {
  const Sizes& dims = folding.Dims();
  const int64_t given = folding.attributes.Number("axis", 1);
  const auto axis =
      given == static_cast<int64_t>(dims.size()) ? dims.size() : AxisOf(given, dims.size());
  if (!axis) return One(Unknown());
  const auto middle = dims.begin() + static_cast<std::ptrdiff_t>(*axis);
  return Seen(folding, Sizes{Product({dims.begin(), middle}), Product({middle, dims.end()})});
}

Folded FoldSqueeze(const Folding& folding) {
  const auto axes = folding.List(1, "axes");
  const Sizes& dims = folding.Dims();
  if (!axes) return One(Unknown());
  std::vector<bool> gone(dims.size(), false);
  for (size_t axis = 0; axes->empty() && axis < dims.size(); ++axis) gone[axis] = dims[axis] == 1;
  for (const int64_t given : *axes) {
    const auto axis = AxisOf(given, dims.size());
    if (!axis || dims[*axis] != 1) return One(Unknown());
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
  if (!axes) return One(Unknown());
  const size_t rank = folding.Dims().size() + axes->size();
  std::vector<bool> is_new(rank, false);
  for (const int64_t given : *axes) {
    const auto axis = AxisOf(given, rank);
    if (!axis || is_new[*axis]) return One(Unknown());
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
  if (!dims) return One(Unknown());
  const OnnxConstant& from = folding.In(0);
  if (*dims == from.dims) return FoldSame(folding);
  const size_t more = dims->size() - from.dims.size();
  return One(Picked(from, *dims, [&](const Sizes& at) {
    Sizes source(from.dims.size());
    for (size_t axis = 0; axis < source.size(); ++axis) {
      source[axis] = from.dims[axis] == 1 ? 0 : at[axis + more];
    }
    return source;
  }));
}

Folded FoldTile(const Folding& folding) {
  const auto repeats = folding.List(1, "repeats");
  Sizes dims = folding.Dims();
  if (!repeats || repeats->size() != dims.size()) return One(Unknown());
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if ((*repeats)[axis] < 0 || (*repeats)[axis] > kLargestExtent ||
        (dims[axis] > 0 && (*repeats)[axis] > kLargestExtent / dims[axis])) {
      return One(Unknown());
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
  if (!axis) return One(Unknown());
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
    return One(Unknown());
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
  if (!starts || !ends || !axes || !steps || starts->size() != ends->size()) return One(Unknown());
  if (axes->empty()) {
    axes->resize(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  if (axes->size() != starts->size() || !(steps->empty() || steps->size() == starts->size())) {
    return One(Unknown());
  }
  Sizes dims = folding.Dims();
  std::vector<SlicedAxis> sliced;
  for (const int64_t extent : dims) sliced.push_back({0, 1, extent});
  for (size_t i = 0; i < axes->size(); ++i) {
    const auto axis = AxisOf((*axes)[i], dims.size());
    const int64_t step = steps->empty() ? 1 : (*steps)[i];
    if (!axis || step == 0) return One(Unknown());
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
  if (!axis) return One(Unknown());
  OnnxConstant made = Computed(folding, folding.Dims());
  made.dims[*axis] = 0;
  made.repeated = false;
  made.numbers = 0;
  for (const OnnxConstant* input : folding.inputs) {
    Sizes rest = input->dims;
    if (rest.size() != made.dims.size()) return One(Unknown());
    made.dims[*axis] += rest[*axis];
    made.numbers += input->numbers;
    rest[*axis] = made.dims[*axis];
    if (rest != made.dims) return One(Unknown());
  }
  made = Bounded(made);
  if (!made.is_known || made.Elements() > kMostValues) return One(made);
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
  if (!pads || !axes) return One(Unknown());
  const size_t count = axes->empty() ? dims.size() : axes->size();
  if (pads->size() != 2 * count) return One(Unknown());
  for (size_t i = 0; i < count; ++i) {
    const auto axis = AxisOf(axes->empty() ? static_cast<int64_t>(i) : (*axes)[i], dims.size());
    if (!axis) return One(Unknown());
    for (const int64_t more : {(*pads)[i], (*pads)[i + count]}) {
      if (more < -kLargestExtent || more > kLargestExtent) return One(Unknown());
      dims[*axis] += more;
    }
  }
  OnnxConstant padded = Computed(folding, dims);
  padded.repeated = false;
  padded.numbers = std::min(folding.In(0).numbers, padded.numbers);
  return One(padded);
}

Folded FoldMatMul(const Folding& folding) {
  Sizes a = folding.Dims();
  Sizes b = folding.In(1).dims;
  if (a.empty() || b.empty()) return One(Unknown());
  const bool is_row = a.size() == 1;
  const bool is_column = b.size() == 1;
  if (is_row) a.insert(a.begin(), 1);
  if (is_column) b.push_back(1);
  if (a.back() != b[b.size() - 2]) return One(Unknown());
  auto dims = Broadcast({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (!dims) return One(Unknown());
  if (!is_row) dims->push_back(a[a.size() - 2]);
  if (!is_column) dims->push_back(b.back());
  return One(Computed(folding, *dims));
}

Folded FoldGemm(const Folding& folding) {
  const Sizes& a = folding.Dims();
  const Sizes& b = folding.In(1).dims;
  if (a.size() != 2 || b.size() != 2) return One(Unknown());
  const bool turn_a = folding.attributes.Number("transA", 0) != 0;
  const bool turn_b = folding.attributes.Number("transB", 0) != 0;
  if (a[turn_a ? 0 : 1] != b[turn_b ? 1 : 0]) return One(Unknown());
  return One(Computed(folding, {a[turn_a ? 1 : 0], b[turn_b ? 0 : 1]}));
}

// Of tensors whose axes are single letters.
Folded FoldEinsum(const Folding& folding) {
  std::string equation = folding.attributes.Text("equation");
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find('.') != std::string::npos) {
    return One(Unknown());
  }
  std::map<char, int64_t> extents;
  size_t at = 0;
  for (const OnnxConstant* input : folding.inputs) {
    const size_t end = std::min(equation.find(',', at), arrow);
    if (at > end || end - at != input->dims.size()) return One(Unknown());
    for (const int64_t extent : input->dims) extents[equation[at++]] = extent;
    ++at;
  }
  Sizes dims;
  for (const char letter : equation.substr(arrow + 2)) {
    const auto found = extents.find(letter);
    if (found == extents.end()) return One(Unknown());
    dims.push_back(found->second);
  }
  return One(Computed(folding, dims));
}

Folded FoldConstantOfShape(const Folding& folding) {
  const auto dims = folding.List(0, "");
  if (!dims) return One(Unknown());
  OnnxConstant made;
  made.dims = *dims;
  made.repeated = true;
  made = Bounded(made);
  double value = 0;
  const auto* given = folding.attributes.Find("value");
  made.is_real = given == nullptr || IsReal(given->t().data_type());
  if (given != nullptr) {
    const OnnxConstant read = ReadConstant(given->t(), -1);
    value = read.values && read.values->size() == 1 ? read.values->front() : std::nan("");
  }
  if (made.is_known && made.Elements() <= kMostValues) {
    made.values.emplace(static_cast<size_t>(made.Elements()), value);
  }
  return One(made);
}

Folded FoldRange(const Folding& folding) {
  for (size_t input = 0; input < 3; ++input) {
    if (!folding.Has(input) || !folding.In(input).values || folding.In(input).values->size() != 1) {
      return One(Unknown());
    }
  }
  const double start = folding.In(0).values->front();
  const double limit = folding.In(1).values->front();
  const double delta = folding.In(2).values->front();
  const double count = std::ceil((limit - start) / delta);
  if (!(std::abs(count) < static_cast<double>(kLargestExtent))) return One(Unknown());
  OnnxConstant made;
  made.dims = {std::max<int64_t>(0, static_cast<int64_t>(count))};
  made.is_real = folding.In(0).is_real;
  if (made.dims[0] <= kMostValues) {
    made.values.emplace();
    for (int64_t i = 0; i < made.dims[0]; ++i) {
      made.values->push_back(start + static_cast<double>(i) * delta);
    }
  } else if (start == 0 && delta == std::floor(delta) && std::abs(delta) < kLargestExtent) {
    made.steps = Sizes{static_cast<int64_t>(delta)};
  }
  return One(made);
}

double Reduce(const std::string& type, const std::vector<double>& values) {
  double result = type == "ReduceProd" ? 1 : 0;
  if (type == "ReduceMax") return *std::max_element(values.begin(), values.end());
  if (type == "ReduceMin") return *std::min_element(values.begin(), values.end());
  for (const double value : values) {
    if (type == "ReduceProd") {
      result *= value;
    } else if (type == "ReduceL1") {
      result += std::abs(value);
    } else {
      result += type == "ReduceL2" || type == "ReduceSumSquare" ? value * value : value;
    }
  }
  if (type == "ReduceMean") result /= static_cast<double>(values.size());
  if (type == "ReduceL2") result = std::sqrt(result);
  return result;
}

Folded FoldReduce(const Folding& folding) {
  const Sizes& dims = folding.Dims();
  const auto axes = folding.List(1, "axes");
  if (!axes) return One(Unknown());
  if (axes->empty() && folding.attributes.Number("noop_with_empty_axes", 0) != 0) {
    return One(folding.In(0));
  }
  std::vector<bool> reduced(dims.size(), axes->empty());
  for (const int64_t given : *axes) {
    const auto axis = AxisOf(given, dims.size());
    if (!axis) return One(Unknown());
    reduced[*axis] = true;
  }
  const bool keeps = folding.attributes.Number("keepdims", 1) != 0;
  Sizes ones = dims;
  Sizes left;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (reduced[axis]) ones[axis] = 1;
    if (!reduced[axis] || keeps) left.push_back(ones[axis]);
  }
  OnnxConstant made = Computed(folding, left);
  const OnnxConstant& from = folding.In(0);
  if (made.is_known && from.values && !from.values->empty()) {
    std::vector<std::vector<double>> groups(
        static_cast<size_t>(std::max<int64_t>(0, Product(ones))));
    const Sizes strides = StridesOf(ones);
    size_t next = 0;
    ForEach(dims, [&](const Sizes& at) {
      int64_t group = 0;
      for (size_t axis = 0; axis < at.size(); ++axis) {
        if (!reduced[axis]) group += at[axis] * strides[axis];
      }
      groups[static_cast<size_t>(group)].push_back((*from.values)[next++]);
    });
    made.values.emplace();
    for (const auto& group : groups) made.values->push_back(Reduce(folding.node.op_type(), group));
  }
  return One(made);
}

// Tensors of one type as another: integers become reals and back.
Folded FoldQuantization(const Folding& folding) {
  OnnxConstant made = Computed(folding, folding.Dims());
  made.is_real = folding.node.op_type() == "DequantizeLinear";
  return One(made);
}

const std::map<std::string, Rule>& Rules() {
  static const auto* const rules = [] {
    auto* made = new std::map<std::string, Rule>{{"Cast", FoldCast},
                                                 {"CastLike", FoldCast},
                                                 {"Concat", FoldConcat},
                                                 {"ConstantOfShape", FoldConstantOfShape},
                                                 {"DequantizeLinear", FoldQuantization},
                                                 {"Dropout", FoldSame},
                                                 {"Einsum", FoldEinsum},
                                                 {"Expand", FoldExpand},
                                                 {"Flatten", FoldFlatten},
                                                 {"Gather", FoldGather},
                                                 {"GatherND", FoldGatherNd},
                                                 {"Gemm", FoldGemm},
                                                 {"Identity", FoldSame},
                                                 {"MatMul", FoldMatMul},
                                                 {"Pad", FoldPad},
                                                 {"QuantizeLinear", FoldQuantization},
                                                 {"Range", FoldRange},
                                                 {"Reshape", FoldReshape},
                                                 {"Slice", FoldSlice},
                                                 {"Split", FoldSplit},
                                                 {"Squeeze", FoldSqueeze},
                                                 {"Tile", FoldTile},
                                                 {"Transpose", FoldTranspose},
                                                 {"Unsqueeze", FoldUnsqueeze},
                                                 {"Where", FoldElementwise}};
    for (const char* type :
         {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max",
          "Min", "Mod", "Mul", "Or", "Pow", "Sub", "Sum", "Xor"}) {
      (*made)[type] = FoldElementwise;
    }
    for (const char* type :
         {"Abs",       "Ceil", "Clip", "Cos",     "Erf",        "Exp",  "Floor",
          "LeakyRelu", "Log",  "Neg",  "Not",     "Reciprocal", "Relu", "Round",
          "Sigmoid",   "Sign", "Sin",  "Softmax", "Softplus",   "Sqrt", "Tanh"}) {
      (*made)[type] = FoldUnary;
    }
    for (const char* type : {"ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin",
                             "ReduceProd", "ReduceSum", "ReduceSumSquare"}) {
      (*made)[type] = FoldReduce;
    }
    return made;
  }();
  return *rules;
}

}  // namespace

int64_t OnnxConstant::Elements() const {
  __int128 count = 1;
  for (const int64_t extent : dims) {
    if (extent < 0) return -1;
    count *= extent;
    if (count > std::numeric_limits<int64_t>::max()) return -1;
  }
  return static_cast<int64_t>(count);
}

std::optional<std::vector<int64_t>> OnnxConstant::WholeNumbers() const {
  if (!values) return std::nullopt;
  constexpr double kLargest = 9.2e18;
  std::vector<int64_t> numbers;
  for (const double value : *values) {
    if (!(std::abs(value) <= kLargest) || value != std::floor(value)) {
      // Slices to the end say so by the largest number there is, to the beginning by the smallest.
      if (!(std::abs(value) > kLargest)) return std::nullopt;
      numbers.push_back(value > 0 ? std::numeric_limits<int64_t>::max()
                                  : std::numeric_limits<int64_t>::min());
    } else {
      numbers.push_back(static_cast<int64_t>(value));
    }
  }
  return numbers;
}

bool OnnxConstant::CountsUp() const {
  const auto own = StepsOf(*this);
  const Sizes strides = StridesOf(dims);
  bool counts = own.has_value();
  for (size_t axis = 0; counts && axis < dims.size(); ++axis) {
    counts = dims[axis] == 1 || (*own)[axis] == strides[axis];
  }
  return counts;
}

OnnxConstant ReadConstant(const onnx::TensorProto& proto, int tensor, const std::string& folder) {
  OnnxConstant constant;
  constant.dims.assign(proto.dims().begin(), proto.dims().end());
  constant.is_real = IsReal(proto.data_type());
  constant.tensor = tensor;
  constant = Bounded(constant);
  constant.numbers = std::max<int64_t>(0, constant.Elements());
  const int64_t count = constant.Elements();
  if (!constant.is_known || count > kMostValues) return constant;
  if (proto.external_data_size() > 0) {
    if (proto.data_type() == kInt64) {
      constant.values = FromBytes<int64_t>(ExternalBytes(proto, folder, 8 * count), count);
    }
    return constant;
  }
  switch (proto.data_type()) {
    case kFloat:
      constant.values = FromEither<float>(proto.float_data(), proto.raw_data(), count);
      break;
    case kInt32:
      constant.values = FromEither<int32_t>(proto.int32_data(), proto.raw_data(), count);
      break;
    case kBool:
      constant.values = FromEither<int8_t>(proto.int32_data(), proto.raw_data(), count);
      break;
    case kInt64:
      constant.values = FromEither<int64_t>(proto.int64_data(), proto.raw_data(), count);
      break;
    case kDouble:
      constant.values = FromEither<double>(proto.double_data(), proto.raw_data(), count);
      break;
    default:
      break;
  }
  return constant;
}

OnnxConstant ReadSparseConstant(const onnx::SparseTensorProto& sparse, int tensor) {
  OnnxConstant constant;
  constant.dims.assign(sparse.dims().begin(), sparse.dims().end());
  constant.is_real = IsReal(sparse.values().data_type());
  constant.tensor = tensor;
  constant = Bounded(constant);
  constant.numbers = std::max<int64_t>(0, constant.Elements());
  const OnnxConstant values = ReadConstant(sparse.values(), -1);
  const auto places = ReadConstant(sparse.indices(), -1).WholeNumbers();
  if (!constant.is_known || constant.numbers > kMostValues || !values.values || !places) {
    return constant;
  }
  // One place for each value, or one along each axis.
  const size_t rank = places->size() == values.values->size() ? 1 : constant.dims.size();
  if (places->size() != rank * values.values->size()) return constant;
  const Sizes strides = StridesOf(rank == 1 ? Sizes{constant.numbers} : constant.dims);
  std::vector<double> dense(static_cast<size_t>(constant.numbers), 0);
  for (size_t at = 0; at < values.values->size(); ++at) {
    int64_t place = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t index = (*places)[at * rank + axis];
      if (index < 0 || index >= constant.numbers) return constant;
      place += index * strides[axis];
    }
    if (place >= constant.numbers) return constant;
    dense[static_cast<size_t>(place)] = (*values.values)[at];
  }
  constant.values = std::move(dense);
  return constant;
}

OnnxConstant ReadConstantNode(const onnx::NodeProto& node, int tensor, const std::string& folder) {
  const OnnxAttributes attributes(node);
  const auto made = [&](Sizes dims, std::vector<double> values, bool real) {
    OnnxConstant constant;
    constant.dims = std::move(dims);
    constant.values = std::move(values);
    constant.is_real = real;
    constant.tensor = tensor;
    constant.numbers = std::max<int64_t>(0, constant.Elements());
    return Bounded(constant);
  };
  if (const auto* value = attributes.Find("value")) return ReadConstant(value->t(), tensor, folder);
  if (const auto* value = attributes.Find("value_int")) {
    return made({}, {static_cast<double>(value->i())}, false);
  }
  if (const auto* value = attributes.Find("value_float")) return made({}, {value->f()}, true);
  if (const auto* value = attributes.Find("value_ints")) {
    return made({value->ints_size()}, {value->ints().begin(), value->ints().end()}, false);
  }
  if (const auto* value = attributes.Find("value_floats")) {
    return made({value->floats_size()}, {value->floats().begin(), value->floats().end()}, true);
  }
  if (const auto* value = attributes.Find("sparse_value")) {
    return ReadSparseConstant(value->sparse_tensor(), tensor);
  }
  return Unknown();
}

OnnxConstant ShapeConstant(const onnx::NodeProto& node, const std::vector<int64_t>& extents) {
  const OnnxAttributes attributes(node);
  OnnxConstant made;
  if (node.op_type() == "Size") {
    double size = 1;
    for (const int64_t extent : extents) size *= static_cast<double>(extent);
    made.values = {size};
    return made;
  }
  const auto rank = static_cast<int64_t>(extents.size());
  const SlicedAxis part = SliceOf(rank, attributes.Number("start", 0),
                                  attributes.Number("end", std::numeric_limits<int64_t>::max()), 1);
  made.dims = {part.count};
  made.values.emplace(extents.begin() + part.begin, extents.begin() + part.begin + part.count);
  return Bounded(made);
}

std::vector<OnnxConstant> FoldConstants(const onnx::NodeProto& node,
                                        const std::vector<const OnnxConstant*>& inputs,
                                        int64_t opset) {
  const auto outputs = static_cast<size_t>(node.output_size());
  std::vector<OnnxConstant> folded(outputs, Unknown());
  const auto rule = Rules().find(node.op_type());
  const bool is_ours = node.domain().empty() || node.domain() == "ai.onnx";
  if (rule == Rules().end() || !is_ours || inputs.empty()) return folded;
  static const auto* const least =
      new std::map<std::string, size_t>{{"Expand", 2}, {"Gather", 2}, {"GatherND", 2}, {"Gemm", 2},
                                        {"MatMul", 2}, {"Range", 3},  {"Where", 3}};
  const auto found = least->find(node.op_type());
  const size_t needed = found == least->end() ? 1 : found->second;
  if (inputs.size() < needed) return folded;
  for (size_t input = 0; input < inputs.size(); ++input) {
    const bool is_absent = inputs[input] == nullptr;
    if (is_absent ? input < needed || rule->second == FoldElementwise : !inputs[input]->is_known) {
      return folded;
    }
  }
  Folded made = rule->second({node, inputs, opset, OnnxAttributes(node)});
  std::move(made.begin(),
            made.begin() + static_cast<std::ptrdiff_t>(std::min(made.size(), outputs)),
            folded.begin());
  return folded;
}

std::optional<std::vector<int64_t>> Broadcast(std::vector<int64_t> a, std::vector<int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  a.insert(a.begin(), rank - a.size(), 1);
  b.insert(b.begin(), rank - b.size(), 1);
  for (size_t axis = 0; axis < rank; ++axis) {
    if (a[axis] == 1) a[axis] = b[axis];
    if (b[axis] != 1 && b[axis] != a[axis]) return std::nullopt;
  }
  return a;
}

SlicedAxis SliceOf(int64_t extent, int64_t start, int64_t end, int64_t step) {
  const auto bounded = [&](int64_t at, int64_t low, int64_t high) {
    if (at < 0) at = std::max(at, -extent - 1) + extent;
    return std::clamp(at, low, high);
  };
  SlicedAxis sliced;
  sliced.step = step;
  if (extent < 1) return sliced;
  if (step > 0) {
    sliced.begin = bounded(start, 0, extent);
    const int64_t length = bounded(end, 0, extent) - sliced.begin;
    sliced.count = length <= 0 ? 0 : (length - 1) / step + 1;
  } else {
    sliced.begin = bounded(start, 0, extent - 1);
    const int64_t length = sliced.begin - bounded(end, -1, extent - 1);
    const int64_t back = step == std::numeric_limits<int64_t>::min() ? step + 1 : step;
    sliced.count = length <= 0 ? 0 : (length - 1) / -back + 1;
  }
  return sliced;
}

std::optional<std::vector<int64_t>> ListOf(const onnx::NodeProto& node,
                                           const std::vector<const OnnxConstant*>& inputs,
                                           size_t input, const std::string& attribute) {
  if (input < inputs.size() && inputs[input] != nullptr) {
    return inputs[input]->is_known ? inputs[input]->WholeNumbers() : std::nullopt;
  }
  const bool is_computed = input < static_cast<size_t>(node.input_size()) &&
                           !node.input(static_cast<int>(input)).empty();
  if (is_computed) return std::nullopt;
  return OnnxAttributes(node).Numbers(attribute);
}

std::optional<std::vector<int64_t>> ReshapedExtents(const std::vector<int64_t>& from,
                                                    std::vector<int64_t> to, bool zero_is_zero) {
  __int128 all = 1;
  for (const int64_t extent : from) all *= extent;
  __int128 known = 1;
  size_t open = to.size();
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (to[axis] == 0 && !zero_is_zero) {
      if (axis >= from.size()) return std::nullopt;
      to[axis] = from[axis];
    }
    if (to[axis] == -1 && open == to.size()) {
      open = axis;
      continue;
    }
    if (to[axis] < 0 || to[axis] > kLargestExtent) return std::nullopt;
    known *= to[axis];
    if (known > (__int128{1} << 62)) return std::nullopt;
  }
  if (open < to.size()) {
    if (known == 0 || all % known != 0) return std::nullopt;
    to[open] = static_cast<int64_t>(all / known);
    known = all;
  }
  if (known != all) return std::nullopt;
  return to;
}

std::optional<std::vector<int64_t>> SplitExtents(const onnx::NodeProto& node, int64_t extent,
                                                 const std::optional<std::vector<int64_t>>& list) {
  if (!list) return std::nullopt;
  std::vector<int64_t> parts = *list;
  if (parts.empty()) {
    const int64_t count = std::max<int64_t>(
        1, OnnxAttributes(node).Number("num_outputs", int64_t{node.output_size()}));
    const int64_t whole = extent / count + (extent % count > 0 ? 1 : 0);
    for (int64_t at = 0; at < extent && parts.size() < static_cast<size_t>(node.output_size());
         at += whole) {
      parts.push_back(std::min(whole, extent - at));
    }
  }
  int64_t all = 0;
  for (const int64_t part : parts) {
    if (part < 0 || part > extent) return std::nullopt;
    all += part;
  }
  if (all != extent || parts.size() != static_cast<size_t>(node.output_size())) return std::nullopt;
  return parts;
}

std::optional<size_t> AxisOf(int64_t axis, size_t rank) {
  const auto count = static_cast<int64_t>(rank);
  if (axis < -count || axis >= count) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

}  // namespace ucudnn::planner
