#include "planner/multigrid/data/chain_weights.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace ucudnn::multigrid {
namespace {

constexpr const char* kChainArrays = "'K' [N, C, C, k, k], 'b' [N, C] and 'u0' [C, H, W]";

std::string NonFiniteText(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

// Converts `place`, the row-major position of a value in an array of shape `shape`, to the value's
// index along each axis.
std::vector<int64_t> IndicesOf(size_t place, const std::vector<int64_t>& shape) {
  std::vector<int64_t> indices(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    indices[axis] = static_cast<int64_t>(place % static_cast<size_t>(shape[axis]));
    place /= static_cast<size_t>(shape[axis]);
  }
  return indices;
}

class ChainArrays {
 public:
  ChainArrays(std::vector<NamedArray> arrays, const std::string& file)
      : arrays_(std::move(arrays)), file_(file) {}

  Result<ChainWeights> Take() {
    UCUDNN_ASSIGN_OR_RETURN(NamedArray* const kernels, Find("K"));
    UCUDNN_ASSIGN_OR_RETURN(NamedArray* const biases, Find("b"));
    UCUDNN_ASSIGN_OR_RETURN(NamedArray* const state, Find("u0"));
    const std::vector<int64_t>& k = kernels->shape;
    if (k.size() != 5 || HasNoValue(k) || k[1] != k[2] || k[3] != k[4] || k[3] % 2 == 0) {
      return Fault("'K' is " + ShapeText(k) + "; expected [N, C, C, k, k] with k odd");
    }
    const std::vector<int64_t> expected_biases = {k[0], k[1]};
    if (biases->shape != expected_biases) {
      return Fault("'b' is " + ShapeText(biases->shape) + "; expected " +
                   ShapeText(expected_biases) + ", as 'K' is " + ShapeText(k));
    }
    const std::vector<int64_t>& u = state->shape;
    if (u.size() != 3 || HasNoValue(u) || u[0] != k[1]) {
      return Fault("'u0' is " + ShapeText(u) + "; expected [" + std::to_string(k[1]) +
                   ", H, W], as 'K' is " + ShapeText(k));
    }
    for (const NamedArray* const array : {kernels, biases, state}) {
      UCUDNN_RETURN_IF_ERROR(CheckFinite(*array));
    }
    return ChainWeights{k[0],
                        k[1],
                        k[3],
                        u[1],
                        u[2],
                        std::move(kernels->values),
                        std::move(biases->values),
                        std::move(state->values)};
  }

 private:
  Status Fault(const std::string& what) const { return Status::Error(file_ + ": " + what); }

  Result<NamedArray*> Find(const std::string& name) {
    std::vector<std::string> names;
    for (NamedArray& array : arrays_) {
      if (array.name == name) return &array;
      if (names.size() < 8) names.push_back(Quoted(array.name));
    }
    return Fault("no array '" + name + "'" + (names.empty() ? "" : " among ") + Join(names, ", ") +
                 (arrays_.size() > names.size() ? ", ..." : "") + "; expected " + kChainArrays);
  }

  static bool HasNoValue(const std::vector<int64_t>& shape) {
    return std::find(shape.begin(), shape.end(), 0) != shape.end();
  }

  Status CheckFinite(const NamedArray& array) const {
    const auto found = std::find_if(array.values.begin(), array.values.end(),
                                    [](double value) { return !std::isfinite(value); });
    if (found == array.values.end()) return Status::Ok();
    const auto place = static_cast<size_t>(found - array.values.begin());
    return Fault("'" + array.name + "' is " + NonFiniteText(*found) + " at " +
                 ShapeText(IndicesOf(place, array.shape)) + "; expected finite values");
  }

  std::vector<NamedArray> arrays_;
  const std::string& file_;
};

}  // namespace

Result<ChainWeights> TakeChainWeights(std::vector<NamedArray> arrays, const std::string& file) {
  return ChainArrays(std::move(arrays), file).Take();
}

Result<ChainWeights> LoadChainWeights(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path));
  UCUDNN_ASSIGN_OR_RETURN(std::vector<NamedArray> arrays, ReadSafetensors(file));
  return TakeChainWeights(std::move(arrays), path);
}

}  // namespace ucudnn::multigrid
