#include "shim/host/cudnn/graph/computation.h"
#include "shim/host/engines/element.h"
#include "shim/host/engines/parallel.h"

namespace hostgpu {
namespace {

class ChannelReader {
 public:
  ChannelReader(const PointwiseProgram& program, const std::vector<void*>& addresses)
      : program_(program), addresses_(addresses) {
    for (int i = 0; i < program.dim_count; ++i) {
      if (i != 1) elements_ *= program.dims[i];
    }
  }

  // The number of elements of one channel.
  int64_t elements() const { return elements_; }

  // Returns element `index` of the channel, counted over all axes but the channels.
  double Read(int operand, int64_t channel, int64_t index) const {
    const ProgramOperand& from = program_.operands[operand];
    int64_t offset = channel * from.strides[1];
    for (int axis = program_.dim_count - 1; axis >= 0; --axis) {
      if (axis == 1) continue;
      offset += index % program_.dims[axis] * from.strides[axis];
      index /= program_.dims[axis];
    }
    return WithNumber(from.type, [&](auto element) {
      return static_cast<double>(
          Load(static_cast<const decltype(element)*>(addresses_[operand])[offset]));
    });
  }

  void Write(int operand, int64_t channel, double value) const {
    const ProgramOperand& to = program_.operands[operand];
    WithNumber(to.type, [&](auto element) {
      using T = decltype(element);
      Store(static_cast<T*>(addresses_[operand])[channel * to.strides[1]],
            static_cast<Accumulator<T>>(value));
    });
  }

 private:
  const PointwiseProgram& program_;
  const std::vector<void*>& addresses_;
  int64_t elements_ = 1;
};

void Statistics(const ChannelReader& reader, int64_t channel) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < reader.elements(); ++i) {
    const double x = reader.Read(0, channel, i);
    sum += x;
    squares += x * x;
  }
  reader.Write(1, channel, sum);
  reader.Write(2, channel, squares);
}

// Computes the gradients of scale and bias, and the coefficients of dx = eq_dy * dy + eq_x * x +
// eq_bias. Does not compute dx itself.
void NormalizationGradients(const ChannelReader& reader, int64_t channel) {
  const double mean = reader.Read(2, channel, 0);
  const double inverse_deviation = reader.Read(3, channel, 0);
  const double scale = reader.Read(4, channel, 0);
  double scale_gradient = 0, bias_gradient = 0;
  for (int64_t i = 0; i < reader.elements(); ++i) {
    const double dy = reader.Read(1, channel, i);
    scale_gradient += dy * (reader.Read(0, channel, i) - mean) * inverse_deviation;
    bias_gradient += dy;
  }
  const auto count = static_cast<double>(reader.elements());
  const double of_dy = scale * inverse_deviation;
  const double of_x = -of_dy * inverse_deviation * scale_gradient / count;
  reader.Write(5, channel, scale_gradient);
  reader.Write(6, channel, bias_gradient);
  reader.Write(7, channel, of_dy);
  reader.Write(8, channel, of_x);
  reader.Write(9, channel, -of_dy * bias_gradient / count - of_x * mean);
}

}  // namespace

bool RunChannelSums(const Computation& computation, const std::vector<void*>& addresses) {
  const ChannelReader reader(computation.program, addresses);
  const bool statistics = *computation.sums == ChannelSums::kStatistics;
  return ParallelFor(computation.program.dims[1], [&](int64_t channel) {
    statistics ? Statistics(reader, channel) : NormalizationGradients(reader, channel);
    return true;
  });
}

}  // namespace hostgpu
