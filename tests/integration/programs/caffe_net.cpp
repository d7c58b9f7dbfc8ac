// Runs two convolution layers of Caffe (caffe_layer.h) one after the other, the second one in two
// groups. Each layer has two inputs that share its weights. The program makes STEPS steps of
// forward and backward, and adds up the gradients of all steps. All values are integers, small
// enough that every sum is exact. The program fails unless the results equal those of plain loops.
// It prints a checksum of each result and, with ucudnn's handle, how every kernel ran.
//
//   caffe_net limit BYTES [STEPS]    BYTES is a layer's workspace limit; 0 chooses the fastest
//   caffe_net total BYTES [STEPS]    BYTES is one budget for all kernels (with ucudnn's handle)
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "caffe_layer.h"
#include "device_numbers.h"

namespace {

using caffe::ConvolutionLayer;
using caffe::Shape;
using Values = std::vector<float>;
using DeviceMemory = DeviceNumbers<float>;

const int kInputs = 2;
const Shape kShapes[] = {{16, 4, 12, 12, 16, 5, 2, 1}, {16, 16, 12, 12, 32, 3, 1, 2}};

// Returns integers from -1 to 1.
Values Draw(size_t count, uint32_t& seed) {
  Values values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int>((seed >> 16) % 3) - 1);
  }
  return values;
}

struct Blob {
  explicit Blob(const Values& values)
      : host(values), data(values), diff(Values(values.size(), 0.f)) {}
  Values host, host_diff;  // the values and gradients that plain loops compute
  DeviceMemory data, diff;
};

// Calls body(index in bottom, index in weight, index in top) for every product of the convolution.
template <class Body>
void ForEachProduct(const Shape& s, Body body) {
  const int channels = s.channels / s.group, outputs = s.outputs / s.group;
  const int out_height = s.OutHeight(), out_width = s.OutWidth();
  for (int n = 0; n < s.num; ++n)
    for (int k = 0; k < s.outputs; ++k)
      for (int c = 0; c < channels; ++c)
        for (int r = 0; r < s.kernel; ++r)
          for (int q = 0; q < s.kernel; ++q)
            for (int y = 0; y < out_height; ++y)
              for (int x = 0; x < out_width; ++x) {
                const int from_y = y + r - s.pad, from_x = x + q - s.pad;
                if (from_y < 0 || from_y >= s.height || from_x < 0 || from_x >= s.width) continue;
                const int channel = k / outputs * channels + c;
                body((size_t(n * s.channels + channel) * s.height + from_y) * s.width + from_x,
                     (size_t(k * channels + c) * s.kernel + r) * s.kernel + q,
                     (size_t(n * s.outputs + k) * out_height + y) * out_width + x);
              }
}

// A layer, its parameters, and the results that plain loops compute from them.
struct NaiveLayer {
  NaiveLayer(const Shape& shape, uint32_t& seed)
      : shape(shape),
        weight(Draw(shape.WeightCount(), seed)),
        bias(Draw(static_cast<size_t>(shape.outputs), seed)) {
    weight.host_diff.assign(weight.host.size(), 0);
    bias.host_diff.assign(bias.host.size(), 0);
  }
  size_t OutputOf(size_t top) const {
    return top / (size_t{1} * shape.OutHeight() * shape.OutWidth()) % shape.outputs;
  }
  void Forward(const Blob& bottom, Blob& top) {
    for (size_t i = 0; i < top.host.size(); ++i) top.host[i] = bias.host[OutputOf(i)];
    ForEachProduct(shape, [&](size_t x, size_t w, size_t y) {
      top.host[y] += bottom.host[x] * weight.host[w];
    });
  }
  void Backward(const Values& top_diff, Blob& bottom) {
    bottom.host_diff.assign(bottom.host.size(), 0);
    for (size_t i = 0; i < top_diff.size(); ++i) bias.host_diff[OutputOf(i)] += top_diff[i];
    ForEachProduct(shape, [&](size_t x, size_t w, size_t y) {
      weight.host_diff[w] += bottom.host[x] * top_diff[y];
      bottom.host_diff[x] += weight.host[w] * top_diff[y];
    });
  }

  const Shape shape;
  Blob weight, bias;
};

bool Compare(const std::string& name, const DeviceMemory& memory, const Values& naive) {
  const Values values = memory.Read();
  uint64_t hash = 14695981039346656037u;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  const bool equal = values == naive;
  std::printf("%s %016llx%s\n", name.c_str(), static_cast<unsigned long long>(hash),
              equal ? "" : " differs from plain loops");
  return equal;
}

std::vector<float*> Pointers(const std::vector<std::unique_ptr<Blob>>& blobs, bool diff) {
  std::vector<float*> pointers;
  for (const auto& blob : blobs) pointers.push_back((diff ? blob->diff : blob->data).data());
  return pointers;
}

struct Words {
  bool total = false;
  size_t bytes = 0;
  int steps = 3;
};

Words Read(int argc, char** argv) {
  Words words;
  const std::string what = argc > 1 ? argv[1] : "";
  char* end = nullptr;
  if (argc > 2) words.bytes = std::strtoull(argv[2], &end, 10);
  if (argc > 3) words.steps = std::atoi(argv[3]);
  words.total = what == "total";
  if ((what != "limit" && !words.total) || argc < 3 || *end != '\0' || words.steps < 1) {
    std::fprintf(stderr, "usage: caffe_net limit|total BYTES [STEPS]\n");
    std::exit(2);
  }
  return words;
}

void TellOfUcudnn(const ConvolutionLayer& layer, int number) {
#ifdef CAFFE_WITH_UCUDNN
  const char* const names[] = {"forward", "backward_data", "backward_filter"};
  for (int operation = 0; operation < 3; ++operation) {
    std::printf("plan conv%d %s %s\n", number, names[operation], layer.PlanOf(operation).c_str());
  }
#endif
  (void)layer, (void)number;
}

}  // namespace

int main(int argc, char** argv) {
  const Words words = Read(argc, argv);
  if (words.total) {
#ifdef CAFFE_WITH_UCUDNN
    if (ucudnnSetTotalWorkspace(words.bytes) != CUDNN_STATUS_SUCCESS) {
      std::fprintf(stderr, "caffe_net: %s\n", ucudnnGetLastError());
      return 1;
    }
#else
    std::fprintf(stderr, "caffe_net: cuDNN's own handle knows no budget\n");
    return 2;
#endif
  }
  uint32_t seed = 5;
  NaiveLayer naive1(kShapes[0], seed), naive2(kShapes[1], seed);
  std::vector<std::unique_ptr<Blob>> images, middle, top;
  for (int i = 0; i < kInputs; ++i) {
    images.emplace_back(new Blob(Draw(kShapes[0].BottomCount(), seed)));
    middle.emplace_back(new Blob(Values(kShapes[0].TopCount())));
    top.emplace_back(new Blob(Values(kShapes[1].TopCount())));
  }
  std::vector<Values> top_diffs;
  std::vector<std::unique_ptr<DeviceMemory>> top_diff_memory;
  std::vector<float*> top_diff;
  for (int i = 0; i < kInputs; ++i) {
    top_diffs.push_back(Draw(kShapes[1].TopCount(), seed));
    top_diff_memory.emplace_back(new DeviceMemory(top_diffs.back()));
    top_diff.push_back(top_diff_memory.back()->data());
  }

  const size_t limit_bytes = words.total ? 0 : words.bytes;
  bool equal = true;
  {
    ConvolutionLayer conv1("conv1", kShapes[0], kInputs, limit_bytes);
    ConvolutionLayer conv2("conv2", kShapes[1], kInputs, limit_bytes);
    const auto diffs = [](Blob& blob) { return blob.diff.data(); };
    for (int step = 0; step < words.steps; ++step) {
      conv1.Forward(Pointers(images, false), naive1.weight.data.data(), naive1.bias.data.data(),
                    Pointers(middle, false));
      conv2.Forward(Pointers(middle, false), naive2.weight.data.data(), naive2.bias.data.data(),
                    Pointers(top, false));
      conv2.Backward(top_diff, Pointers(middle, false), naive2.weight.data.data(),
                     diffs(naive2.weight), diffs(naive2.bias), Pointers(middle, true));
      conv1.Backward(Pointers(middle, true), Pointers(images, false), naive1.weight.data.data(),
                     diffs(naive1.weight), diffs(naive1.bias), Pointers(images, true));
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    std::printf("workspace conv1 %zu conv2 %zu\n", conv1.workspace_bytes(),
                conv2.workspace_bytes());
    TellOfUcudnn(conv1, 1);
    TellOfUcudnn(conv2, 2);
  }

  for (int i = 0; i < kInputs; ++i) {
    naive1.Forward(*images[i], *middle[i]);
    naive2.Forward(*middle[i], *top[i]);
    naive2.Backward(top_diffs[i], *middle[i]);
    naive1.Backward(middle[i]->host_diff, *images[i]);
    const std::string input = std::to_string(i + 1);
    equal &= Compare("conv1 top" + input, middle[i]->data, middle[i]->host);
    equal &= Compare("conv2 top" + input, top[i]->data, top[i]->host);
    equal &= Compare("conv2 bottom_diff" + input, middle[i]->diff, middle[i]->host_diff);
    equal &= Compare("conv1 bottom_diff" + input, images[i]->diff, images[i]->host_diff);
  }
  int number = 0;
  for (NaiveLayer* layer : {&naive1, &naive2}) {
    ++number;
    // Every step adds the same gradients, so one step's gradients are multiplied by the number of
    // steps.
    for (Blob* blob : {&layer->weight, &layer->bias}) {
      for (float& value : blob->host_diff) value *= static_cast<float>(words.steps);
      equal &= Compare("conv" + std::to_string(number) +
                           (blob == &layer->weight ? " weight_diff" : " bias_diff"),
                       blob->diff, blob->host_diff);
    }
  }
  return equal ? 0 : 1;
}
