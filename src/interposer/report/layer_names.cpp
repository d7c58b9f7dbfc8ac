#include "interposer/report/layer_names.h"

namespace ucudnn::interposer {
namespace {

// Returns the part of a problem that all kernels of a layer share.
ConvolutionProblem ShapeOf(ConvolutionProblem problem) {
  problem.operation = Operation::kForward;
  problem.math = MathType::kDefault;
  problem.alignment = 1;
  return problem;
}

}  // namespace

bool LayerNames::Add(const ConvolutionProblem& problem, const std::string& name) {
  if (count_ >= kMostLayerNames) return false;
  if (names_[ShapeOf(problem)].insert(name).second) ++count_;
  return true;
}

const std::set<std::string>* LayerNames::Find(const ConvolutionProblem& problem) const {
  const auto named = names_.find(ShapeOf(problem));
  return named == names_.end() ? nullptr : &named->second;
}

}  // namespace ucudnn::interposer
