#include "planner/graph/formats/onnx_folding.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "planner/graph/formats/onnx_folding_rules.h"

namespace ucudnn::planner {
namespace {

// Returns the steps of a constant (OnnxConstant::steps), computed from its values if needed. The
// step of an axis of extent 1 is 0.
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

// Returns the steps of a + b, or of a * b if b is one number, for a result of `rank` axes.
std::optional<Sizes> StepsOf(const std::string& type, const OnnxConstant& a, const OnnxConstant& b,
                             size_t rank) {
  const auto steps = StepsOf(a);
  const auto others = type == "Add" ? StepsOf(b) : b.WholeNumbers();
  if (!steps || !others || (type != "Add" && (type != "Mul" || others->size() != 1))) {
    return std::nullopt;
  }
  Sizes made(rank, 0);
  for (size_t axis = 0; axis < rank; ++axis) {  // `axis` counts from the last axis
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

Folded FoldCast(const Folding& folding) {
  OnnxConstant cast = folding.In(0);
  const bool is_like = folding.node.op_type() == "CastLike" && folding.Has(1);
  cast.type = is_like ? folding.In(1).type : folding.attributes.Number("to", cast.type);
  if (!cast.IsReal() && cast.values) {
    for (double& value : *cast.values) {
      value = cast.type == kBool ? (value != 0 ? 1 : 0) : std::trunc(value);
    }
  }
  return One(Bounded(cast));
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
  return One(Bounded(made));
}

// Clips values between two bounds, which are inputs, or attributes below opset 11.
Folded FoldClip(const Folding& folding) {
  OnnxConstant made = Computed(folding, folding.Dims());
  made.type = folding.In(0).type;
  const auto bound = [&](size_t input, const char* attribute,
                         double none) -> std::optional<double> {
    if (!folding.Has(input)) return folding.attributes.Real(attribute, none);
    const auto& values = folding.In(input).values;
    return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
  };
  const auto least = bound(1, "min", -std::numeric_limits<double>::infinity());
  const auto most = bound(2, "max", std::numeric_limits<double>::infinity());
  if (!folding.In(0).values || !least || !most) return One(made);
  made.values = *folding.In(0).values;
  for (double& value : *made.values) value = std::min(std::max(value, *least), *most);
  return One(Bounded(made));
}

using OfTwo = double (*)(double, double);

// Returns the function that computes an element; null if elements of this operator are not
// computed.
OfTwo FunctionOf(const Folding& folding, bool is_real) {
  static const auto* const functions = new std::map<std::string, OfTwo>{
      {"Add", [](double a, double b) { return a + b; }},
      {"And", [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
      {"Div", [](double a, double b) { return a / b; }},
      {"Equal", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
      {"Greater", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
      {"GreaterOrEqual", [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
      {"Less", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
      {"LessOrEqual", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
      {"Max", [](double a, double b) { return std::max(a, b); }},
      {"Min", [](double a, double b) { return std::min(a, b); }},
      {"Mod", [](double a, double b) { return a - std::floor(a / b) * b; }},
      {"Mul", [](double a, double b) { return a * b; }},
      {"Or", [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
      {"Pow", [](double a, double b) { return std::pow(a, b); }},
      {"Sub", [](double a, double b) { return a - b; }},
      {"Sum", [](double a, double b) { return a + b; }},
      {"Xor", [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }}};
  const std::string& type = folding.node.op_type();
  if (type == "Div" && !is_real) return [](double a, double b) { return std::trunc(a / b); };
  if (type == "Mod" && folding.attributes.Number("fmod", 0) != 0) return std::fmod;
  const auto found = functions->find(type);
  return found == functions->end() ? nullptr : found->second;
}

bool GivesTruth(const std::string& type) {
  return type == "Equal" || type == "Less" || type == "LessOrEqual" || type == "Greater" ||
         type == "GreaterOrEqual" || type == "And" || type == "Or" || type == "Xor";
}

Folded FoldElementwise(const Folding& folding) {
  Sizes dims;
  for (const OnnxConstant* input : folding.inputs) {
    const auto met = Broadcast(dims, input->dims);
    if (!met) return NotKnown();
    dims = *met;
  }
  OnnxConstant made = Computed(folding, dims);
  const std::string& type = folding.node.op_type();
  const bool is_choice = type == "Where";
  const OfTwo function = FunctionOf(folding, made.IsReal());
  if (is_choice) made.type = folding.In(1).type;
  if (GivesTruth(type)) made.type = kBool;
  const auto count =
      static_cast<int64_t>(std::min<size_t>(folding.inputs.size(), kMostConstantValues));
  if ((is_choice || function != nullptr) && made.is_known &&
      made.Elements() * count <= 4 * kMostConstantValues) {
    std::vector<std::vector<double>> rows;
    for (const OnnxConstant* input : folding.inputs) {
      if (auto values = Repeated(*input, dims).values) rows.push_back(std::move(*values));
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
          value = function(value, rows[row][at]);
        }
      }
    }
  }
  if (!made.values && made.is_known && folding.inputs.size() == 2) {
    made.steps = StepsOf(type, folding.In(0), folding.In(1), dims.size());
    if (!made.steps) made.steps = StepsOf(type, folding.In(1), folding.In(0), dims.size());
  }
  return One(Bounded(made));
}

Folded FoldMatMul(const Folding& folding) {
  Sizes a = folding.Dims();
  Sizes b = folding.In(1).dims;
  if (a.empty() || b.empty()) return NotKnown();
  const bool is_row = a.size() == 1;
  const bool is_column = b.size() == 1;
  if (is_row) a.insert(a.begin(), 1);
  if (is_column) b.push_back(1);
  if (a.back() != b[b.size() - 2]) return NotKnown();
  auto dims = Broadcast({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (!dims) return NotKnown();
  if (!is_row) dims->push_back(a[a.size() - 2]);
  if (!is_column) dims->push_back(b.back());
  return One(Computed(folding, *dims));
}

Folded FoldGemm(const Folding& folding) {
  const Sizes& a = folding.Dims();
  const Sizes& b = folding.In(1).dims;
  if (a.size() != 2 || b.size() != 2) return NotKnown();
  const bool turn_a = folding.attributes.Number("transA", 0) != 0;
  const bool turn_b = folding.attributes.Number("transB", 0) != 0;
  if (a[turn_a ? 0 : 1] != b[turn_b ? 1 : 0]) return NotKnown();
  return One(Computed(folding, {a[turn_a ? 1 : 0], b[turn_b ? 0 : 1]}));
}

// Computes the extents of the result from the equation, if all axes are single letters and there is
// no ellipsis.
Folded FoldEinsum(const Folding& folding) {
  std::string equation = folding.attributes.Text("equation");
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find('.') != std::string::npos) {
    return NotKnown();
  }
  std::map<char, int64_t> extents;
  size_t at = 0;
  for (const OnnxConstant* input : folding.inputs) {
    const size_t end = std::min(equation.find(',', at), arrow);
    if (at > end || end - at != input->dims.size()) return NotKnown();
    for (const int64_t extent : input->dims) extents[equation[at++]] = extent;
    ++at;
  }
  Sizes dims;
  for (const char letter : equation.substr(arrow + 2)) {
    const auto found = extents.find(letter);
    if (found == extents.end()) return NotKnown();
    dims.push_back(found->second);
  }
  return One(Computed(folding, dims));
}

Folded FoldConstantOfShape(const Folding& folding) {
  const auto dims = folding.List(0, "");
  if (!dims) return NotKnown();
  OnnxConstant made;
  made.dims = *dims;
  made.repeated = true;
  made = Bounded(made);
  double value = 0;
  const auto* given = folding.attributes.Find("value");
  made.type = given == nullptr ? kFloat : given->t().data_type();
  if (given != nullptr) {
    const OnnxConstant read = ReadConstant(given->t(), -1);
    value = read.values && read.values->size() == 1 ? read.values->front() : std::nan("");
  }
  if (made.is_known && made.Elements() <= kMostConstantValues) {
    made.values.emplace(static_cast<size_t>(made.Elements()), value);
  }
  return One(made);
}

// The result has a new axis of `depth` positions; its values are not computed.
Folded FoldOneHot(const Folding& folding) {
  const auto depth = folding.List(1, "");
  Sizes dims = folding.Dims();
  const auto axis = AxisOf(folding.attributes.Number("axis", -1), dims.size() + 1);
  if (!depth || depth->size() != 1 || !axis) return NotKnown();
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(*axis), depth->front());
  OnnxConstant made = Computed(folding, dims);
  made.type = folding.In(2).type;
  made.repeated = false;
  return One(made);
}

Folded FoldRange(const Folding& folding) {
  for (size_t input = 0; input < 3; ++input) {
    if (!folding.Has(input) || !folding.In(input).values || folding.In(input).values->size() != 1) {
      return NotKnown();
    }
  }
  const double start = folding.In(0).values->front();
  const double limit = folding.In(1).values->front();
  const double delta = folding.In(2).values->front();
  const double count = std::ceil((limit - start) / delta);
  if (!(std::abs(count) < static_cast<double>(kLargestConstantExtent))) return NotKnown();
  OnnxConstant made;
  made.dims = {std::max<int64_t>(0, static_cast<int64_t>(count))};
  made.type = folding.In(0).type;
  if (made.dims[0] <= kMostConstantValues) {
    made.values.emplace();
    for (int64_t i = 0; i < made.dims[0]; ++i) {
      made.values->push_back(start + static_cast<double>(i) * delta);
    }
  } else if (start == 0 && delta == std::floor(delta) && std::abs(delta) < kLargestConstantExtent) {
    made.steps = Sizes{static_cast<int64_t>(delta)};
  }
  return One(Bounded(made));
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
  if (!axes) return NotKnown();
  if (axes->empty() && folding.attributes.Number("noop_with_empty_axes", 0) != 0) {
    return One(folding.In(0));
  }
  std::vector<bool> reduced(dims.size(), axes->empty());
  for (const int64_t given : *axes) {
    const auto axis = AxisOf(given, dims.size());
    if (!axis) return NotKnown();
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
  return One(Bounded(made));
}

// Changes the type from integers to floats or back; the values are not computed.
Folded FoldQuantization(const Folding& folding) {
  OnnxConstant made = Computed(folding, folding.Dims());
  made.type = folding.node.op_type() == "DequantizeLinear" ? kFloat : kInt8;
  return One(made);
}

const std::map<std::string, Rule>& Rules() {
  static const auto* const rules = [] {
    auto* made = new std::map<std::string, Rule>(AxisRules());
    made->insert({{"Cast", FoldCast},
                  {"CastLike", FoldCast},
                  {"Clip", FoldClip},
                  {"ConstantOfShape", FoldConstantOfShape},
                  {"DequantizeLinear", FoldQuantization},
                  {"Einsum", FoldEinsum},
                  {"Gemm", FoldGemm},
                  {"MatMul", FoldMatMul},
                  {"OneHot", FoldOneHot},
                  {"QuantizeLinear", FoldQuantization},
                  {"Range", FoldRange},
                  {"Where", FoldElementwise}});
    for (const char* type :
         {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max",
          "Min", "Mod", "Mul", "Or", "Pow", "Sub", "Sum", "Xor"}) {
      (*made)[type] = FoldElementwise;
    }
    for (const char* type : {"Abs",  "Ceil", "Cos",     "Erf",        "Exp",  "Floor", "LeakyRelu",
                             "Log",  "Neg",  "Not",     "Reciprocal", "Relu", "Round", "Sigmoid",
                             "Sign", "Sin",  "Softmax", "Softplus",   "Sqrt", "Tanh"}) {
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

bool CountsUp(const OnnxConstant& constant) {
  const Sizes& dims = constant.dims;
  const auto own = StepsOf(constant);
  const Sizes strides = StridesOf(dims);
  bool counts = own.has_value();
  for (size_t axis = 0; counts && axis < dims.size(); ++axis) {
    counts = dims[axis] == 1 || (*own)[axis] == strides[axis];
  }
  return counts;
}

std::vector<OnnxConstant> FoldConstants(const onnx::NodeProto& node,
                                        const std::vector<const OnnxConstant*>& inputs,
                                        int64_t opset) {
  const auto outputs = static_cast<size_t>(node.output_size());
  std::vector<OnnxConstant> folded(outputs, UnknownConstant());
  const auto rule = Rules().find(node.op_type());
  const bool is_ours = node.domain().empty() || node.domain() == "ai.onnx";
  if (rule == Rules().end() || !is_ours || inputs.empty()) return folded;
  static const auto* const least = new std::map<std::string, size_t>{
      {"Expand", 2}, {"Gather", 2}, {"GatherND", 2}, {"Gemm", 2},
      {"MatMul", 2}, {"OneHot", 3}, {"Range", 3},    {"Where", 3}};
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

}  // namespace ucudnn::planner
