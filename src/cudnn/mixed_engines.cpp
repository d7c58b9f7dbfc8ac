#include "cudnn/mixed_engines.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ucudnn::cudnn {
namespace {

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

Result<std::vector<ListedEngine>> MixedEngines::List(const ConvolutionProblem& part) {
  auto listed = legacy_.List(part);
  // If one API fails, the result is the engines of the other one. Perhaps no plan supports the
  // part, or no legacy engine supports it because its paddings are uneven.
  auto graph = graph_.List(part);
  if (!graph.ok()) return listed;
  if (!listed.ok()) return graph;
  std::move(graph->begin(), graph->end(), std::back_inserter(*listed));
  return listed;
}

Result<std::unique_ptr<Piece>> MixedEngines::MakePiece(const ConvolutionProblem& part,
                                                       const EngineId& engine,
                                                       const PieceScales& scales,
                                                       size_t workspace_bytes) {
  if (engine.of_graph_api()) return graph_.MakePiece(part, engine, scales, workspace_bytes);
  return legacy_.MakePiece(part, engine, scales, workspace_bytes);
}

}  // namespace ucudnn::cudnn
