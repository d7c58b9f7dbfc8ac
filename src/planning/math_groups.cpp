#include "planning/math_groups.h"

#include <algorithm>
#include <utility>

#include "convolution/engine_name.h"

namespace ucudnn::planning {

std::vector<MathGroup> GroupByMath(const ConvolutionProblem& problem,
                                   const std::vector<MicroConfiguration>& measured) {
  std::vector<MathGroup> groups;
  for (const MicroConfiguration& micro : measured) {
    const EngineId::Legacy* const engine = micro.engine.legacy();
    if (engine == nullptr) continue;
    const MathType math = engine->math.value_or(problem.math);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const MathGroup& other) { return other.math == math; });
    if (group == groups.end()) group = groups.insert(groups.end(), {math, {}});
    Candidate candidate{micro, LegacyNumericClass(problem.operation, engine->algorithm)};
    candidate.micro.engine = EngineId::Legacy{engine->algorithm, std::nullopt};
    group->candidates.push_back(std::move(candidate));
  }
  return groups;
}

std::vector<Candidate> OwnMathCandidates(const ConvolutionProblem& problem,
                                         const std::vector<MicroConfiguration>& measured) {
  for (MathGroup& group : GroupByMath(problem, measured)) {
    if (group.math == problem.math) return std::move(group.candidates);
  }
  return {};
}

}  // namespace ucudnn::planning
