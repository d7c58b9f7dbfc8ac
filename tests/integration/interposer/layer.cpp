#include "layer.h"

#include "cases.h"
#include "primed_store.h"
#include "tests/support/problem.h"

namespace ucudnn::test {

ConvolutionProblem LayerProblem(Operation operation, int n) {
  return AsRead(ProblemWith({.operation = operation, .n = n, .c = 8, .x = {1, 12, 12}}));
}

ConvolutionProblem FreshLayer(Operation operation, int n) {
  static int next = 0;
  ConvolutionProblem problem = LayerProblem(operation, n);
  problem.x_strides[0] += 4 * (next % 64);
  problem.y_strides[0] += 4 * (next / 64);
  ++next;
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
