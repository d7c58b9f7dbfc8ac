#include "cudnn/mixed_engines.h"

#include <utility>

namespace ucudnn::cudnn {
namespace {

class PreparedMixed : public PreparedProblem {
 public:
  PreparedMixed(std::unique_ptr<PreparedProblem> legacy, std::unique_ptr<PreparedProblem> graph)
      : legacy_(std::move(legacy)), graph_(std::move(graph)) {}

  Result<std::vector<EngineChoice>> Engines() override {
    UCUDNN_ASSIGN_OR_RETURN(std::vector<EngineChoice> choices, legacy_->Engines());
    if (graph_ == nullptr) return choices;
    UCUDNN_ASSIGN_OR_RETURN(const std::vector<EngineChoice> graph, graph_->Engines());
    choices.insert(choices.end(), graph.begin(), graph.end());
    return choices;
  }

  Status Run(const EngineChoice& choice, const Buffers& buffers) override {
    if (!choice.engine.of_graph_api()) return legacy_->Run(choice, buffers);
    if (graph_ == nullptr) return Status::Error("'" + choice.engine.Text() + "' is not prepared");
    return graph_->Run(choice, buffers);
  }

 private:
  const std::unique_ptr<PreparedProblem> legacy_;
  const std::unique_ptr<PreparedProblem> graph_;  // null: none serves this batch
};

std::vector<const GraphTemplate*> Pointers(const MixedEngines::Templates& templates) {
  std::vector<const GraphTemplate*> pointers;
  for (const auto& original : templates) pointers.push_back(original.get());
  return pointers;
}

}  // namespace

MixedEngines::MixedEngines(const Functions& functions, cudnnHandle_t handle, Templates templates)
    : templates_(std::move(templates)),
      legacy_(functions, handle),
      graph_(functions, {handle, nullptr}, Pointers(templates_)) {}

Result<std::unique_ptr<PreparedProblem>> MixedEngines::Prepare(const ConvolutionProblem& problem) {
  UCUDNN_ASSIGN_OR_RETURN(std::unique_ptr<PreparedProblem> legacy, legacy_.Prepare(problem));
  auto graph = graph_.Prepare(problem);
  return std::unique_ptr<PreparedProblem>(
      new PreparedMixed(std::move(legacy), graph.ok() ? std::move(*graph) : nullptr));
}

Result<std::unique_ptr<Piece>> MixedEngines::MakePiece(const ConvolutionProblem& problem,
                                                       const MicroConfiguration& micro) {
  if (micro.engine.of_graph_api()) return graph_.MakePiece(problem, micro);
  return legacy_.MakePiece(problem, micro);
}

}  // namespace ucudnn::cudnn
