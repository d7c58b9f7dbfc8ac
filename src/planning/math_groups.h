// Groups legacy engines by the math type that they were measured with. Pure functions.
#pragma once

#include <vector>

#include "convolution/configuration.h"
#include "convolution/problem.h"
#include "planning/promise.h"

namespace ucudnn::planning {

// The candidates of one math type. Only candidates of the same math type may share a plan, because
// the caller sets one math type for all pieces.
struct MathGroup {
  MathType math;
  // The engines' names state no math type, because all these engines have the math type `math`.
  std::vector<Candidate> candidates;
};

// Returns the measurements of `problem`'s legacy engines by math type. Rows of other engines are
// left out.
std::vector<MathGroup> GroupByMath(const ConvolutionProblem& problem,
                                   const std::vector<MicroConfiguration>& measured);
// Returns the candidates of the problem's own math type.
std::vector<Candidate> OwnMathCandidates(const ConvolutionProblem& problem,
                                         const std::vector<MicroConfiguration>& measured);

}  // namespace ucudnn::planning
