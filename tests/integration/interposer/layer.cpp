#include "layer.h"

#include "cases.h"
#include "primed_store.h"

namespace ucudnn::test {

ConvolutionProblem LayerProblem(Operation operation, int n) {
  ConvolutionProblem problem;
  problem.operation = operation;
  problem.n = n;
  problem.c = 8;
  problem.k = 8;
  problem.x = {1, 12, 12};
  problem.w = {1, 3, 3};
  problem.pad = {0, 1, 1};
  SetPackedStrides(problem);
  return AsRead(problem);
}

void PrimeLayer() {
  PrimedStore store;
  for (const Operation operation : kOperations) {
    store.Add(LayerProblem(operation), {1, 2, 4, 8, 15, 16, 32}, [](int algorithm, int size) {
      const double per_image = algorithm == 1 ? 1 : algorithm != 0 ? 5 : size < 15 ? 8 : 10;
      return 0.01 + per_image * size;
    });
  }
  store.Write();
}

}  // namespace ucudnn::test
