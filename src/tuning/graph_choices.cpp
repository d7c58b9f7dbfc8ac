#include "tuning/graph_choices.h"

#include <utility>

#include "cudnn/problem_graph.h"

namespace ucudnn::tuning {
namespace {

// The most choices of the heuristics for a kernel. They are few, because each choice is measured at
// several micro-batch sizes.
constexpr size_t kMostChoices = 3;

}  // namespace

GraphChoices::Template GraphChoices::Named(int platform, const ConvolutionProblem& problem,
                                           const EngineId& engine, cudnnHandle_t handle) {
  const Key key{platform, KernelFamily(problem)};
  {
    MutexLock lock(mutex_);
    const Choices& known = known_[key];
    const auto found = known.engines.find(engine);
    if (found != known.engines.end() || handle == nullptr) {
      return found != known.engines.end() ? found->second : nullptr;
    }
  }
  Template named;
  const auto graph = cudnn::ProblemGraph::Create(functions_, {handle, nullptr}, problem);
  if (graph.ok()) {
    auto built = graph->Named(engine);
    if (built.ok()) named = std::make_shared<const cudnn::GraphTemplate>(std::move(*built));
  }
  MutexLock lock(mutex_);
  return known_[key].engines.try_emplace(engine, std::move(named)).first->second;
}

std::vector<GraphChoices::Template> GraphChoices::Heuristics(int platform,
                                                             const ConvolutionProblem& problem,
                                                             cudnnHandle_t handle,
                                                             const std::function<bool()>& in_time) {
  const Key key{platform, KernelFamily(problem)};
  {
    MutexLock lock(mutex_);
    const Choices& known = known_[key];
    if (known.heuristics) return *known.heuristics;
  }
  std::vector<cudnn::GraphTemplate> chosen;
  const auto graph = cudnn::ProblemGraph::Create(functions_, {handle, nullptr}, problem);
  bool cut = false;
  const auto goes_on = [&] { return !(cut |= !in_time()); };
  if (graph.ok()) chosen = graph->Heuristics(kMostChoices, goes_on);
  std::vector<Template> choices;
  for (cudnn::GraphTemplate& choice : chosen) {
    choices.push_back(std::make_shared<const cudnn::GraphTemplate>(std::move(choice)));
  }
  MutexLock lock(mutex_);
  Choices& known = known_[key];
  for (const Template& choice : choices) known.engines[choice->convolution.engine] = choice;
  // A list that was cut short is not kept, because the time budget of another mini-batch may
  // suffice for the whole list.
  if (!cut) known.heuristics = choices;
  return choices;
}

void GraphChoices::SetPostponed(int platform, const ConvolutionProblem& problem, bool postponed) {
  MutexLock lock(mutex_);
  if (postponed) {
    postponed_.insert({platform, problem});
  } else {
    postponed_.erase({platform, problem});
  }
}

bool GraphChoices::IsPostponed(int platform, const ConvolutionProblem& problem) {
  MutexLock lock(mutex_);
  return postponed_.contains({platform, problem});
}

}  // namespace ucudnn::tuning
