// Makes training steps of one convolution layer, channels last, as a user of NVIDIA's
// cudnn-frontend would. A step runs the forward convolution three times: alone, with bias and ReLU
// fused, and with a residual, bias and ReLU fused in PyTorch's order. Then it runs the ReLU's
// gradient, backward_data and backward_filter. It also runs backward_data fused with the gradient
// of the ReLU before the layer; every second step runs this before backward_filter. Finally, it
// runs the plan with bias and ReLU again, rebuilt from its serialized form. The program does not
// depend on ucudnn. If ucudnn is loaded, the program declares that backward_filter and the fused
// backward_data read the same dy.
//
//   frontend_step fp32|fp16|bf16 2|3 BATCH [STEPS]
//
// For every step it prints a checksum of every result and the workspace of its plan. It exits with
// 1 if a result differs from plain loops. The loops compute the whole images, even if the process
// has only a stripe of them.
#include <dlfcn.h>

#include "frontend_layer.h"

namespace {

using namespace layer;

void SameGradient() {
  auto* const say =
      reinterpret_cast<cudnnStatus_t (*)()>(dlsym(RTLD_DEFAULT, "ucudnnSpatialSameGradient"));
  if (say != nullptr) (void)say();
}

bool Step(cudnnHandle_t handle, const Layer& layer, bool data_first) {
  const int64_t n = layer.batch, size = layer.size;
  Tensor x(layer, n, kChannels, size), w(layer, kFilters, kChannels, kTap);
  Tensor bias(layer, 1, kFilters, 1), z(layer, n, kFilters, size);
  Tensor y(layer, n, kFilters, size), fused_y(layer, n, kFilters, size);
  Tensor residual_y(layer, n, kFilters, size);
  Tensor dy(layer, n, kFilters, size), dz(layer, n, kFilters, size);
  Tensor dx(layer, n, kChannels, size), dw(layer, kFilters, kChannels, kTap);
  Tensor fused_dx(layer, n, kChannels, size);
  x.Fill(1);
  w.Fill(2);
  bias.Fill(3);
  dy.Fill(4);
  z.Fill(5);

  Graph forward(handle, layer);
  forward.Output(forward.Forward(forward.Input("x", x), forward.Input("w", w)), y);
  const int64_t forward_bytes = forward.Run();

  Graph fused(handle, layer);
  {
    const auto convolution = fused.Forward(fused.Input("x", x), fused.Input("w", w));
    fused.Output(fused.Relu(fused.Add(convolution, fused.Input("bias", bias))), fused_y);
  }
  const int64_t fused_bytes = fused.Run();

  Graph residual(handle, layer);
  {
    const auto convolution = residual.Forward(residual.Input("x", x), residual.Input("w", w));
    const auto added = residual.Add(convolution, residual.Input("z", z));
    residual.Output(residual.Relu(residual.Add(added, residual.Input("bias", bias))), residual_y);
  }
  const int64_t residual_bytes = residual.Run();

  Graph relu(handle, layer);
  relu.Output(relu.ReluGradient(relu.Input("dy", dy), relu.Input("y", fused_y)), dz);
  const int64_t relu_bytes = relu.Run();
  Graph data(handle, layer);
  data.Output(data.BackwardData(data.Input("dz", dz), data.Input("w", w)), dx);
  const int64_t data_bytes = data.Run();
  Graph filter(handle, layer);
  filter.Output(filter.BackwardFilter(filter.Input("dz", dz), filter.Input("x", x)), dw);
  Graph fused_data(handle, layer);
  {
    const auto gradient =
        fused_data.BackwardData(fused_data.Input("dz", dz), fused_data.Input("w", w));
    // The extents of a gradient cannot be derived from its operands' extents.
    gradient->set_dim(fused_dx.dims).set_stride(fused_dx.strides);
    fused_data.Output(fused_data.ReluGradient(gradient, fused_data.Input("x", x)), fused_dx);
  }
  SameGradient();
  int64_t fused_data_bytes = data_first ? fused_data.Run() : 0;
  const int64_t filter_bytes = filter.Run();
  if (!data_first) fused_data_bytes = fused_data.Run();

  ForEachProduct(layer, [&](const Product& p) {
    y.At(p.n, p.k, p.o) += x.At(p.n, p.c, p.i) * w.At(p.k, p.c, p.t);
  });
  for (size_t i = 0; i < y.values.size(); ++i) {
    const float value = y.values[i] + bias.values[i % kFilters];
    fused_y.values[i] = value > 0 ? value : 0;
    residual_y.values[i] = value + z.values[i] > 0 ? value + z.values[i] : 0;
    dz.values[i] = value > 0 ? dy.values[i] : 0;
  }
  ForEachProduct(layer, [&](const Product& p) {
    dx.At(p.n, p.c, p.i) += dz.At(p.n, p.k, p.o) * w.At(p.k, p.c, p.t);
    dw.At(p.k, p.c, p.t) += dz.At(p.n, p.k, p.o) * x.At(p.n, p.c, p.i);
  });
  for (size_t i = 0; i < dx.values.size(); ++i) {
    fused_dx.values[i] = x.values[i] > 0 ? dx.values[i] : 0;
  }
  bool exact = y.Report("forward", forward_bytes);
  exact &= fused_y.Report("fused", fused_bytes);
  exact &= residual_y.Report("residual", residual_bytes);
  exact &= dz.Report("relu_gradient", relu_bytes);
  exact &= dx.Report("backward_data", data_bytes);
  exact &= dw.Report("backward_filter", filter_bytes);
  exact &= fused_dx.Report("fused_data", fused_data_bytes);
  Check(cudaMemset(fused_y.device, 0, fused_y.device_bytes()));
  return fused_y.Report("fused_again", fused.RunLoaded()) && exact;
}

}  // namespace

int main(int argc, char** argv) {
  const bool given = argc == 4 || argc == 5;
  const auto type = given ? Types().find(argv[1]) : Types().end();
  const int spatial = given ? std::atoi(argv[2]) : 0;
  const int64_t batch = given ? std::atoll(argv[3]) : 0;
  const int steps = argc == 5 ? std::atoi(argv[4]) : 1;
  if (type == Types().end() || spatial < 2 || spatial > 3 || batch < 1 || steps < 1) {
    std::fprintf(stderr, "usage: frontend_step fp32|fp16|bf16 2|3 BATCH [STEPS]\n");
    return 2;
  }
  Check(cudaSetDevice(Variable("LOCAL_RANK", 0)));
  cudnnHandle_t handle;
  Check(cudnnCreate(&handle));
  bool exact = true;
  for (int step = 0; step < steps; ++step) {
    const Layer layer = {type->second, spatial, batch, spatial == 3 ? 5 : 12};
    exact = Step(handle, layer, step % 2 == 1) && exact;
  }
  Check(cudnnDestroy(handle));
  return exact ? 0 : 1;
}
