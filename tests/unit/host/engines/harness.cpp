#include "tests/unit/host/engines/harness.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <sstream>

#include "shim/host/engines/element.h"

namespace hostgpu::test {
namespace {

constexpr int64_t kGuardBytes = 4096;
constexpr unsigned char kGuard = 0xC3;
using Extents = std::array<int64_t, 5>;

Extents Strides(const Extents& extents, bool channels_last, int64_t gap) {
  const std::array<int, 5> fast_to_slow =
      channels_last ? std::array<int, 5>{1, 4, 3, 2, 0} : std::array<int, 5>{4, 3, 2, 1, 0};
  Extents strides;
  int64_t stride = 1;
  for (int axis : fast_to_slow) {
    strides[axis] = stride;
    stride = stride * extents[axis] + gap;
  }
  return strides;
}

struct Tensor {
  Extents extents, strides;

  int64_t Span() const {
    int64_t last = 0;
    for (int i = 0; i < 5; ++i) last += (extents[i] - 1) * strides[i];
    return last + 1;
  }
  // Calls visit(index in dense order, offset in memory).
  template <class Visit>
  void ForEach(const Visit& visit) const {
    int64_t index = 0;
    for (int64_t a = 0; a < extents[0]; ++a)
      for (int64_t b = 0; b < extents[1]; ++b)
        for (int64_t c = 0; c < extents[2]; ++c)
          for (int64_t d = 0; d < extents[3]; ++d)
            for (int64_t e = 0; e < extents[4]; ++e)
              visit(index++, a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3] +
                                 e * strides[4]);
  }
};

std::array<Tensor, 3> Tensors(const ConvolutionShape& s) {
  const Extents w{s.k, s.c / s.groups, s.w[0], s.w[1], s.w[2]};
  return {Tensor{{s.n, s.c, s.x[0], s.x[1], s.x[2]}, s.x_strides},
          Tensor{w, Strides(w, s.filter_nhwc, 0)},
          Tensor{{s.n, s.k, s.y[0], s.y[1], s.y[2]}, s.y_strides}};
}

int OutputOf(Operation operation) {
  return operation == Operation::kForward ? 2 : operation == Operation::kBackwardData ? 0 : 1;
}

// Holds bytes between two guards, aligned to 16 bytes and no more.
class Block {
 public:
  explicit Block(size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuardBytes + 64, kGuard) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data()) + kGuardBytes;
    start_ = memory_.data() + kGuardBytes + (16 - address % 64 + 64) % 64;
  }
  Block(const Block&) = delete;
  unsigned char* data() { return start_; }
  bool GuardsIntact() const {
    for (const unsigned char* p = memory_.data(); p < memory_.data() + memory_.size(); ++p) {
      if (p == start_) p += bytes_;
      if (p < memory_.data() + memory_.size() && *p != kGuard) return false;
    }
    return true;
  }
  bool operator==(const Block& other) const {
    return std::memcmp(start_, other.start_, bytes_) == 0;
  }

 private:
  size_t bytes_;
  std::vector<unsigned char> memory_;
  unsigned char* start_;
};

template <class T>
void Fill(const Tensor& tensor, const std::vector<double>& values, Block& block) {
  T* to = reinterpret_cast<T*>(block.data());
  tensor.ForEach([&](int64_t index, int64_t offset) {
    Store(to[offset], static_cast<Accumulator<T>>(values[index]));
  });
}

template <class T>
std::string Compare(const Tensor& tensor, const std::vector<double>& expected, double tolerance,
                    Block& got, Block& before) {
  std::ostringstream problem;
  T* to = reinterpret_cast<T*>(got.data());
  T* old = reinterpret_cast<T*>(before.data());
  int64_t wrong = 0;
  tensor.ForEach([&](int64_t index, int64_t offset) {
    T rounded;
    Store(rounded, static_cast<Accumulator<T>>(expected[index]));
    const double is = Load(to[offset]), ought = Load(rounded);
    if (!(std::abs(is - ought) <= tolerance) && wrong++ == 0) {
      problem << "element " << index << " is " << is << ", ought to be " << ought;
    }
    to[offset] = old[offset];  // so that `got` and `before` differ in gaps alone
  });
  if (wrong > 0) problem << " (" << wrong << " of " << expected.size() << " wrong)";
  if (!(got == before)) problem << " gaps of the output were written";
  return problem.str();
}

template <class T>
std::string RunTyped(const ConvolutionShape& shape, int algorithm, Blend blend,
                     const Operands& operands, const std::vector<double>& convolution,
                     double tolerance, std::vector<double>* result) {
  const auto bytes = WorkspaceBytes(shape, algorithm);
  if (!bytes) return "not served";
  const std::array<Tensor, 3> tensors = Tensors(shape);
  const std::array<const std::vector<double>*, 3> values{&operands.x, &operands.w, &operands.y};
  const int output = OutputOf(shape.operation);
  const std::vector<double> nan(values[output]->size(), std::numeric_limits<double>::quiet_NaN());
  std::array<std::unique_ptr<Block>, 3> blocks, before;
  for (int i = 0; i < 3; ++i) {
    for (auto* set : {&blocks, &before}) {
      (*set)[i] = std::make_unique<Block>(tensors[i].Span() * sizeof(T));
      Fill<T>(tensors[i], i == output && blend.beta == 0 ? nan : *values[i], *(*set)[i]);
    }
  }
  Block workspace(*bytes);
  std::fill(workspace.data(), workspace.data() + *bytes,
            0xFF);  // NaN shows an engine that reads before it writes
  if (!Run(shape, algorithm, blend.alpha, blocks[0]->data(), blocks[1]->data(), blocks[2]->data(),
           blend.beta, *bytes > 0 ? workspace.data() : nullptr)) {
    return "Run failed";
  }
  if (!workspace.GuardsIntact()) return "written beyond the workspace";
  for (int i = 0; i < 3; ++i) {
    if (!blocks[i]->GuardsIntact()) return "written beyond operand " + std::to_string(i);
    if (i != output && !(*blocks[i] == *before[i])) {
      return "input " + std::to_string(i) + " was written";
    }
  }
  if (result) {
    result->resize(nan.size());
    tensors[output].ForEach([&](int64_t index, int64_t offset) {
      (*result)[index] = Load(reinterpret_cast<T*>(blocks[output]->data())[offset]);
    });
    return "";
  }
  std::vector<double> expected(convolution.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = blend.alpha * convolution[i];
    if (blend.beta != 0) expected[i] += blend.beta * (*values[output])[i];
  }
  return Compare<T>(tensors[output], expected, tolerance, *blocks[output], *before[output]);
}

}  // namespace

ConvolutionShape MakeShape(const Problem& p, Operation operation, DataType type, Layout layout,
                           bool flip) {
  ConvolutionShape s{};
  s.operation = operation;
  s.type = type;
  s.n = p.n, s.c = p.c, s.k = p.k, s.groups = p.groups;
  s.x = p.x, s.w = p.w, s.pad = s.upper_pad = p.pad, s.stride = p.stride, s.dilation = p.dilation;
  for (int i = 0; i < 3; ++i) {
    const int64_t reach = (p.w[i] - 1) * p.dilation[i] + 1;
    s.y[i] = (p.x[i] + 2 * p.pad[i] - reach) / p.stride[i] + 1;
  }
  const bool last = layout == Layout::kNhwc || layout == Layout::kPaddedNhwc;
  const int64_t gap = layout == Layout::kPaddedNchw || layout == Layout::kPaddedNhwc ? 3 : 0;
  s.filter_nhwc = last || layout == Layout::kMixed;
  s.flip = flip;
  s.x_strides = Strides({s.n, s.c, s.x[0], s.x[1], s.x[2]}, last, gap);
  s.y_strides = Strides({s.n, s.k, s.y[0], s.y[1], s.y[2]}, s.filter_nhwc, gap);
  return s;
}

std::string Describe(const Problem& problem, const ConvolutionShape& shape, int algorithm) {
  static const char* operations[] = {"forward", "backward_data", "backward_filter"};
  static const char* types[] = {"fp32", "fp16", "bf16", "fp64"};
  std::ostringstream text;
  text << problem.name << " " << operations[static_cast<int>(shape.operation)] << " "
       << types[static_cast<int>(shape.type)] << " x strides";
  for (int64_t stride : shape.x_strides) text << " " << stride;
  text << (shape.filter_nhwc ? " filter nhwc" : "") << (shape.flip ? " flip" : "") << " algorithm "
       << algorithm;
  return text.str();
}

Operands MakeOperands(const ConvolutionShape& shape, uint32_t seed) {
  const std::array<Tensor, 3> tensors = Tensors(shape);
  Operands result;
  const std::array<std::vector<double>*, 3> values{&result.x, &result.w, &result.y};
  uint32_t state = seed * 2654435761u + 1;
  for (int i = 0; i < 3; ++i) {
    int64_t size = 1;
    for (int64_t extent : tensors[i].extents) size *= extent;
    values[i]->resize(size);
    for (double& value : *values[i]) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<int>((state >> 16) % 5) - 2;
    }
  }
  return result;
}

std::vector<double> NaiveConvolution(const ConvolutionShape& s, const Operands& o) {
  const int64_t cg = s.c / s.groups, kg = s.k / s.groups;
  const auto x_size = s.x[0] * s.x[1] * s.x[2], w_size = s.w[0] * s.w[1] * s.w[2];
  const auto y_size = s.y[0] * s.y[1] * s.y[2];
  std::vector<double> result(s.operation == Operation::kForward        ? o.y.size()
                             : s.operation == Operation::kBackwardData ? o.x.size()
                                                                       : o.w.size());
  // combine() is called once for every pair (pixel of y, tap) whose pixel of x exists, and adds the
  // products of all images, filters and channels.
  const auto combine = [&](int64_t yp, int64_t wp, int64_t xp) {
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t k = 0; k < s.k; ++k)
        for (int64_t c = 0; c < cg; ++c) {
          const int64_t xi = (n * s.c + k / kg * cg + c) * x_size + xp;
          const int64_t wi = (k * cg + c) * w_size + wp;
          const int64_t yi = (n * s.k + k) * y_size + yp;
          if (s.operation == Operation::kForward) {
            result[yi] += o.x[xi] * o.w[wi];
          } else if (s.operation == Operation::kBackwardData) {
            result[xi] += o.y[yi] * o.w[wi];
          } else {
            result[wi] += o.x[xi] * o.y[yi];
          }
        }
  };
  for (int64_t yp = 0; yp < y_size; ++yp)
    for (int64_t wp = 0; wp < w_size; ++wp) {
      const std::array<int64_t, 3> y{yp / s.y[2] / s.y[1], yp / s.y[2] % s.y[1], yp % s.y[2]};
      const std::array<int64_t, 3> w{wp / s.w[2] / s.w[1], wp / s.w[2] % s.w[1], wp % s.w[2]};
      int64_t xp = 0;
      bool inside = true;
      for (int i = 0; i < 3; ++i) {
        const int64_t tap = s.flip ? s.w[i] - 1 - w[i] : w[i];
        const int64_t at = y[i] * s.stride[i] - s.pad[i] + tap * s.dilation[i];
        inside = inside && 0 <= at && at < s.x[i];
        xp = xp * s.x[i] + at;
      }
      if (inside) combine(yp, wp, xp);
    }
  return result;
}

std::string RunAndCompare(const ConvolutionShape& shape, int algorithm, Blend blend,
                          const Operands& operands, const std::vector<double>& convolution,
                          double tolerance) {
  return WithElement(shape.type, [&](auto element) {
    return RunTyped<decltype(element)>(shape, algorithm, blend, operands, convolution, tolerance,
                                       nullptr);
  });
}

std::vector<double> RunEngine(const ConvolutionShape& shape, int algorithm,
                              const Operands& operands) {
  std::vector<double> result;
  WithElement(shape.type, [&](auto element) {
    return RunTyped<decltype(element)>(shape, algorithm, {1, 0}, operands, {}, 0, &result);
  });
  return result;
}

}  // namespace hostgpu::test
