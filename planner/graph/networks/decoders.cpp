#include <string>
#include <vector>

#include "planner/graph/networks/chain.h"
#include "planner/graph/networks/families.h"

namespace ucudnn::planner {
namespace {

constexpr int32_t kGroups = 32;  // groups of channels in every normalization of both decoders

// A decoder under construction. The two decoders differ in their convolutions and in how they grow
// images.
struct Decoder {
  Chain net;
  Convolution (*convolution)(int32_t filters);
  int32_t channels = 0;  // channels of the last node

  void Append(const std::string& name, int32_t filters) {
    net.Append(name, convolution(filters));
    channels = filters;
  }
  void NormaliseAndActivate(const std::string& norm, const std::string& activation) {
    net.Append(norm, GroupNormalization{kGroups});
    net.Append(activation, Activation{ActivationKind::kSwish});
  }

  void Residual(const std::string& name, int32_t filters) {
    const NodeId input = net.last();
    const bool projects = channels != filters;
    NormaliseAndActivate(name + ".norm1", name + ".act1");
    Append(name + ".conv1", filters);
    NormaliseAndActivate(name + ".norm2", name + ".act2");
    Append(name + ".conv2", filters);
    const NodeId sum = net.last();
    net.ContinueFrom(input);
    if (projects) {
      Convolution shortcut;
      shortcut.filters = filters;
      net.Append(name + ".conv_shortcut", shortcut);
    }
    net.Join(name + ".add", Add{}, {sum, net.last()});
  }

  // Adds an attention of one head over all positions.
  void Attend(const std::string& name) {
    const NodeId input = net.last();
    net.Append(name + ".group_norm", GroupNormalization{kGroups});
    const NodeId normalised = net.last();
    std::vector<NodeId> projected;
    for (const char* of : {".to_q", ".to_k", ".to_v"}) {
      net.ContinueFrom(normalised);
      net.Append(name + of, Linear{channels});
      projected.push_back(net.last());
    }
    net.Join(name, Attention{1, {0, 0, 0}, net.Positions()}, projected);
    net.Append(name + ".to_out", Linear{channels});
    net.Join(name + ".add", Add{}, {input, net.last()});
  }

  void Begin() {
    Append("conv_in", 512);
    Residual("mid_block.resnets.0", 512);
    Attend("mid_block.attentions.0");
    Residual("mid_block.resnets.1", 512);
  }
  void Block(const std::string& name, int32_t filters) {
    for (const char* resnet : {".resnets.0", ".resnets.1", ".resnets.2"}) {
      Residual(name + resnet, filters);
    }
  }
  Result<Graph> End() {
    NormaliseAndActivate("conv_norm_out", "conv_act");
    Append("conv_out", 3);
    return net.Build();
  }
};

// Returns a convolution over three frames: the output's own frame and the two before it.
Convolution Causal(int32_t filters) {
  Convolution convolution;
  convolution.filters = filters;
  convolution.window = {3, 3, 3};
  convolution.pad = {2, 1, 1};
  convolution.extra_pad = {-2, 0, 0};
  return convolution;
}

constexpr int32_t kDecoderFilters[] = {512, 512, 256, 128};

}  // namespace

Result<Graph> VaeDecoder(const std::string& name) {
  Decoder decoder{Chain(name, Input{4, {1, 128, 128}, 2}),
                  [](int32_t filters) { return Square(filters, 3, 1, 1, true); }};
  decoder.Begin();
  for (size_t i = 0; i < std::size(kDecoderFilters); ++i) {
    const std::string block = "up_blocks." + std::to_string(i);
    decoder.Block(block, kDecoderFilters[i]);
    if (i + 1 == std::size(kDecoderFilters)) break;
    decoder.net.Append(block + ".nearest", Upsampling{{1, 2, 2}});
    decoder.Append(block + ".upsamplers.0.conv", kDecoderFilters[i]);
  }
  return decoder.End();
}

Result<Graph> VideoVae(const std::string& name) {
  Decoder decoder{Chain(name, Input{16, {5, 60, 104}, 3}), Causal};
  decoder.Begin();
  for (size_t i = 0; i < std::size(kDecoderFilters); ++i) {
    const std::string block = "up_blocks." + std::to_string(i);
    decoder.Block(block, kDecoderFilters[i]);
    if (i + 1 == std::size(kDecoderFilters)) break;
    const bool in_time = i > 0;
    decoder.net.Append(block + ".nearest", Upsampling{{in_time ? 2 : 1, 2, 2}});
    // The decoder does not double the first frame, so the copy of this frame is removed: f frames
    // become 2 f - 1.
    if (in_time) decoder.net.Append(block + ".first", Padding{{-1, 0, 0}, {0, 0, 0}});
    decoder.Append(block + ".upsamplers.0.conv", kDecoderFilters[i]);
  }
  return decoder.End();
}

}  // namespace ucudnn::planner
